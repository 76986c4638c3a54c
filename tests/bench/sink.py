"""The warehouse sink in events/s: its stages alone, and all of it from the broker to the tables."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from consumers.blocks import Block, Blocks
from consumers.sink import WarehouseSink
from consumers.writer import insert
from infra.log import Producer, Record, ensure_topics
from infra.settings import Endpoints, Settings
from infra.stack import down, up
from infra.warehouse import Warehouse
from producers.generator import bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS
from schemas.validation import vet
from tests.warehouses import fresh_database

EVENTS = 500_000
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
            return [
                figure for per_record in (25, 1) for figure in _measure(endpoints, per_record)
            ]
        finally:
            down(settings)


def _measure(endpoints: Endpoints, per_record: int) -> list[Figure]:
    records = [
        Record(ROLLOUTS.name, 0, offset, key, value, 1_750_000_000_000_000 + offset)
        for offset, (key, value) in enumerate(bench_records(EVENTS, per_record))
    ]
    topic = _on_the_broker(endpoints, records, per_record)
    blocks = _blocks(records)
    stages: dict[str, Callable[[], object]] = {
        "parse": lambda: _parse(records),
        "parse and check": lambda: _check(records),
        "rows": lambda: [block.tables() for block in _blocks(records)],
    }
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, work in stages.items():
            rates.setdefault(name, []).append(_rate(work))
        warehouse = fresh_database(endpoints.warehouse_url)
        rates.setdefault("insert", []).append(_rate(lambda: _insert(warehouse, blocks)))
        drop(warehouse)
        warehouse = fresh_database(endpoints.warehouse_url)
        rates.setdefault("sink", []).append(_rate(lambda: topic(warehouse)))
        drop(warehouse)
    of = {name: sorted(some)[ROUNDS // 2] for name, some in rates.items()}
    size = f"{per_record} a record"
    return [
        (f"sink: parse, {size}", of["parse"], "events/s", "protobuf"),
        (f"sink: parse and check, {size}", of["parse and check"], "events/s", "Python"),
        (f"sink: rows, {size}", of["rows"], "events/s", "Python"),
        (f"sink: insert, {size}", of["insert"], "events/s", "warehouse, disk"),
        (f"sink: all, {size}", of["sink"], "events/s", f"Python; at least {TARGET:,.0f}"),
        (f"sink: all over parse, {size}", of["sink"] / of["parse"], "ratio", "Python"),
        (f"sink: all over insert, {size}", of["sink"] / of["insert"], "ratio", "Python"),
    ]
