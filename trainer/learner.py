"""Updates: windows in, changed weights out. A batch's result depends on the policy, the
batch and the seed, and on nothing else.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from safetensors import torch as safetensors
from torch import Tensor
from torch.optim import AdamW

from schemas.errors import CheckFailedError
from trainer.batch import MicroBatch, Window, micro_batches, steps, targets_in, tokens_in
from trainer.codec import PAD
from trainer.config import TrainConfig
from trainer.losses import clipped_loss, supervised_loss
from trainer.policy import Policy


class DivergedError(CheckFailedError):
    """A loss or gradient that is not finite. The update was not made."""

    failed = "update"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch has come. `loss` is of the last step (nats a token for "supervised")."""

    stage: str
    step: int
    steps: int
    loss: float
    tokens_per_second: float

    def said(self) -> str:
        return (
            f"{self.stage} {self.step}/{self.steps}, loss {self.loss:.4g}, "
            f"{self.tokens_per_second:,.0f} tokens/s"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an update did. `loss` is the mean over its last pass, `gradient_norm` that of the last
    step before clipping, `clipped_share` of the tokens with gradient, `tokens` what passed
    through the model."""

    loss: float
    gradient_norm: float
    clipped_share: float
    tokens: int
    seconds: float


class Learner:
    """Trains one policy in place."""

    def __init__(
        self,
        policy: Policy,
        config: TrainConfig,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._policy = policy
        self._config = config
        self._on_progress = on_progress
        self._pad = policy.codec.marks[PAD]

    def supervise(self, rows: Sequence[Window], batch_id: str) -> Outcome:
        """Minimise equation 4 over the rows, `supervised_passes` times through them."""
        config = self._config
        random = np.random.default_rng(_seed(config.seed, batch_id))
        plan = [steps(rows, config.rows_per_step, random) for _ in range(config.supervised_passes)]
        count = sum(len(a_pass) for a_pass in plan)
        optimiser = AdamW(
            self._policy.model.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=0.01
        )
        meter = _Meter("supervised", count, self._on_progress)
        norm = mean = 0.0
        for a_pass in plan:
            loss_sum = 0.0
            for step_rows in a_pass:
                number = meter.step
                total = targets_in(step_rows)
                rate = min(1.0, (number + 1) / config.supervised_warmup_steps)
                _set_rate(optimiser, config.supervised_learning_rate * rate * (1 - number / count))

                def objective(batch: MicroBatch, log_probs: Tensor, total: int = total) -> Tensor:
                    return supervised_loss(log_probs, batch.weights, total)

                loss, norm = self._step(
                    step_rows, objective, optimiser, f"{batch_id} step {number}"
                )
                loss_sum += loss * total
                meter.advance(loss, tokens_in(step_rows))
            mean = loss_sum / targets_in(rows)
        return Outcome(mean, norm, 0.0, meter.tokens, meter.seconds)

    def optimise(
        self, rows: Sequence[Window], groups: int, batch_id: str, state: bytes | None
    ) -> tuple[Outcome, bytes]:
        """One step on equation 10 over all rows of `groups` groups. `state` is the optimiser's
        after the last such step; the new one is returned."""
        config = self._config
        optimiser = AdamW(
            self._policy.model.parameters(),
            lr=config.care_learning_rate,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        done = 0 if state is None else load_optimiser(optimiser, self._policy, state)
        _set_rate(
            optimiser,
            config.care_learning_rate * min(1.0, (done + 1) / config.care_warmup_updates),
        )
        micro = -(-len(rows) // config.rows_per_micro_batch)
        meter = _Meter("care", micro, self._on_progress)
        held_back = 0

        def objective(batch: MicroBatch, log_probs: Tensor) -> Tensor:
            nonlocal held_back
            loss, clipped = clipped_loss(
                log_probs,
                batch.behaviour,
                batch.advantages,
                batch.weights,
                groups,
                config.epsilon_low,
                config.epsilon_high,
            )
            held_back += clipped
            meter.advance(loss.item(), batch.ids.numel())
            return loss

        loss, norm = self._step(rows, objective, optimiser, f"{batch_id} step 0")
        share = held_back / max(1, targets_in(rows))
        outcome = Outcome(loss, norm, share, tokens_in(rows), meter.seconds)
        return outcome, save_optimiser(optimiser, self._policy)

    def _step(
        self,
        rows: Sequence[Window],
        objective: Callable[[MicroBatch, Tensor], Tensor],
        optimiser: AdamW,
        where: str,
    ) -> tuple[float, float]:
        """Accumulate over micro-batches, then step once; the loss and the gradient's norm."""
        optimiser.zero_grad()
        total = 0.0
        for batch in micro_batches(rows, self._config.rows_per_micro_batch, self._pad):
            loss = objective(batch, self._policy.log_probs(batch))
            if not torch.isfinite(loss):
                raise _diverged("loss", loss.item(), where)
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(
            self._policy.model.parameters(), self._config.gradient_clip
        )
        if not torch.isfinite(norm):
            raise _diverged("gradient norm", norm.item(), where)
        optimiser.step()
        return total, norm.item()


def save_optimiser(optimiser: AdamW, policy: Policy) -> bytes:
    """The moments of every parameter by name, the same bytes for the same moments."""
    return safetensors.save(
        {
            f"{name}.{kind}": value.contiguous()
            for name, parameter in policy.model.named_parameters()
            for kind, value in optimiser.state[parameter].items()
        }
    )


def load_optimiser(optimiser: AdamW, policy: Policy, state: bytes) -> int:
    """Put saved moments back; the number of steps that they have seen."""
    moments: Mapping[str, Tensor] = safetensors.load(state)
    done = 0
    for name, parameter in policy.model.named_parameters():
        optimiser.state[parameter] = {
            kind: moments[f"{name}.{kind}"] for kind in ("step", "exp_avg", "exp_avg_sq")
        }
        done = int(moments[f"{name}.step"].item())
    return done


class _Meter:
    """Counts steps and tokens, and reports them."""

    def __init__(
        self, stage: str, count: int, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self.step = 0
        self.tokens = 0
        self._stage = stage
        self._count = count
        self._on_progress = on_progress
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def advance(self, loss: float, tokens: int) -> None:
        self.step += 1
        self.tokens += tokens
        if self._on_progress:
            rate = self.tokens / max(self.seconds, 1e-9)
            self._on_progress(Progress(self._stage, self.step, self._count, loss, rate))


def _set_rate(optimiser: AdamW, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def _seed(seed: int, batch_id: str) -> int:
    return int.from_bytes(sha256(f"{seed}:{batch_id}".encode()).digest()[:8], "big")


def _diverged(what: str, value: float, where: str) -> DivergedError:
    return DivergedError(
        f"the {what} of {where} is {value}; nothing of this batch was published",
        "lower the learning rate, or look at the batch's rows for extreme advantages",
    )
