import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.losses import clipped_loss, supervised_loss

LOW, HIGH = 0.2, 0.28


def equation_10(new, old, advantages, weights, groups):
    """The objective, negated, in float64 and token by token."""
    total = 0.0
    for n, o, a, w in zip(new, old, advantages, weights, strict=True):
        ratio = math.exp(n - o)
        total += w * min(ratio * a, min(max(ratio, 1 - LOW), 1 + HIGH) * a)
    return -total / groups


@given(
    st.lists(
        st.tuples(
            st.floats(-5, 0), st.floats(-1, 1), st.floats(-3, 3), st.sampled_from([0.0, 0.05, 0.5])
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 5),
)
def test_clipped_loss_is_equation_10(tokens, groups):
    old, shift, advantages, weights = (np.array(column) for column in zip(*tokens, strict=True))
    new = old + shift
    loss, _ = clipped_loss(
        torch.tensor(new),
        torch.tensor(old),
        torch.tensor(advantages),
        torch.tensor(weights),
        groups,
        LOW,
        HIGH,
    )
    expected = equation_10(new, old, advantages, weights, groups)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "slope", "held_back"),
    [
        (1.5, 1.0, 1.28, 0.0, 1),  # above the upper clip, good: held back
        (1.5, -1.0, -1.5, -1.5, 0),  # above the upper clip, bad: pushed down in full
        (0.5, 1.0, 0.5, 0.5, 0),  # below the lower clip, good: pulled up in full
        (0.5, -1.0, -0.8, 0.0, 1),  # below the lower clip, bad: held back
        (1.25, 1.0, 1.25, 1.25, 0),  # the upper range is wider than the lower
        (0.75, -1.0, -0.8, 0.0, 1),
    ],
)
def test_clip_is_asymmetric_and_one_sided(ratio, advantage, value, slope, held_back):
    new = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, dtype=torch.float64)
    loss, held = clipped_loss(new, 0 * one, advantage * one, one, 1, LOW, HIGH)
    loss.backward()
    assert loss.item() == pytest.approx(-value)
    assert new.grad is not None
    assert new.grad.item() == pytest.approx(-slope)
    assert held == held_back


def test_unchanged_policy_has_ratio_one():
    log_probs = torch.tensor([-1.3, -0.2, -7.0], requires_grad=True)
    advantages = torch.tensor([1.0, -2.0, 0.5])
    weights = torch.tensor([0.1, 0.2, 0.3])
    for behaviour in (log_probs.detach().clone(), torch.full((3,), torch.nan)):
        loss, held = clipped_loss(log_probs, behaviour, advantages, weights, 1, LOW, HIGH)
        assert loss.item() == -(advantages * weights).sum().item()
        (gradient,) = torch.autograd.grad(loss, log_probs)
        assert torch.equal(gradient, -(advantages * weights))
        assert held == 0


def test_padding_of_weight_zero_is_nothing():
    """Whatever stands at a padded token: no loss, no gradient, no NaN."""
    log_probs = torch.tensor([-1.0, -torch.inf, -3.0, -1e30], requires_grad=True)
    behaviour = torch.tensor([-1.0, 0.0, torch.inf, -2.0])
    advantages = torch.tensor([1.0, torch.nan, torch.inf, 1e30])
    weights = torch.tensor([0.5, 0.0, 0.0, 0.0])
    loss, _ = clipped_loss(log_probs, behaviour, advantages, weights, 1, LOW, HIGH)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == -0.5
    assert gradient.tolist() == [-0.5, 0.0, 0.0, 0.0]


def test_a_huge_ratio_stays_finite():
    log_probs = torch.tensor([0.0, 0.0], requires_grad=True)
    behaviour = torch.tensor([-500.0, -500.0])
    loss, held = clipped_loss(
        log_probs, behaviour, torch.tensor([1.0, -1.0]), torch.ones(2), 1, LOW, HIGH
    )
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert held == 1


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_to_train_on_is_zero_and_finite(count):
    log_probs = torch.randn(count, requires_grad=True)
    zero = torch.zeros(count)
    for loss in (
        supervised_loss(log_probs, zero, 0),
        clipped_loss(log_probs, zero, zero, zero, 0, LOW, HIGH)[0],
    ):
        (gradient,) = torch.autograd.grad(loss, log_probs)
        assert loss.item() == 0
        assert not gradient.any()


def test_supervised_loss_weighs_tokens_not_micro_batches():
    """100 tokens at 2.0 and 900 at 0.5 are 0.65 a token, not the 1.25 of a mean of means."""
    dear, cheap = torch.full((100,), -2.0), torch.full((900,), -0.5)
    parts = [supervised_loss(part, torch.ones_like(part), 1000) for part in (dear, cheap)]
    assert sum(part.item() for part in parts) == pytest.approx(0.65)


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_any_split_adds_up(assignment):
    generator = torch.Generator().manual_seed(7)
    log_probs = -torch.rand(6, generator=generator, dtype=torch.float64)
    behaviour = log_probs + 0.5 * torch.randn(6, generator=generator, dtype=torch.float64)
    advantages = torch.randn(6, generator=generator, dtype=torch.float64)
    weights = torch.rand(6, generator=generator, dtype=torch.float64)
    whole = clipped_loss(log_probs, behaviour, advantages, weights, 3, LOW, HIGH)[0]
    parts = 0.0
    for number in range(3):
        mine = torch.tensor([a == number for a in assignment])
        parts += clipped_loss(
            log_probs[mine], behaviour[mine], advantages[mine], weights[mine], 3, LOW, HIGH
        )[0].item()
    assert parts == pytest.approx(whole.item(), abs=1e-12)
