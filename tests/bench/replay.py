"""Replay from the archive into scored groups, against reading the Parquet alone, in events/s."""

import statistics
import sys
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from consumers.archive import archived_partitions, read_archive, segments, write_segment
from consumers.replay import Past, replay
from infra.log import Record
from producers.workload import bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS
from streams.groups import GroupFold
from tests.consumers.memory_store import MemoryStore

EVENTS = 500_000
PER_RECORD = 25
SEGMENT_RECORDS = 8_000
ROUNDS = 5
TARGET = 0.5

Figure = tuple[str, float, str, str]
"""Name, value, unit, and what bounds it."""


def run() -> list[Figure]:
    """Medians over interleaved rounds of 25 events a record, from segments in memory."""
    store = _archive()
    stages: dict[str, Callable[[MemoryStore], int]] = {
        "Parquet alone": _parquet,
        "Parquet and parse": _parse,
        "replay": _replay,
    }
    rates: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(ROUNDS):
        for name, work in stages.items():
            start = time.perf_counter()
            work(store)
            rates[name].append(EVENTS / (time.perf_counter() - start))
    median = {name: statistics.median(some) for name, some in rates.items()}
    bounds = {"Parquet alone": "zstd, memory", "Parquet and parse": "protobuf", "replay": "Python"}
    return [
        *((f"archive: {name}", median[name], "events/s", bounds[name]) for name in stages),
        *(
            (f"replay over {name}", median["replay"] / median[name], "ratio", f"at least {TARGET}")
            for name in ("Parquet alone", "Parquet and parse")
        ),
    ]


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


def _parquet(store: MemoryStore) -> int:
    """Every column of every segment as Python values, nothing else."""
    values = 0
    for partition in archived_partitions(store, ROLLOUTS.name):
        for segment in segments(store, ROLLOUTS.name, partition):
            table = pq.read_table(pa.BufferReader(store.get(segment.key)))
            values += sum(len(column.to_pylist()) for column in table.columns)
    return values


def _parse(store: MemoryStore) -> int:
    """Every event of the archive as a message, nothing else."""
    return sum(
        len(EventBatch.FromString(record.value or b"").events)
        for batch in read_archive(store, ROLLOUTS.name, 0)
        for record in batch
    )


def _replay(store: MemoryStore) -> int:
    outputs = replay(Past(store), ROLLOUTS, [GroupFold()])
    return sum(event.HasField("group_scored") for output in outputs for event in output.events)


if __name__ == "__main__":
    for name, value, unit, bound in run():
        sys.stdout.write(f"{name:<34} {value:>14,.2f} {unit:<10} {bound}\n")
