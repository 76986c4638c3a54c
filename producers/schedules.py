"""Reward schedules that producers open groups under, and the names of schedules."""

from producers.minting import short_digest
from schemas.rollout_pb2 import COST_UNIT_OUTPUT_TOKENS, COST_UNIT_STEPS, CostUnit, Schedule

_BUDGETS = {COST_UNIT_STEPS: 30.0, COST_UNIT_OUTPUT_TOKENS: 4000.0}


def default_schedule(unit: CostUnit) -> Schedule:
    """The schedule of a log that brings none: budgets of 30 steps or 4,000 output tokens an
    episode, an absolute scale as equation 5 needs it."""
    return Schedule(
        p_low=0.25,
        p_high=0.75,
        lambda_prog=0.5,
        lambda_eff=0.1,
        cost_unit=unit,
        cost_budget=_BUDGETS[unit],
    )


def schedule_version(schedule: Schedule) -> str:
    """A name that two schedules share exactly when they are equal."""
    return "phi-" + short_digest(schedule.SerializeToString(deterministic=True), 12)
