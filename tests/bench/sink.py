"""The warehouse sink in events/s: its stages alone, and all of it from the broker to the tables."""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from consumers.blocks import Block, Blocks
from consumers.sink import WarehouseSink
from consumers.writer import insert
from infra.log import Producer, Record, ensure_topics
from infra.settings import Endpoints, Settings
from infra.stack import down, up
from infra.warehouse import Warehouse
from producers.workload import EVENTS_PER_GROUP, bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS, Topic
from schemas.validation import vet
from tests.warehouses import fresh_database

EVENTS = 5_000 * EVENTS_PER_GROUP
ROUNDS = 5
TARGET = 150_000.0

Figure = tuple[str, float, str, str]
"""Name, value, unit, and what bounds it."""


def run() -> list[Figure]:
    """Medians over interleaved rounds, at 25 events a record and at one."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            state=Path(folder), kafka_bootstrap=None, s3_endpoint=None, warehouse_url=None
        )
        try:
            endpoints = up(settings)
            return [figure for per_record in (25, 1) for figure in _measure(endpoints, per_record)]
        finally:
            down(settings)


def _measure(endpoints: Endpoints, per_record: int) -> list[Figure]:
    records = [
        Record(ROLLOUTS.name, 0, offset, key.encode(), value, 1_750_000_000_000_000 + offset)
        for offset, (key, value) in enumerate(bench_records(EVENTS, per_record))
    ]
    topic = _on_the_broker(endpoints.kafka, records, per_record)
    blocks = _blocks(records)
    stages: dict[str, Callable[[Warehouse], object]] = {
        "parse": lambda _: _parse(records),
        "parse and check": lambda _: _check(records),
        "rows": lambda _: _tables(_blocks(records)),
        "insert": lambda warehouse: _insert(warehouse, blocks),
        "all": lambda warehouse: _sink(endpoints.kafka, warehouse, topic),
    }
    rates: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(ROUNDS):
        for name, work in stages.items():
            with fresh_database(endpoints.warehouse_url) as warehouse:
                start = time.perf_counter()
                work(warehouse)
                rates[name].append(EVENTS / (time.perf_counter() - start))
    median = {name: statistics.median(some) for name, some in rates.items()}
    bounds = {
        "parse": "protobuf",
        "parse and check": "Python",
        "rows": "Python",
        "insert": "warehouse, disk",
        "all": f"Python; at least {TARGET:,.0f}",
    }
    size = f"{per_record} a record"
    return [
        *((f"sink {name}, {size}", median[name], "events/s", bounds[name]) for name in stages),
        (f"sink all over parse, {size}", median["all"] / median["parse"], "ratio", "Python"),
        (f"sink all over insert, {size}", median["all"] / median["insert"], "ratio", "Python"),
    ]


def _parse(records: Sequence[Record]) -> int:
    return sum(len(EventBatch.FromString(record.value or b"").events) for record in records)


def _check(records: Sequence[Record]) -> int:
    accepted = 0
    for record in records:
        value, key = record.value or b"", (record.key or b"").decode()
        for event in EventBatch.FromString(value).events:
            accepted += isinstance(vet(event, ROLLOUTS, key, len(value)), tuple)
    assert accepted == EVENTS
    return accepted


def _blocks(records: Sequence[Record]) -> list[Block]:
    """Blocks as the sink cuts them, from polls of its size."""
    blocks = Blocks()
    full: list[Block] = []
    for start in range(0, len(records), _POLL):
        full += blocks.add(records[start : start + _POLL])
    return full + blocks.drain()


def _tables(blocks: Sequence[Block]) -> int:
    return sum(len(block.tables()) for block in blocks)


def _insert(warehouse: Warehouse, blocks: Sequence[Block]) -> None:
    for block in blocks:
        insert(warehouse, block)


def _on_the_broker(bootstrap: str, records: Sequence[Record], per_record: int) -> Topic:
    topic = replace(ROLLOUTS, name=f"{ROLLOUTS.name}.bench.{per_record}")
    ensure_topics(bootstrap, [topic])
    producer = Producer(bootstrap)
    for record in records:
        producer.send(topic.name, record.key or b"", record.value or b"")
    producer.close()
    return topic


def _sink(bootstrap: str, warehouse: Warehouse, topic: Topic) -> None:
    """From the broker to the tables, as `planloop process` does it."""
    done = WarehouseSink(bootstrap, warehouse, _no_objects, [topic]).run()
    assert (done.events, done.refused) == (EVENTS, 0)


def _no_objects(key: str, _: bytes) -> None:
    raise AssertionError(f"{key}: a benchmark refuses nothing")


_POLL = 2000


if __name__ == "__main__":
    for name, value, unit, bound in run():
        sys.stdout.write(f"{name:36} {value:14,.2f} {unit:9} {bound}\n")
