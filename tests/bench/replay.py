"""Replay from the archive into scored groups, against reading the Parquet alone, in events/s."""

import time
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from consumers.archive import archived_partitions, read_archive, segments, write_segment
from consumers.replay import Past, replay
from infra.log import Record
from producers.workload import bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS
from streams.groups import GroupFold
from tests.bench.brokers import Broker
from tests.bench.figures import Figure, Section
from tests.consumers.memory_store import MemoryStore

EVENTS = 500_000
PER_RECORD = 25
SEGMENT_RECORDS = 8_000
TARGET = 0.5


def run(brokers: Sequence[Broker], rounds: int, scale: float) -> Iterator[Section]:
    """Interleaved rounds over segments in memory; no broker takes part."""
    events = int(EVENTS * scale)
    store = _archive(events)
    stages: dict[str, Callable[[MemoryStore], int]] = {
        "Parquet alone": _parquet,
        "Parquet and parse": _parse,
        "replay": _replay,
    }
    rates: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(rounds):
        for name, work in stages.items():
            start = time.perf_counter()
            work(store)
            rates[name].append(events / (time.perf_counter() - start))
    bounds = {"Parquet alone": "zstd, memory", "Parquet and parse": "parse", "replay": "Python"}
    section = Section(f"replay from the archive, {events:,} events, {PER_RECORD} a record")
    section.figures += [Figure.of(name, rates[name], "events/s", bounds[name]) for name in stages]
    section.figures += [
        Figure.of(
            f"replay / {base}",
            [mine / theirs for mine, theirs in zip(rates["replay"], rates[base], strict=True)],
            "ratio",
            target=target,
        )
        for base, target in (("Parquet alone", TARGET), ("Parquet and parse", None))
    ]
    yield section


def _archive(events: int) -> MemoryStore:
    store = MemoryStore()
    records = [
        Record(ROLLOUTS.name, 0, offset, key.encode(), value, 1_750_000_000_000_000 + offset)
        for offset, (key, value) in enumerate(bench_records(events, PER_RECORD))
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
