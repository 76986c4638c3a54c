"""Replay: the same derived events again, from any source, without any effect."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from consumers.archive import read_archive, write_segment
from consumers.curation import CurationFold
from consumers.rebuild import rebuild
from consumers.replay import ALL, Past, Span, replay
from consumers.tables import TABLES
from consumers.writer import NEXT, Checksum, TableWriter, checksum
from infra.log import Producer, read_range
from infra.objects import ObjectStore
from infra.settings import Endpoints
from infra.warehouse import Warehouse
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.topics import CATALOGUE, GROUPS, ROLLOUTS, Topic
from streams.driver import Driver
from streams.fold import Fold
from streams.groups import GroupFold
from tests.consumers.archived import append, archived, rollout_events
from tests.consumers.memory_store import MemoryStore
from tests.consumers.rollouts import NOON, as_records, done, opened
from tests.warehouses import fresh_database


def derived(past: Past, span: Span = ALL, *, trust: bool = True) -> list[Event]:
    folds: list[Fold[Any]] = [GroupFold(), CurationFold()]
    return [e for output in replay(past, ROLLOUTS, folds, span, trust=trust) for e in output.events]


@pytest.mark.parametrize("trust", [True, False])
def test_replay_derives_what_was_derived_to_the_byte(trust: bool) -> None:
    records = as_records(rollout_events())
    expected = Driver(ROLLOUTS, [GroupFold(), CurationFold()]).apply(records).events
    assert derived(Past(archived()), trust=trust) == expected


def test_replay_of_some_groups_only() -> None:
    store = archived()
    some = derived(Past(store), Span(keys=frozenset([b"group-1"])))
    assert {event.group_id for event in some} == {"group-1"}
    whole = [event for event in derived(Past(store)) if event.group_id == "group-1"]
    assert some == whole


def test_spans_of_offsets_and_broker_times() -> None:
    past = Past(archived())

    def offsets(span: Span) -> list[int]:
        return [r.offset for batch in past.records(ROLLOUTS.name, 0, span) for r in batch]

    end = offsets(Span())[-1]
    assert offsets(Span(first=3, last=5)) == [3, 4, 5]
    assert offsets(Span(since=NOON + 2, until=NOON + 6)) == [2, 3, 4, 5]
    assert offsets(Span(first=end + 1)) == []


def test_nothing_to_read_from_is_an_error() -> None:
    with pytest.raises(InputError):
        Past()


def test_archive_first_and_then_what_only_the_log_has(
    broker: str, fresh_topic: Callable[..., Topic]
) -> None:
    topic = fresh_topic()
    producer = Producer(broker)
    for number in range(40):
        producer.send(topic.name, f"k{number % 4}", b"%d" % number)
    producer.close()
    whole = [one for batch in read_range(broker, topic.name, 0) for one in batch]
    store = MemoryStore()
    write_segment(store, topic.name, 0, 0, 24, whole[:25])

    def read(past: Past, span: Span = ALL) -> list[Any]:
        return [one for batch in past.records(topic.name, 0, span) for one in batch]

    both = Past(store, broker)
    assert both.partitions(topic.name) == [0]
    assert read(both) == whole
    assert read(Past(store)) == whole[:25]
    assert read(Past(bootstrap=broker)) == whole
    assert read(both, Span(first=20, last=29)) == whole[20:30]
    assert read(both, Span(first=5, last=9)) == whole[5:10]
    assert read(both, Span(first=30)) == whole[30:]
    assert read(both, Span(keys=frozenset([b"k1"]))) == whole[1::4]
    late = Span(since=whole[-1].timestamp)
    assert read(both, late) == [one for one in whole if one.timestamp >= whole[-1].timestamp]


def _write_tables(store: MemoryStore, writer: TableWriter) -> None:
    for topic in CATALOGUE:
        for batch in read_archive(store, topic.name, 0):
            writer.write(batch)
    writer.flush()


@pytest.fixture
def live(stack: Endpoints) -> Iterator[Warehouse]:
    with fresh_database(stack.warehouse_url) as warehouse:
        yield warehouse


@pytest.fixture
def empty(stack: Endpoints) -> Iterator[Warehouse]:
    with fresh_database(stack.warehouse_url) as warehouse:
        yield warehouse


def test_rebuilt_warehouse_equals_the_lost_one(live: Warehouse, empty: Warehouse) -> None:
    store = archived()
    _write_tables(store, TableWriter(live))
    before = {table: checksum(live, table) for table in TABLES}

    seen: list[int] = []
    report = rebuild(Past(store), live, on_progress=seen.append)
    assert [one.table for one in report] == list(TABLES)
    assert all(one.equal for one in report)
    assert {one.table: one.before for one in report} == before
    assert seen[-1] == _records(store)
    assert {table: checksum(live, table) for table in TABLES} == before
    assert live.rows("SELECT count() FROM groups") == [(3,)]

    report = rebuild(Past(store), empty)
    assert {one.table: one.after for one in report} == before
    assert {table: checksum(empty, table) for table in TABLES} == before
    filled = [one for one in report if one.after.rows]
    assert len(filled) >= 6
    assert not any(one.equal for one in filled)
    names = empty.rows("SELECT name FROM system.tables WHERE database = currentDatabase()")
    assert not [name for (name,) in names if name.endswith(NEXT)]


def test_rebuild_reports_a_table_that_was_wrong_and_puts_it_right(live: Warehouse) -> None:
    store = archived()
    _write_tables(store, TableWriter(live))
    stray = as_records([opened("stray"), *done("stray", "s").events], first_offset=900)
    writer = TableWriter(live)
    writer.write(stray)
    writer.flush()
    report = {one.table: one for one in rebuild(Past(store), live)}
    assert not report["event_facts"].equal
    assert report["event_facts"].before.rows == report["event_facts"].after.rows + 9
    assert report["group_facts"].equal
    assert live.rows("SELECT count() FROM events WHERE group_id = 'stray'") == [(0,)]


def test_what_a_sink_writes_during_a_rebuild_is_kept(live: Warehouse) -> None:
    store = archived()
    _write_tables(store, TableWriter(live))
    total = _records(store)
    added = [event for event in rollout_events(4) if event.group_id == "group-3"]
    after: dict[str, Checksum] = {}

    def sink(read: int) -> None:
        """Once the rebuild has read everything, the log grows and so do the old tables."""
        if read == total:
            append(store, added)
            _write_tables(store, TableWriter(live))
            after.update({table: checksum(live, table) for table in TABLES})

    rebuild(Past(store), live, on_progress=sink)
    assert after
    assert {table: checksum(live, table) for table in TABLES} == after


def _records(store: MemoryStore) -> int:
    parts = [batch for topic in CATALOGUE for batch in read_archive(store, topic.name, 0)]
    return sum(map(len, parts))


def test_replay_reads_from_a_real_store(stack: Endpoints) -> None:
    memory, real = archived(), ObjectStore(stack)
    for key, _ in memory.list("archive/"):
        real.put(key, memory.get(key))
    assert derived(Past(real)) == derived(Past(memory))
    assert Past(real).partitions(GROUPS.name) == [0]
