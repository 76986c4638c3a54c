"""CARE against golden vectors (eps = 1e-6, lambda_prog = .5) and its properties."""

from math import isfinite, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rollout_pb2 import COST_UNIT_OUTPUT_TOKENS
from schemas.scoring_pb2 import (
    REGIME_EFFICIENCY,
    REGIME_OUTCOME,
    REGIME_PROGRESS,
    REGIME_UNSCORED,
)
from streams.care import EPSILON, Outcome, Phi, score

COSTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9]
PROGRESS = [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.0]
SLOPE = [0.086602, 0.063508, 0.040414, 0.017320, -0.005773, -0.028867, -0.051961, -0.121243]


def schedule(lambda_eff: float = 0.1, p_low: float = 0.25, p_high: float = 0.75) -> Phi:
    return Phi(
        p_low=p_low,
        p_high=p_high,
        lambda_prog=0.5,
        lambda_eff=lambda_eff,
        cost_unit=COST_UNIT_OUTPUT_TOKENS,
        cost_budget=100.0,
    )


def group(successes: int, progress: list[float] | None = None) -> list[Outcome]:
    """Eight members, the first ones successful."""
    progress = progress or [0.0] * 8
    return [Outcome(i < successes, progress[i], COSTS[i]) for i in range(8)]


GOLDEN = {
    "8 of 8, floor on": (group(8), schedule(), REGIME_EFFICIENCY, 0.0272718, SLOPE),
    "8 of 8, a tenth of the weight is a tenth of the advantage": (
        group(8),
        schedule(lambda_eff=0.01),
        REGIME_EFFICIENCY,
        0.0027272,
        [value / 10 for value in SLOPE],
    ),
    "7 of 8, floor on": (
        group(7),
        schedule(),
        REGIME_EFFICIENCY,
        0.3510609,
        [0.375277, 0.352183, 0.329089, 0.305995, 0.282901, 0.259807, 0.236713, -2.141965],
    ),
    "6 of 8 is p_high exactly: efficiency, the deviation above the floor": (
        group(6),
        schedule(),
        REGIME_EFFICIENCY,
        0.4549657,
        [0.631914, 0.609935, 0.587955, 0.565976, 0.543996, 0.522016, -1.697927, -1.763866],
    ),
    "5 of 8": (
        group(5),
        schedule(),
        REGIME_OUTCOME,
        0.4841229,
        [0.774595] * 5 + [-1.290992] * 3,
    ),
    "2 of 8 is p_low exactly: outcome": (
        group(2),
        schedule(),
        REGIME_OUTCOME,
        0.4330127,
        [1.732047] * 2 + [-0.577349] * 6,
    ),
    "0 of 8 with progress": (
        group(0, PROGRESS),
        schedule(),
        REGIME_PROGRESS,
        0.1316586,
        [-1.068095] * 2 + [-0.118677] * 2 + [0.830741] * 2 + [1.780159, -1.068095],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vector(name: str):
    outcomes, phi, regime, deviation, advantages = GOLDEN[name]
    scored = score(outcomes, phi)
    assert scored.regime == regime
    assert scored.reward_std == pytest.approx(deviation, abs=5e-8)
    assert scored.advantages == pytest.approx(advantages, abs=1e-6)


def test_low_thresholds_put_a_mixed_group_into_the_efficiency_regime_without_the_floor():
    scored = score(group(4), schedule(p_low=0.2, p_high=0.4))
    assert scored.regime == REGIME_EFFICIENCY
    assert scored.anchor == pytest.approx(0.4899, abs=1e-4)
    assert scored.reward_std == pytest.approx(0.5227272, abs=5e-8)
    assert scored.advantages[0] == pytest.approx(1.028259, abs=1e-6)
    assert scored.advantages[-1] == pytest.approx(-1.056955, abs=1e-6)


@pytest.mark.parametrize(
    "outcomes",
    [
        [Outcome(False, 0.0, cost) for cost in COSTS],
        [Outcome(True, 1.0, 0.1) for _ in range(8)],
        [Outcome(False, 0.1 + 0.2, 0.3) for _ in range(3)],
    ],
    ids=["no progress", "equal cost", "a value that does not round well"],
)
def test_equal_rewards_give_exactly_no_advantage(outcomes: list[Outcome]):
    scored = score(outcomes, schedule())
    assert scored.advantages == [0.0] * len(outcomes)
    assert scored.reward_std == 0.0


def test_a_group_without_a_baseline_is_not_scored():
    for outcomes in ([], [Outcome(True, 1.0, 0.2)]):
        scored = score(outcomes, schedule())
        assert scored.regime == REGIME_UNSCORED
        assert scored.advantages == [0.0] * len(outcomes)


def test_the_floor_keeps_the_efficiency_weight_that_plain_normalisation_cancels():
    """Equation 8: without the floor both weights give the same advantages."""
    strong, weak = score(group(8), schedule(0.1)), score(group(8), schedule(0.01))
    for one, tenth in zip(strong.advantages, weak.advantages, strict=True):
        assert one == pytest.approx(10 * tenth, rel=1e-9)
    plain = [(r - strong.reward_mean) / (strong.reward_std + EPSILON) for r in strong.rewards]
    assert plain[0] == pytest.approx(1.374997, abs=1e-6)
    assert plain[-1] == pytest.approx(-1.924996, abs=1e-6)


unit = st.floats(0.0, 1.0)
groups_of = st.lists(st.builds(Outcome, st.booleans(), unit, unit), min_size=2, max_size=16)
schedules = st.builds(
    schedule,
    lambda_eff=st.floats(0.0, 0.99),
    p_low=st.floats(0.0, 0.5),
    p_high=st.floats(0.51, 0.99),
)


@given(groups_of, schedules)
def test_advantages_are_finite_centred_and_ordered_like_the_rewards(
    outcomes: list[Outcome], phi: Phi
):
    scored = score(outcomes, phi)
    assert all(isfinite(value) for value in scored.advantages)
    assert sum(scored.advantages) == pytest.approx(0.0, abs=1e-6)
    by_reward = sorted(range(len(outcomes)), key=lambda i: scored.rewards[i])
    ordered = [scored.advantages[i] for i in by_reward]
    assert ordered == sorted(ordered)


@given(groups_of, schedules)
def test_a_success_never_ranks_below_a_failure(outcomes: list[Outcome], phi: Phi):
    scored = score(outcomes, phi)
    wins = [r for r, o in zip(scored.rewards, outcomes, strict=True) if o.success]
    losses = [r for r, o in zip(scored.rewards, outcomes, strict=True) if not o.success]
    if wins and losses:
        assert min(wins) > max(losses)


@given(groups_of, schedules, st.randoms())
def test_the_order_of_the_members_changes_no_bit(outcomes: list[Outcome], phi: Phi, random: Random):
    order = list(range(len(outcomes)))
    random.shuffle(order)
    scored, shuffled = score(outcomes, phi), score([outcomes[i] for i in order], phi)
    assert [scored.advantages[i] for i in order] == shuffled.advantages
    assert scored.reward_std == shuffled.reward_std


@given(groups_of, schedules)
def test_the_spread_of_calibrated_advantages_never_exceeds_unit_scale(
    outcomes: list[Outcome], phi: Phi
):
    advantages = score(outcomes, phi).advantages
    assert sqrt(sum(a * a for a in advantages) / len(advantages)) <= 1.0 + 1e-9
