"""The log client on the embedded broker and on Kafka."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.partitioner import murmur2

from infra.log import (
    Producer,
    Reader,
    Record,
    end_offsets,
    ensure_topics,
    partitions_of,
    read_range,
)
from infra.processes import living
from infra.settings import Settings
from infra.stack import down, up
from schemas.errors import InfrastructureAwayError, InputError
from schemas.event_pb2 import Event, EventBatch
from schemas.events import Stream
from schemas.topics import MAX_RECORD_BYTES, Topic

FreshTopic = Callable[..., Topic]


@contextmanager
def reading(broker: str, topic: str, **kwargs: object) -> Iterator[Reader]:
    places = {(topic, number): 0 for number in partitions_of(broker, topic)}
    reader = Reader(broker, places, **kwargs)  # pyright: ignore[reportArgumentType]
    try:
        yield reader
    finally:
        reader.close()


def read_to_end(reader: Reader) -> list[Record]:
    records: list[Record] = []
    while not reader.at_end:
        records += reader.poll()
    return records


def send_many(producer: Producer, topic: str, value: bytes, count: int) -> None:
    for _ in range(count):
        producer.send(topic, "key", value)


def send_and_flush(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    producer.send(topic, "key", value, partition)
    producer.flush()


def whole(broker: str, topic: str) -> list[Record]:
    with reading(broker, topic) as reader:
        return read_to_end(reader)


def events_in(record: Record) -> list[Event]:
    return list(EventBatch.FromString(record.value or b"").events)


def closed_port() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def test_records_come_back_as_sent(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    before = time.time()
    producer = Producer(broker)
    producer.send(topic, "key", b"text key")
    producer.send(topic, b"\xff\x00", b"\x00" * 3)
    producer.send(topic, "", b"empty key")
    producer.close()
    records = whole(broker, topic)
    assert [(r.key, r.value) for r in records] == [
        (b"key", b"text key"),
        (b"\xff\x00", b"\x00" * 3),
        (b"", b"empty key"),
    ]
    assert {(r.topic, r.partition) for r in records} == {(topic, 0)}
    assert [r.offset for r in records] == [0, 1, 2]
    assert all(abs(r.timestamp / 1e6 - before) < 60 for r in records)


def test_empty_and_absent_values_are_delivered(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    other = confluent_kafka.Producer({"bootstrap.servers": broker})
    for key, value in ((b"a", b""), (b"b", None), (None, b"x"), (None, None)):
        other.produce(topic, value, key)
    assert other.flush(10) == 0
    assert [(r.key, r.value) for r in whole(broker, topic)] == [
        (b"a", b""),
        (b"b", None),
        (None, b"x"),
        (None, None),
    ]


def test_each_partition_keeps_the_order_of_sending(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(4).name
    producer = Producer(broker, linger_ms=0)
    for number in range(20_000):
        producer.send(topic, f"key {number % 37}", b"%d" % number)
    producer.close()
    records = whole(broker, topic)
    assert sorted(int(r.value or b"") for r in records) == list(range(20_000))
    for partition in range(4):
        numbers = [int(r.value or b"") for r in records if r.partition == partition]
        assert numbers == sorted(numbers)


def test_a_named_partition_is_taken(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(3).name
    producer = Producer(broker)
    for partition in (2, 0, 2):
        producer.send(topic, "one key", b"%d" % partition, partition)
    producer.close()
    assert {(r.partition, r.value) for r in whole(broker, topic)} == {(2, b"2"), (0, b"0")}


def test_keys_go_where_kafka_python_would_put_them(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(4).name
    keys = [os.urandom(length) for length in range(1, 40)] + [b"", b"group-1", "päärynä".encode()]
    producer = Producer(broker)
    for key in keys:
        producer.send(topic, key, b"x")
    producer.close()
    found = {r.key: r.partition for r in whole(broker, topic)}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 4 for key in keys}


def test_the_true_end_after_a_batch(broker: str, fresh_topic: FreshTopic) -> None:
    """ListOffsets of the embedded broker would say 1: the base of the last batch, plus one."""
    topic = fresh_topic(2).name
    assert end_offsets(broker, topic) == {0: 0, 1: 0}
    producer = Producer(broker, linger_ms=200)
    for number in range(25):
        producer.send(topic, "key", b"%d" % number, 0)
    producer.flush()
    assert end_offsets(broker, topic) == {0: 25, 1: 0}
    producer.send(topic, "key", b"one more", 1)
    producer.close()
    assert end_offsets(broker, topic) == {0: 25, 1: 1}


def test_at_end_comes_and_goes(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(2).name
    producer = Producer(broker)
    with reading(broker, topic) as reader:
        assert not reader.at_end
        assert read_to_end(reader) == []
        producer.send(topic, "key", b"later", 1)
        producer.close()
        records: list[Record] = []
        while not records:
            records = reader.poll()
            if records and reader.at_end:  # the end may come in the same poll
                break
        assert [r.value for r in records] == [b"later"]
        assert read_to_end(reader) == []
        assert reader.lag() == {(topic, 0): (0, 0), (topic, 1): (1, 1)}


def test_poll_returns_as_soon_as_there_is_something(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    producer.send(topic, "key", b"x")
    producer.close()
    with reading(broker, topic) as reader:
        began = time.monotonic()
        records: list[Record] = []
        while not records:
            records = reader.poll(2000, 10.0)
        assert time.monotonic() - began < 5.0
        read_to_end(reader)
        began = time.monotonic()
        assert reader.poll(2000, 0.2) == []
        assert time.monotonic() - began < 2.0


def test_max_records_bounds_a_poll(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    for number in range(1000):
        producer.send(topic, "key", b"%d" % number)
    producer.close()
    with reading(broker, topic) as reader:
        got: list[Record] = []
        while len(got) < 1000:
            part = reader.poll(max_records=7)
            assert len(part) <= 7
            got += part
    assert [int(r.value or b"") for r in got] == list(range(1000))


def test_reading_starts_at_the_positions_given(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(2).name
    producer = Producer(broker, linger_ms=200)
    for number in range(10):
        producer.send(topic, "key", b"%d" % number, 0)
        producer.send(topic, "key", b"%d" % (100 + number), 1)
    producer.close()
    reader = Reader(broker, {(topic, 0): 4, (topic, 1): 9})
    assert sorted((r.partition, r.offset) for r in read_to_end(reader)) == [
        *((0, offset) for offset in range(4, 10)),
        (1, 9),
    ]
    assert reader.lag() == {(topic, 0): (10, 10), (topic, 1): (10, 10)}
    reader.close()


def test_lag_counts_what_was_not_polled(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    for number in range(100):
        producer.send(topic, "key", b"%d" % number)
    producer.close()
    with reading(broker, topic) as reader:
        records: list[Record] = []
        while len(records) < 10:
            records += reader.poll(max_records=10 - len(records))
        assert reader.lag() == {(topic, 0): (10, 100)}


def test_pause_loses_nothing(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(2).name
    producer = Producer(broker)
    for number in range(500):
        producer.send(topic, "key", b"%d" % number, number % 2)
    producer.close()
    with reading(broker, topic) as reader:
        records: list[Record] = []
        while not records:
            records = reader.poll(max_records=10)
        reader.pause([(topic, 0)])
        for _ in range(5):
            part = reader.poll(timeout_s=0.2)
            assert all(r.partition == 1 for r in part)
            records += part
        assert not reader.at_end
        reader.resume([(topic, 0)])
        records += read_to_end(reader)
    assert sorted(int(r.value or b"") for r in records) == list(range(500))
    evens = [int(r.value or b"") for r in records if r.partition == 0]
    assert evens == sorted(evens)


def test_committed_positions_are_for_others_to_see(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(2).name
    with reading(broker, topic, group=topic) as reader:
        reader.commit({(topic, 0): 7, (topic, 1): 3})
        reader.commit({(topic, 0): 9})
    tool = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": topic})
    places = [confluent_kafka.TopicPartition(topic, number) for number in (0, 1)]
    committed = tool.committed(places, timeout=10)
    tool.close()
    assert [place.offset for place in committed] == [9, 3]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, None, range(25)),
        (7, None, range(7, 25)),
        (0, 0, range(1)),
        (24, 24, range(24, 25)),
        (5, 9, range(5, 10)),
        (20, 99, range(20, 25)),
        (25, None, range(0)),
    ],
)
def test_read_range(
    broker: str, fresh_topic: FreshTopic, first: int, last: int | None, expected: range
) -> None:
    topic = fresh_topic().name
    producer = Producer(broker, linger_ms=200)
    for number in range(25):
        producer.send(topic, "key", b"%d" % number)
    producer.close()
    batches = list(read_range(broker, topic, 0, first, last))
    assert [r.offset for batch in batches for r in batch] == list(expected)


def test_read_range_of_an_empty_partition_ends(broker: str, fresh_topic: FreshTopic) -> None:
    assert list(read_range(broker, fresh_topic().name, 0)) == []


def test_read_range_stops_at_the_end_as_of_the_call(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    for number in range(5000):
        producer.send(topic, "key", b"%d" % number)
    producer.flush()
    seen = 0
    for batch in read_range(broker, topic, 0):
        seen += len(batch)
        for number in range(len(batch)):
            producer.send(topic, "key", b"more %d" % number)
        producer.flush()
    producer.close()
    assert 5000 <= seen < 10_000


def test_a_tailing_reader_misses_nothing_of_several_producers(
    broker: str, fresh_topic: FreshTopic
) -> None:
    """The embedded broker numbers a batch before it stores it: a later one may show up first."""
    topic = fresh_topic().name
    finished = threading.Barrier(6)

    def produce(name: int) -> None:
        producer = Producer(broker, linger_ms=0)
        for start in range(0, 1000, 20):
            for number in range(start, start + 20):
                producer.send(topic, "key", b"%d/%d" % (name, number))
            producer.flush()
        producer.close()
        finished.wait(60)

    for name in range(5):
        threading.Thread(target=produce, args=(name,), daemon=True).start()
    with reading(broker, topic) as reader:
        records: list[Record] = []
        while finished.n_waiting < 5:
            records += reader.poll(timeout_s=0.01)
        finished.wait()
        deadline = time.monotonic() + 30
        while len(records) < 5000 and time.monotonic() < deadline:
            records += reader.poll()
    values = [r.value or b"" for r in records]
    assert sorted(values) == sorted(b"%d/%d" % (n, i) for n in range(5) for i in range(1000))
    offsets = [r.offset for r in records]
    assert offsets == sorted(set(offsets))


@pytest.mark.kafka
def test_aborted_transactions_leave_gaps_that_nobody_minds(kafka: str) -> None:
    topic = f"gaps.{os.urandom(6).hex()}"
    ensure_topics(kafka, [Topic(topic, str, 1, -1, frozenset(), "")])  # pyright: ignore[reportArgumentType]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka, "transactional.id": topic, "linger.ms": 0}
    )
    producer.init_transactions(30)
    for name, commit in (("a", True), ("b", False), ("c", True), ("d", False)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{name}{number}".encode(), b"key")
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    values = [b"a0", b"a1", b"a2", b"c0", b"c1", b"c2"]
    assert end_offsets(kafka, topic) == {0: 16}
    batches = list(read_range(kafka, topic, 0))
    assert [r.value for batch in batches for r in batch] == values
    assert [r.offset for batch in batches for r in batch] == [0, 1, 2, 8, 9, 10]
    assert [r.value for b in read_range(kafka, topic, 0, 3, 8) for r in b] == [b"c0"]
    assert list(read_range(kafka, topic, 0, 4, 6)) == []
    with reading(kafka, topic) as reader:
        assert [r.value for r in read_to_end(reader)] == values
        assert reader.lag() == {(topic, 0): (16, 16)}


def test_the_largest_record_fits(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    value = os.urandom(MAX_RECORD_BYTES)  # does not compress
    producer = Producer(broker)
    producer.send(topic, "k" * 1000, value)
    producer.send(topic, "key", b"after it")
    with pytest.raises(InputError, match="8388609 bytes"):
        producer.send(topic, "key", b"x" * (MAX_RECORD_BYTES + 1))
    producer.close()
    assert [r.value for r in whole(broker, topic)] == [value, b"after it"]


def test_a_larger_record_of_someone_else_is_delivered(broker: str) -> None:
    """What the edge would refuse reaches the reader, who is to dead-letter it."""
    topic = Topic(f"large.{os.urandom(6).hex()}", str, 1, -1, frozenset(), "")  # pyright: ignore[reportArgumentType]
    ensure_topics(broker, [topic])
    other = confluent_kafka.Producer(
        {"bootstrap.servers": broker, "message.max.bytes": 40 << 20, "compression.type": "lz4"}
    )
    value = b"x" * (25 << 20)
    other.produce(topic.name, value, b"key")
    assert other.flush(30) == 0
    assert [r.value for r in whole(broker, topic.name)] == [value]


def test_events_of_one_key_travel_together_in_order(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    streams = [Stream(f"s{n}", tenant="t", producer="p", group_id=f"g{n % 2}") for n in range(3)]
    events = []
    for step in range(30):
        event = streams[step % 3].event(occurred_at=1_700_000_000_000_000 + step)
        event.action_taken.text = f"step {step}"
        events.append(event)
    producer = Producer(broker)
    producer.send_events(topic, events)
    producer.close()
    records = whole(broker, topic.name)
    assert [r.key for r in records] == [b"g0", b"g1"]
    for record, group in zip(records, ("g0", "g1"), strict=True):
        assert events_in(record) == [event for event in events if event.group_id == group]


def test_events_are_split_below_the_largest_record(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    stream = Stream("s", tenant="t", producer="p", group_id="g")
    events = []
    for step in range(20):
        event = stream.event(occurred_at=1_700_000_000_000_000 + step)
        event.action_taken.text = "x" * 900_000
        events.append(event)
    producer = Producer(broker)
    producer.send_events(topic, events)
    producer.close()
    records = whole(broker, topic.name)
    assert 3 <= len(records) <= 8
    assert all(len(r.value or b"") <= MAX_RECORD_BYTES for r in records)
    assert [event for record in records for event in events_in(record)] == events


def test_flush_says_how_many_were_not_acknowledged() -> None:
    address = closed_port()
    producer = Producer(address)
    for number in range(3):
        producer.send("topic", "key", b"%d" % number)
    with pytest.raises(InfrastructureAwayError, match=rf"3 records not acknowledged by {address}"):
        producer.flush(0.5)
    with pytest.raises(InfrastructureAwayError, match="3 records"):
        producer.close(0.2)


def test_a_refused_record_is_reported_once(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    producer.send(topic, "key", b"stays")
    producer.flush()
    with pytest.raises(InfrastructureAwayError, match=r"[Uu]nknown partition"):
        send_and_flush(producer, topic, b"no such partition", 99)
    producer.send(topic, "key", b"after it")
    producer.close()
    assert [r.value for r in whole(broker, topic)] == [b"stays", b"after it"]


def test_a_full_queue_holds_the_sender_up_but_not_for_ever() -> None:
    producer = Producer(closed_port(), patience_s=0.5)
    began = time.monotonic()
    with pytest.raises(InfrastructureAwayError, match=r"records wait for 127\.0\.0\.1"):
        send_many(producer, "topic", bytes(MAX_RECORD_BYTES), 50)
    assert 0.4 < time.monotonic() - began < 30
    with pytest.raises(InfrastructureAwayError, match="not acknowledged"):
        producer.close(0.1)


def test_a_position_beyond_the_end_is_an_error(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic().name
    producer = Producer(broker)
    producer.send(topic, "key", b"x")
    producer.close()
    reader = Reader(broker, {(topic, 0): 1000})
    with pytest.raises(InfrastructureAwayError, match=r"position 1000 of .* is not on the log"):
        read_to_end(reader)
    reader.close()


def test_what_is_not_there_is_named(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(2).name
    with pytest.raises(InputError, match="no topic nothing"):
        partitions_of(broker, "nothing")
    with pytest.raises(InputError, match=f"{topic} has no partition 2"):
        Reader(broker, {(topic, 0): 0, (topic, 2): 0})


def test_topics_are_made_once(broker: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(3)
    producer = Producer(broker)
    producer.send(topic.name, "key", b"x")
    producer.close()
    ensure_topics(broker, [topic])
    assert partitions_of(broker, topic.name) == [0, 1, 2]
    assert len(whole(broker, topic.name)) == 1


@pytest.mark.kafka
def test_kafka_stamps_records_itself(kafka: str) -> None:
    topic = f"stamps.{os.urandom(6).hex()}"
    ensure_topics(kafka, [Topic(topic, str, 1, -1, frozenset(), "")])  # pyright: ignore[reportArgumentType]
    other = confluent_kafka.Producer({"bootstrap.servers": kafka})
    other.produce(topic, b"from a clock in 1970", b"key", timestamp=1)
    other.flush(10)
    [record] = whole(kafka, topic)
    assert abs(record.timestamp / 1e6 - time.time()) < 60


@pytest.mark.slow
def test_a_broker_that_is_away_is_said_to_be() -> None:
    address = closed_port()
    for action in (
        lambda: ensure_topics(address),
        lambda: partitions_of(address, "topic"),
        lambda: end_offsets(address, "topic"),
        lambda: Reader(address, {("topic", 0): 0}),
        lambda: next(read_range(address, "topic", 0)),
    ):
        with pytest.raises(InfrastructureAwayError, match=f"no answer from {address}"):
            action()


@pytest.mark.slow
def test_a_reader_outlasts_a_short_outage_and_reports_a_long_one(fresh_stack: Settings) -> None:
    kafka = fresh_stack.endpoints().kafka
    producer = Producer(kafka)
    producer.send("planloop.tasks", "key", b"before")
    producer.close()
    reader = Reader(kafka, {("planloop.tasks", 0): 0}, patience_s=3.0)
    assert [r.value for r in read_to_end(reader)] == [b"before"]
    living(fresh_stack.state)["log"].kill()
    up(fresh_stack)
    producer = Producer(kafka)
    producer.send("planloop.tasks", "key", b"after")
    producer.close()
    records: list[Record] = []
    while not records:
        records = reader.poll()
    assert [r.value for r in records] == [b"after"]
    down(fresh_stack)
    with pytest.raises(InfrastructureAwayError, match="no answer from"):
        read_to_end_again(reader)
    reader.close()


def read_to_end_again(reader: Reader) -> None:
    for _ in range(200):
        reader.poll()


def test_librdkafka_logs_through_logging(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "planloop.log")
    producer = Producer(closed_port())
    producer.send("topic", "key", b"x")
    with pytest.raises(InfrastructureAwayError):
        producer.close(1.0)
    assert any("refused" in record.getMessage() for record in caplog.records)
    assert capfd.readouterr().err == ""


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=300), st.booleans()), max_size=200))
def test_any_sequence_survives_in_order(
    broker: str, fresh_topic: FreshTopic, sent: list[tuple[int, bytes, bool]]
) -> None:
    topic = fresh_topic(3).name
    producer = Producer(broker)
    for key, value, flush in sent:
        producer.send(topic, b"%d" % key, value)
        if flush and len(sent) < 20:
            producer.flush()
    producer.close()
    records = whole(broker, topic)
    assert len(records) == len(sent)
    for key in range(6):
        wanted = [value for k, value, _ in sent if k == key]
        assert [r.value for r in records if r.key == b"%d" % key] == wanted
