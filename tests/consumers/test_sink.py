"""The warehouse sink on a real broker and a real warehouse: nothing lost, nothing twice."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from consumers.delivery import CONSUMER, Delivered
from consumers.lag import Lag
from consumers.sink import WarehouseSink
from consumers.tables import TABLES
from consumers.writer import Checksum, checksum
from infra.log import Producer, end_offsets
from infra.settings import Endpoints
from infra.warehouse import Warehouse, WarehouseError
from schemas.errors import InfrastructureAwayError
from schemas.event_pb2 import Event, EventBatch
from schemas.topics import COMPETENCE, CURATION, DEAD_LETTERS, GROUPS, ROLLOUTS, Topic, topic_of
from streams.engine import TooManyRefusedError
from tests.consumers.history import derived, rollouts, whole
from tests.consumers.rollouts import done
from tests.warehouses import fresh_database

FreshTopic = Callable[..., Topic]


@pytest.fixture
def warehouse(stack: Endpoints) -> Iterator[Warehouse]:
    with fresh_database(stack.warehouse_url) as fresh:
        yield fresh


class Log:
    """Topics of a test's own, under a sink that writes them."""

    def __init__(self, broker: str, fresh_topic: FreshTopic) -> None:
        self.broker = broker
        self.topics = {
            like.name: fresh_topic(partitions=partitions, like=like)
            for like, partitions in ((ROLLOUTS, 2), (GROUPS, 1), (COMPETENCE, 1), (CURATION, 1))
        }

    def send(self, events: list[Event]) -> None:
        producer = Producer(self.broker)
        for event in events:
            own = self.topics.get(topic_of(event.WhichOneof("body") or "").name)
            if own:
                producer.send_events(own, [event])
        producer.close()

    def send_raw(self, like: Topic, value: bytes, key: str = "k") -> None:
        producer = Producer(self.broker)
        producer.send(self.topics[like.name].name, key, value)
        producer.close()

    def sink(self, warehouse: Warehouse, **options: Any) -> WarehouseSink:
        return WarehouseSink(
            self.broker, warehouse, _no_objects, list(self.topics.values()), **options
        )


def _no_objects(key: str, data: bytes) -> None:
    raise AssertionError(f"{key}: nothing here is too long for a dead letter")


@pytest.fixture
def log(broker: str, fresh_topic: FreshTopic) -> Log:
    return Log(broker, fresh_topic)


