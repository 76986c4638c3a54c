"""What a run comes to, asked of the warehouse: counts, regimes, policies."""

from typing import Any

from infra.warehouse import Warehouse
from planloop.options import print_table

_COUNTS = """
SELECT
    (SELECT count() FROM events) AS events,
    (SELECT count() FROM groups) AS groups,
    (SELECT count() FROM episodes) AS episodes,
    (SELECT countIf(valid) FROM episodes) AS valid,
    (SELECT countIf(valid AND success) FROM episodes) AS successes,
    (SELECT count() FROM tool_calls) AS tool_calls,
    (SELECT countIf(outcome = 'retained') FROM training_records) AS training_records,
    (SELECT count() FROM dead_letters) AS dead_letters
"""
_COUNT_NAMES = (
    "events",
    "groups",
    "episodes",
    "valid",
    "successes",
    "tool_calls",
    "training_records",
    "dead_letters",
)
_REGIMES = """
SELECT regime, count(), sum(valid), sum(successes), avg(success_rate), avg(reward_std)
FROM groups GROUP BY regime
ORDER BY indexOf(['progress', 'outcome', 'efficiency', 'unscored'], regime)
"""
_REGIME_COLUMNS = ("regime", "groups", "episodes", "successes", "success_rate", "reward_std")
_POLICIES = "SELECT policy FROM policies ORDER BY update, policy"


def summary(warehouse: Warehouse) -> dict[str, Any]:
    """The whole warehouse in one document."""
    (counts,) = warehouse.rows(_COUNTS)
    return {
        **dict(zip(_COUNT_NAMES, counts, strict=True)),
        "regimes": {row[0]: row[1] for row in warehouse.rows(_REGIMES)},
        "policies": [row[0] for row in warehouse.rows(_POLICIES)],
    }


def show_summary(warehouse: Warehouse) -> None:
    """The same for people: counts, regimes and policies."""
    (counts,) = warehouse.rows(_COUNTS)
    named = [
        (name.replace("_", " "), count) for name, count in zip(_COUNT_NAMES, counts, strict=True)
    ]
    print_table("on the log", ("what", "count"), named)
    print_table("groups by regime", _REGIME_COLUMNS, warehouse.rows(_REGIMES))
    policies = [row[0] for row in warehouse.rows(_POLICIES)]
    print_table("policies", ["policy"], [[policy] for policy in policies])
