from collections import Counter

import pytest

from infra.log import Record
from producers.workload import EVENTS_PER_GROUP, bench_records
from schemas.batch import Batch
from schemas.scoring_pb2 import REGIME_EFFICIENCY, REGIME_OUTCOME, REGIME_PROGRESS
from schemas.topics import ROLLOUTS
from streams.driver import drive
from streams.groups import GroupFold


def log_records(events: int, per_record: int) -> list[Record]:
    pairs = bench_records(events, per_record)
    return [
        Record(ROLLOUTS.name, 0, offset, key.encode(), value, 0)
        for offset, (key, value) in enumerate(pairs)
    ]


@pytest.mark.parametrize("per_record", [1, 25])
def test_the_workload_is_what_it_says(per_record: int) -> None:
    records = log_records(80 * EVENTS_PER_GROUP, per_record)
    sizes: list[int] = []
    size = 0
    for record in records:
        claimed = Batch(record.value, record.key, ROLLOUTS)
        parsed = Batch(record.value, record.key, ROLLOUTS, trust=False)
        assert not parsed.refusals
        assert claimed.runs == parsed.runs
        sizes.append(sum(len(run.bodies) for run in parsed.runs))
        size += len(record.value or b"")
    events = sum(sizes)
    assert events == 80 * EVENTS_PER_GROUP
    assert 230 <= size / events <= 340
    longest = max(
        sum(len(run.bodies) for run in Batch(r.value, r.key, ROLLOUTS).runs) for r in records
    )
    assert longest == per_record
    assert len({record.key for record in records}) == 80


def test_folding_it_scores_every_group_in_all_regimes() -> None:
    derived = drive(GroupFold(), log_records(80 * EVENTS_PER_GROUP, 25)).events
    regimes = Counter(e.group_scored.regime for e in derived if e.HasField("group_scored"))
    assert sum(regimes.values()) == 80
    assert all(regimes[r] for r in (REGIME_PROGRESS, REGIME_OUTCOME, REGIME_EFFICIENCY))


def test_groups_are_interleaved() -> None:
    keys = [record.key for record in log_records(10 * EVENTS_PER_GROUP, 25)]
    assert len(set(keys[:10])) == 10
