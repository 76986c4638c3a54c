"""Replay from the archive against reading its Parquet alone, in events/s."""

import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from consumers.archive import archived_partitions, read_archive, segments, write_segment
from consumers.replay import Past, replay
from infra.log import Record
from producers.workload import bench_records
from schemas.topics import ROLLOUTS
from streams.groups import GroupFold
from tests.consumers.memory_store import MemoryStore

EVENTS = 500_000
PER_RECORD = 25
SEGMENT_RECORDS = 8_000
ROUNDS = 5
TARGET = 0.5


def run() -> dict[str, float]:
    """Medians over interleaved rounds. `ratio` is replay over Parquet alone, at least TARGET."""
    store = _archive()
    scored = 0
    figures: dict[str, list[float]] = {"parquet": [], "records": [], "replay": []}
    for _ in range(ROUNDS):
        figures["parquet"].append(_rate(lambda: _parquet(store)))
        figures["records"].append(_rate(lambda: _records(store)))
        figures["replay"].append(_rate(lambda: _replay(store)))
    scored = _replay(store)
    median = {name: sorted(values)[ROUNDS // 2] for name, values in figures.items()}
    return median | {"ratio": median["replay"] / median["parquet"], "scored": float(scored)}


def _archive() -> MemoryStore:
    store = MemoryStore()
    records = [
        Record(ROLLOUTS.name, 0, offset, key.encode(), value, 1_750_000_000_000_000 + offset)
        for offset, (key, value) in enumerate(bench_records(EVENTS, PER_RECORD))
    ]
    for start in range(0, len(records), SEGMENT_RECORDS):
        some = records[start : start + SEGMENT_RECORDS]
        write_segment(store, ROLLOUTS.name, 0, some[0].offset, some[-1].offset, some)
    return store


def _rate(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return EVENTS / (time.perf_counter() - start)


def _parquet(store: MemoryStore) -> int:
    """Every column of every segment as Python values, nothing else."""
    values = 0
    for partition in archived_partitions(store, ROLLOUTS.name):
        for segment in segments(store, ROLLOUTS.name, partition):
            table = pq.read_table(pa.BufferReader(store.get(segment.key)))
            values += sum(len(column.to_pylist()) for column in table.columns)
    return values


def _records(store: MemoryStore) -> int:
    return sum(len(batch) for batch in read_archive(store, ROLLOUTS.name, 0))


def _replay(store: MemoryStore) -> int:
    outputs = replay(Past(store), ROLLOUTS, [GroupFold()])
    return sum(event.HasField("group_scored") for output in outputs for event in output.events)
