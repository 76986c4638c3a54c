"""The warehouse sink in events/s: its stages alone, and all of it from the broker to the tables."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from consumers.blocks import Block, Blocks
from consumers.sink import WarehouseSink
from consumers.writer import insert
from infra.log import Record
from infra.warehouse import Warehouse
from planloop.workers import Site
from producers.workload import EVENTS_PER_GROUP, bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS
from schemas.validation import vet
from tests.bench.brokers import Broker, Filled, filled, running
from tests.bench.figures import Figure, Section
from tests.warehouses import fresh_database

EVENTS = 5_000 * EVENTS_PER_GROUP
TARGET = 150_000.0


def run(brokers: Sequence[Broker], rounds: int, scale: float) -> Iterator[Section]:
    """Interleaved rounds on each broker, at 25 events a record and at one."""
    for broker in brokers:
        with running(broker) as site:
            for per_record in (25, 1):
                yield _measure(site, broker, per_record, rounds, int(EVENTS * scale))


def _measure(site: Site, broker: Broker, per_record: int, rounds: int, wanted: int) -> Section:
    records = [
        Record(ROLLOUTS.name, 0, offset, key.encode(), value, 1_750_000_000_000_000 + offset)
        for offset, (key, value) in enumerate(bench_records(wanted, per_record))
    ]
    topic = filled(site, wanted, per_record)
    blocks = _blocks(records)
    stages: dict[str, Callable[[Warehouse], object]] = {
        "parse": lambda _: _parse(records),
        "parse and check": lambda _: _check(records),
        "rows": lambda _: _tables(_blocks(records)),
        "insert": lambda warehouse: _insert(warehouse, blocks),
        "all": lambda warehouse: _sink(site, warehouse, topic),
    }
    rates: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(rounds):
        for name, work in stages.items():
            with fresh_database(site.endpoints.warehouse_url) as warehouse:
                start = time.perf_counter()
                work(warehouse)
                rates[name].append(topic.events / (time.perf_counter() - start))
    bounds = {
        "parse": "parse",
        "parse and check": "Python",
        "rows": "Python",
        "insert": "warehouse, disk",
        "all": "Python",
    }
    section = Section(f"warehouse sink on {broker}, {topic.events:,} events, {per_record} a record")
    for name in stages:
        target = TARGET if name == "all" else None
        section.figures.append(
            Figure.of(name, rates[name], "events/s", bounds[name], target=target)
        )
    for base in ("parse", "insert"):
        pairs = zip(rates["all"], rates[base], strict=True)
        section.figures.append(
            Figure.of(f"all / {base}", [mine / theirs for mine, theirs in pairs], "ratio")
        )
    return section


def _parse(records: Sequence[Record]) -> int:
    return sum(len(EventBatch.FromString(record.value or b"").events) for record in records)


def _check(records: Sequence[Record]) -> int:
    accepted = 0
    for record in records:
        value, key = record.value or b"", (record.key or b"").decode()
        for event in EventBatch.FromString(value).events:
            accepted += isinstance(vet(event, ROLLOUTS, key, len(value)), tuple)
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


def _sink(site: Site, warehouse: Warehouse, load: Filled) -> None:
    """From the broker to the tables, as `planloop process` does it."""
    topic = replace(ROLLOUTS, name=load.topic)
    done = WarehouseSink(site.endpoints.kafka, warehouse, _no_objects, [topic]).run()
    assert (done.events, done.refused) == (load.events, 0)


def _no_objects(key: str, _: bytes) -> None:
    raise AssertionError(f"{key}: a benchmark refuses nothing")


_POLL = 2000
