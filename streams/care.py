"""Competence-Aware Reward-and-Advantage Engineering: equations 5 and 9 of the report.

Pure float64 functions of a group's valid members. Sums are correctly rounded (`fsum`) and
the deviation takes two passes: the result depends neither on the order of the members nor
on the interpreter, and is compared bit by bit whenever the log is replayed.
"""

from collections.abc import Sequence
from math import fsum, sqrt

import msgspec

from schemas.rollout_pb2 import Schedule
from schemas.scoring_pb2 import (
    REGIME_EFFICIENCY,
    REGIME_OUTCOME,
    REGIME_PROGRESS,
    REGIME_UNSCORED,
    Regime,
)

EPSILON = 1e-6
"""Added to the denominator of equation 9."""


class Phi(msgspec.Struct, frozen=True, array_like=True):
    """The reward schedule phi: thresholds, weights, and the scale that cost is measured on."""

    p_low: float
    p_high: float
    lambda_prog: float
    lambda_eff: float
    cost_unit: int
    cost_budget: float

    @classmethod
    def of(cls, schedule: Schedule) -> "Phi":
        return cls(
            schedule.p_low,
            schedule.p_high,
            schedule.lambda_prog,
            schedule.lambda_eff,
            schedule.cost_unit,
            schedule.cost_budget,
        )


class Outcome(msgspec.Struct, frozen=True):
    """One valid member: success s, verified progress and normalised cost e, both in [0, 1]."""

    success: bool
    progress: float
    cost: float


class Scored(msgspec.Struct, frozen=True):
    """What CARE makes of a group of G valid members; the lists have one entry a member.

    `anchor` is sigma_anchor where the floor of equation 9 applies, else 0. `reward_std` and
    `progress_std` are population standard deviations.
    """

    regime: Regime
    successes: int
    success_rate: float
    reward_terms: list[float]
    rewards: list[float]
    reward_mean: float
    reward_std: float
    progress_std: float
    anchor: float
    advantages: list[float]


def regime_of(success_rate: float, phi: Phi) -> Regime:
    """The regime of a group success rate: [0, p_low), [p_low, p_high), [p_high, 1]."""
    if success_rate < phi.p_low:
        return REGIME_PROGRESS
    if success_rate < phi.p_high:
        return REGIME_OUTCOME
    return REGIME_EFFICIENCY


def score(outcomes: Sequence[Outcome], phi: Phi) -> Scored:
    """Rewards (equation 5) and calibrated advantages (equation 9) of a group.

    Fewer than two members have no baseline: regime UNSCORED, every advantage 0. A group
    whose rewards are all equal gets advantages of exactly 0, whatever its deviation
    would round to.
    """
    size = len(outcomes)
    successes = sum(outcome.success for outcome in outcomes)
    success_rate = successes / size if size else 0.0
    regime = regime_of(success_rate, phi) if size >= 2 else REGIME_UNSCORED
    terms = [_reward_term(outcome, regime, phi) for outcome in outcomes]
    rewards = [float(outcome.success) + term for outcome, term in zip(outcomes, terms, strict=True)]
    mean = _mean(rewards)
    deviation = _deviation(rewards, mean)
    progress = [outcome.progress for outcome in outcomes]
    anchor = 0.0
    if regime == REGIME_EFFICIENCY:
        anchor = sqrt(phi.p_high * (1.0 - phi.p_high))
    if regime == REGIME_UNSCORED or _all_equal(rewards):
        advantages = [0.0] * size
    else:
        denominator = max(deviation, anchor) + EPSILON
        advantages = [(reward - mean) / denominator for reward in rewards]
    return Scored(
        regime=regime,
        successes=successes,
        success_rate=success_rate,
        reward_terms=terms,
        rewards=rewards,
        reward_mean=mean,
        reward_std=deviation,
        progress_std=_deviation(progress, _mean(progress)),
        anchor=anchor,
        advantages=advantages,
    )


def _reward_term(outcome: Outcome, regime: Regime, phi: Phi) -> float:
    if regime == REGIME_PROGRESS:
        return phi.lambda_prog * outcome.progress
    if regime == REGIME_EFFICIENCY:
        return -phi.lambda_eff * outcome.cost
    return 0.0


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def _deviation(values: Sequence[float], mean: float) -> float:
    """Population standard deviation; exactly 0 when all values are equal."""
    if _all_equal(values):
        return 0.0
    return sqrt(fsum([(value - mean) * (value - mean) for value in values]) / len(values))


def _all_equal(values: Sequence[float]) -> bool:
    return not values or values.count(values[0]) == len(values)