class Faulty:
    """A warehouse whose inserts fail as `fails(table, number of the insert)` says, before or
    after the rows are in."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.inserts = 0
        self.fails: Callable[[str, int], Exception | None] = lambda table, number: None
        self.tokens: list[str] = []

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        self.warehouse.execute(sql, params)

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return self.warehouse.rows(sql, params)

    def raw(self, sql: str, format: str) -> bytes:
        return self.warehouse.raw(sql, format)

    def insert(self, table: str, columns: Mapping[str, Any], token: str) -> None:
        self.inserts += 1
        error = self.fails(table, self.inserts)
        if error:
            raise error
        self.tokens.append(f"{table} {token}")
        self.warehouse.insert(table, columns, token)

    def close(self) -> None:
        self.warehouse.close()


class KilledError(Exception):
    """The process ends here."""


def _checksums(warehouse: Warehouse) -> dict[str, Checksum]:
    return {table: checksum(warehouse, table) for table in TABLES}


def _events(warehouse: Warehouse) -> int:
    return warehouse.rows("SELECT count() FROM events")[0][0]


def test_the_log_is_in_the_warehouse_and_a_second_run_adds_nothing(
    warehouse: Warehouse, log: Log
) -> None:
    events = rollouts()
    events += derived(events)
    log.send(events)
    first = log.sink(warehouse).run()
    assert (first.events, first.refused, _events(warehouse)) == (len(events), 0, len(events))
    before = _checksums(warehouse)
    second = log.sink(warehouse).run()
    assert (second.records, second.events) == (0, 0)
    log.send(events)
    assert log.sink(warehouse).run().events == len(events)
    assert _checksums(warehouse) == before


def test_what_is_written_later_is_read_from_where_the_last_run_ended(
    warehouse: Warehouse, log: Log
) -> None:
    seen: list[Delivered] = []
    for name in ("e1", "e2", "e3"):
        log.send(done("g1", name).events)
        seen.append(log.sink(warehouse).run())
    assert [one.events for one in seen] == [8, 8, 8]
    assert _events(warehouse) == 24


@pytest.mark.parametrize("table", ["group_facts", "event_facts", "positions"])
def test_killed_before_any_table_or_position_it_repeats_and_counts_once(
    warehouse: Warehouse, log: Log, table: str
) -> None:
    events = rollouts()
    events += derived(events)
    log.send(events)
    faulty = Faulty(warehouse)
    faulty.fails = lambda name, _: KilledError() if name == table else None
    with pytest.raises(KilledError):
        log.sink(faulty).run()
    log.send(done("g9", "late").events)
    log.sink(warehouse).run()
    disturbed = _checksums(warehouse)
    assert _events(warehouse) == len(events) + 8
    warehouse.execute("TRUNCATE TABLE positions")
    for name in TABLES:
        warehouse.execute(f"TRUNCATE TABLE {name}")
    log.sink(warehouse).run()
    assert _checksums(warehouse) == disturbed


def test_killed_at_every_insert_in_turn(warehouse: Warehouse, log: Log) -> None:
    events = rollouts()
    events += derived(events)
    log.send(events)
    faulty = Faulty(warehouse)
    runs = 0
    while True:
        runs += 1
        start = faulty.inserts
        faulty.fails = lambda _, number, at=start + runs: KilledError() if number == at else None
        try:
            log.sink(faulty).run()
            break
        except KilledError:
            continue
    assert runs > len(log.topics)
    assert _events(warehouse) == len(events)
    assert warehouse.rows("SELECT count(), sum(size) FROM groups") == [(2, 4)]


def test_it_waits_for_a_warehouse_that_is_away(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    faulty = Faulty(warehouse)
    away = InfrastructureAwayError("warehouse", "nobody there")
    faulty.fails = lambda _, number: away if number < 4 else None
    assert log.sink(faulty).run().events == 8
    assert faulty.inserts > 4
    assert _events(warehouse) == 8


def test_patience_that_ends_loses_nothing(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    faulty = Faulty(warehouse)
    faulty.fails = lambda table, _: InfrastructureAwayError("warehouse", "nobody there")
    with pytest.raises(InfrastructureAwayError):
        log.sink(faulty, patience_s=0.2).run()
    assert log.sink(warehouse).run().events == 8


def test_a_refusal_of_the_warehouse_is_not_repeated(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    faulty = Faulty(warehouse)
    faulty.fails = lambda table, _: WarehouseError(60, "no such table")
    with pytest.raises(WarehouseError, match="no such table"):
        log.sink(faulty).run()
    assert faulty.inserts == 1


def test_a_retry_has_the_token_of_the_attempt_before(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    faulty = Faulty(warehouse)
    log.sink(faulty).run()
    first = [token for token in faulty.tokens if token.startswith("event_facts")]
    warehouse.execute("TRUNCATE TABLE positions")
    log.sink(faulty).run()
    assert [token for token in faulty.tokens if token.startswith("event_facts")] == first * 2
    assert warehouse.rows("SELECT count() FROM event_facts") == [(8,)]


def test_it_follows_the_log_until_it_is_told_to_stop(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    later = [done("g1", "e2").events]

    def stop() -> bool:
        count = _events(warehouse)
        if count == 8 and later:
            log.send(later.pop())
        return count == 16

    assert log.sink(warehouse).run(until_end=False, stop=stop).events == 16


def test_refused_events_become_dead_letters_and_reach_the_view(
    warehouse: Warehouse, log: Log, stack: Endpoints
) -> None:
    log.topics[DEAD_LETTERS.name] = DEAD_LETTERS
    curated = next(event for event in whole() if event.HasField("record_curated"))
    wrong = Event()
    wrong.CopyFrom(curated)
    wrong.event_id = "another#1"
    log.send_raw(CURATION, EventBatch(events=[wrong, curated]).SerializeToString(), "record:e1")
    log.send_raw(CURATION, b"")
    log.send_raw(ROLLOUTS, b"")
    report = log.sink(warehouse).run()
    own = log.topics[CURATION.name].name
    assert warehouse.rows(
        "SELECT reason, partition, offset, position, raw_bytes FROM dead_letters"
        " WHERE topic = {topic:String} ORDER BY offset",
        {"topic": own},
    ) == [
        ("wrong_event_id", 0, 0, 0, len(wrong.SerializeToString())),
        ("empty_record", 0, 1, None, 0),
    ]
    assert report.refused == 3
    assert _events(warehouse) >= 3
    again = log.sink(warehouse).run()
    assert (again.refused, again.records) == (0, 0)
    warehouse.execute("TRUNCATE TABLE positions")
    log.sink(warehouse).run()
    assert len(warehouse.rows(f"SELECT event_id FROM dead_letters WHERE topic = '{own}'")) == 2


def test_lag_is_told_in_offsets_and_seconds(warehouse: Warehouse, log: Log) -> None:
    log.send(done("g1", "e1").events)
    log.sink(warehouse).run()
    own = log.topics[ROLLOUTS.name].name
    rows = warehouse.rows(
        "SELECT position, end, lag, seconds_behind FROM lag"
        " WHERE consumer = {consumer:String} AND topic = {topic:String}",
        {"consumer": CONSUMER, "topic": own},
    )
    ends = end_offsets(log.broker, own)
    assert sorted(rows) == sorted((end, end, 0, 0.0) for end in ends.values())
    assert Lag(position=3, end=9, last_time=5_000_000).seconds_behind(7_500_000) == 2.5
    assert Lag(position=9, end=9, last_time=5_000_000).seconds_behind(7_500_000) == 0.0


def test_a_dead_letter_too_long_for_the_log_is_kept_as_an_object(
    warehouse: Warehouse, log: Log
) -> None:
    kept: dict[str, bytes] = {}
    value = uuid.uuid4().bytes * 40_000
    log.send_raw(CURATION, value)
    sink = WarehouseSink(log.broker, warehouse, kept.__setitem__, [log.topics[CURATION.name]])
    assert sink.run().refused == 1
    assert list(kept.values()) == [value]


def test_a_block_that_is_mostly_refused_stops_the_sink_and_stays_on_the_log(
    warehouse: Warehouse, log: Log
) -> None:
    bad = next(event for event in whole() if event.HasField("record_curated"))
    bad.event_id = "another#1"
    log.send_raw(CURATION, EventBatch(events=[bad] * 1200).SerializeToString(), "record:e1")
    for _ in range(2):
        with pytest.raises(TooManyRefusedError, match="1200 of 1200"):
            log.sink(warehouse).run()
    assert warehouse.rows("SELECT * FROM positions") == []
