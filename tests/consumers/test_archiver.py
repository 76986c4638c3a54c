"""The archiver against real brokers and a real object store."""

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer as TransactionalProducer

from consumers.archive import (
    archived_end,
    cover,
    holes,
    read_archive,
    segments,
    write_segment,
)
from consumers.archiver import Archived, Archiver
from infra.log import Producer, Record, read_range
from infra.objects import ObjectStore
from infra.settings import Endpoints
from schemas.errors import CheckFailedError
from schemas.topics import Topic


@pytest.fixture
def topic(fresh_topic: Callable[..., Topic]) -> Topic:
    return fresh_topic(partitions=2)


@pytest.fixture
def store(stack: Endpoints) -> ObjectStore:
    return ObjectStore(stack)


def send(broker: str, topic: Topic, first: int, last: int) -> None:
    producer = Producer(broker)
    for number in range(first, last):
        producer.send(topic.name, f"k{number % 7}", b"v%d" % number * 20, number % 2)
    producer.close()


def log(broker: str, topic: Topic, partition: int) -> list[Record]:
    return [one for batch in read_range(broker, topic.name, partition) for one in batch]


def archive(store: ObjectStore, topic: Topic, partition: int) -> list[Record]:
    return [one for batch in read_archive(store, topic.name, partition) for one in batch]


def archiver(broker: str, store: ObjectStore, topic: Topic, records: int = 300) -> Archiver:
    return Archiver(broker, store, topics=[topic], segment_records=records)


def same(broker: str, store: ObjectStore, topic: Topic) -> bool:
    return all(log(broker, topic, n) == archive(store, topic, n) for n in range(2))


def test_archive_equals_the_log_and_goes_on_where_it_was(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    send(broker, topic, 0, 1000)
    seen: list[int] = []
    done = archiver(broker, store, topic).run(on_progress=lambda d: seen.append(d.records))
    assert (done.records, seen[-1]) == (1000, 1000)
    assert done.segments >= 4, "more records than fit into one segment of each partition"
    assert same(broker, store, topic)
    names = [key for key, _ in store.list(f"archive/{topic.name}/")]

    assert archiver(broker, store, topic).run() == Archived(), "nothing new, nothing stored"
    send(broker, topic, 1000, 1100)
    assert archiver(broker, store, topic).run().records == 100
    assert same(broker, store, topic)
    assert set(names) < {key for key, _ in store.list(f"archive/{topic.name}/")}


def test_empty_values_and_empty_topics(broker: str, store: ObjectStore, topic: Topic) -> None:
    assert archiver(broker, store, topic).run() == Archived()
    producer = Producer(broker)
    producer.send(topic.name, b"k", b"", 0)
    producer.close()
    archiver(broker, store, topic).run()
    assert [one.value for one in archive(store, topic, 0)] == [b""]
    assert archive(store, topic, 1) == []


def test_lost_segment_is_archived_again_from_the_log(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    send(broker, topic, 0, 1600)
    archiver(broker, store, topic, records=200).run()
    found = segments(store, topic.name, 0)
    assert len(found) >= 3
    store.remove(found[1].key)
    assert holes(segments(store, topic.name, 0)) == [(found[1].first, found[1].last)]
    archiver(broker, store, topic).run()
    assert same(broker, store, topic)


def test_two_archivers_at_once_lose_and_double_nothing(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    send(broker, topic, 0, 2000)
    both = [
        threading.Thread(target=archiver(broker, store, topic, records=size).run)
        for size in (170, 230)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert same(broker, store, topic)
    found = segments(store, topic.name, 0)
    assert len(cover(found, 0, archived_end(found))) <= len(found)


class FailingStore:
    """The real store until its nth write, which fails as a killed process would."""

    def __init__(self, store: ObjectStore, writes: int) -> None:
        self._store = store
        self._left = writes

    def put(self, key: str, data: bytes) -> object:
        if not self._left:
            raise ConnectionError("killed")
        self._left -= 1
        return self._store.put(key, data)

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        return self._store.list(prefix)


def test_death_at_any_write_leaves_whole_segments_or_none(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    send(broker, topic, 0, 900)
    for writes in range(4):
        dying = FailingStore(store, writes)
        with pytest.raises(ConnectionError):
            Archiver(broker, dying, topics=[topic], segment_records=100).run()
        for partition in range(2):
            whole = log(broker, topic, partition)
            found = archive(store, topic, partition)
            assert found == whole[: len(found)]
    archiver(broker, store, topic).run()
    assert same(broker, store, topic)


def test_following_stores_what_it_has_every_so_often(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    stop = threading.Event()
    follower = threading.Thread(
        target=archiver(broker, store, topic).run,
        kwargs={"until_end": False, "interval_s": 0.2, "stop": stop.is_set},
    )
    follower.start()
    try:
        send(broker, topic, 0, 50)
        for _ in range(100):
            if sum(archived_end(segments(store, topic.name, n)) for n in range(2)) == 50:
                break
            stop.wait(0.1)
        send(broker, topic, 50, 60)
    finally:
        stop.wait(0.6)
        stop.set()
        follower.join()
    assert same(broker, store, topic)


def test_archive_of_another_log_is_not_added_to(
    broker: str, store: ObjectStore, topic: Topic
) -> None:
    send(broker, topic, 0, 10)
    write_segment(store, topic.name, 0, 0, 40, [Record(topic.name, 0, 40, b"k", b"v", 1)])
    with pytest.raises(CheckFailedError, match="goes to offset 41 and the log only to 5"):
        archiver(broker, store, topic).run()


@pytest.mark.kafka
def test_aborted_transactions_leave_gaps_and_no_holes(
    kafka: str,
    store: ObjectStore,
    fresh_topic: Callable[..., Topic],
    request: pytest.FixtureRequest,
) -> None:
    if request.node.callspec.params["broker"] != "kafka":
        pytest.skip("the embedded broker shows what an aborted transaction wrote")
    topic = fresh_topic(partitions=2)
    producer = TransactionalProducer({"bootstrap.servers": kafka, "transactional.id": topic.name})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic.name, b"v%d" % number, b"k", 0)
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(60)
    for records in (1, 300):
        archiver(kafka, store, topic, records).run()
    assert same(kafka, store, topic)
    found = segments(store, topic.name, 0)
    assert [one.value for one in archive(store, topic, 0)] == [b"v0", b"v2", b"v4"]
    assert (len(found), holes(found)) == (3, [])
