"""The two objectives, as sums over tokens with denominators that the caller states.

Nothing here divides by what it happens to be given. A loss is a sum over tokens whose
weights cover the whole accumulation window, so that any split into micro-batches adds
up to the same loss and the same gradient.
"""

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""Beyond this exp() leaves float32's useful range; the clipped side is constant long before."""


def supervised_loss(log_probs: Tensor, weights: Tensor, total: float) -> Tensor:
    """Equation 4: minus the weighted sum of log-probabilities over Z.

    `log_probs` and `weights` are (tokens,); `total` is Z, the unmasked model-generated tokens
    of the whole accumulation window. With no token at all the loss is 0 with zero gradient.
    """
    return -(log_probs * weights).sum() / max(total, 1.0)


def clipped_loss(
    log_probs: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    weights: Tensor,
    total: float,
    epsilon_low: float,
    epsilon_high: float,
) -> tuple[Tensor, int]:
    """Equation 10, negated, and how many tokens the clip holds back.

    All tensors are (tokens,). `weights` carries 1 / (G_eff T_i) of each token's rollout and
    `total` is the number of groups in the whole accumulation window, over which the objective
    takes its mean; a token of weight 0 is padding, whatever else it holds. `behaviour` is the
    log-probability under the policy that sampled the token; where it is NaN (a foreign policy
    whose probabilities nobody recorded) the policy at the start of the update stands in, which
    in the single step of an update is the current one: the ratio there is exactly 1.
    """
    live = weights != 0
    old = torch.where(torch.isnan(behaviour), log_probs.detach(), behaviour)
    log_ratio = torch.where(live, log_probs - old, torch.zeros_like(log_probs))
    ratio = log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
    advantages = torch.where(live, advantages, torch.zeros_like(advantages))
    plain = ratio * advantages
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * advantages
    held_back = int((live & (clipped < plain)).sum())
    return -(torch.minimum(plain, clipped) * weights).sum() / max(total, 1.0), held_back
