"""The archiver against a real broker and a real object store."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from consumers.archive import (
    archived_end,
    cover,
    holes,
    read_archive,
    segments,
    write_segment,
)
from consumers.archiver import Archived, Archiver
from infra.log import Producer, Record, ensure_topics, read_range
from infra.objects import ObjectStore
from infra.settings import Endpoints
from schemas.topics import FOREVER, Topic

_number = count()


@pytest.fixture
def topic(stack: Endpoints) -> Topic:
    """A topic of the test's own with two partitions."""
    name = f"archiver-test-{next(_number)}"
    made = Topic(name, lambda event: event.stream_id, 2, FOREVER, frozenset(), "for a test")
    ensure_topics(stack.kafka, [made])
    return made


@pytest.fixture
def store(stack: Endpoints) -> ObjectStore:
    return ObjectStore(stack)


def send(stack: Endpoints, topic: Topic, first: int, last: int) -> None:
    producer = Producer(stack.kafka)
    for number in range(first, last):
        producer.send(topic.name, f"k{number % 7}", b"v%d" % number * 20, number % 2)
    producer.close()


def log(stack: Endpoints, topic: Topic, partition: int) -> list[Record]:
    return [one for batch in read_range(stack.kafka, topic.name, partition) for one in batch]


def archive(store: ObjectStore, topic: Topic, partition: int) -> list[Record]:
    return [one for batch in read_archive(store, topic.name, partition) for one in batch]


def archiver(stack: Endpoints, store: ObjectStore, topic: Topic, records: int = 300) -> Archiver:
    return Archiver(stack.kafka, store, topics=[topic], segment_records=records)


def same(stack: Endpoints, store: ObjectStore, topic: Topic) -> bool:
    return all(log(stack, topic, n) == archive(store, topic, n) for n in range(2))


def test_archive_equals_the_log_and_goes_on_where_it_was(
    stack: Endpoints, store: ObjectStore, topic: Topic
) -> None:
    send(stack, topic, 0, 1000)
    seen: list[int] = []
    done = archiver(stack, store, topic).run(on_progress=lambda d: seen.append(d.records))
    assert (done.records, seen[-1]) == (1000, 1000)
    assert done.segments >= 4, "more records than fit into one segment of each partition"
    assert same(stack, store, topic)
    names = [key for key, _ in store.list(f"archive/{topic.name}/")]

    assert archiver(stack, store, topic).run() == Archived(), "nothing new, nothing stored"
    send(stack, topic, 1000, 1100)
    assert archiver(stack, store, topic).run().records == 100
    assert same(stack, store, topic)
    assert set(names) < {key for key, _ in store.list(f"archive/{topic.name}/")}


def test_empty_values_and_empty_topics(stack: Endpoints, store: ObjectStore, topic: Topic) -> None:
    assert archiver(stack, store, topic).run() == Archived()
    producer = Producer(stack.kafka)
    producer.send(topic.name, b"k", b"", 0)
    producer.close()
    archiver(stack, store, topic).run()
    assert [one.value for one in archive(store, topic, 0)] == [b""]
    assert archive(store, topic, 1) == []


def test_lost_segment_is_archived_again_from_the_log(
    stack: Endpoints, store: ObjectStore, topic: Topic
) -> None:
    send(stack, topic, 0, 1600)
    archiver(stack, store, topic, records=200).run()
    found = segments(store, topic.name, 0)
    assert len(found) >= 3
    store.remove(found[1].key)
    assert holes(segments(store, topic.name, 0)) == [(found[1].first, found[1].last)]
    archiver(stack, store, topic).run()
    assert same(stack, store, topic)


def test_two_archivers_at_once_lose_and_double_nothing(
    stack: Endpoints, store: ObjectStore, topic: Topic
) -> None:
    send(stack, topic, 0, 2000)
    both = [
        threading.Thread(target=archiver(stack, store, topic, records=size).run)
        for size in (170, 230)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert same(stack, store, topic)
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
    stack: Endpoints, store: ObjectStore, topic: Topic
) -> None:
    send(stack, topic, 0, 900)
    for writes in range(4):
        dying = FailingStore(store, writes)
        with pytest.raises(ConnectionError):
            Archiver(stack.kafka, dying, topics=[topic], segment_records=100).run()
        for partition in range(2):
            whole = log(stack, topic, partition)
            found = archive(store, topic, partition)
            assert found == whole[: len(found)]
    archiver(stack, store, topic).run()
    assert same(stack, store, topic)


def test_following_stores_what_it_has_every_so_often(
    stack: Endpoints, store: ObjectStore, topic: Topic
) -> None:
    stop = threading.Event()
    follower = threading.Thread(
        target=archiver(stack, store, topic).run,
        kwargs={"until_end": False, "interval_s": 0.2, "stop": stop.is_set},
    )
    follower.start()
    try:
        send(stack, topic, 0, 50)
        for _ in range(100):
            if sum(archived_end(segments(store, topic.name, n)) for n in range(2)) == 50:
                break
            stop.wait(0.1)
        send(stack, topic, 50, 60)
    finally:
        stop.wait(0.6)
        stop.set()
        follower.join()
    assert same(stack, store, topic)


def test_hole_that_the_log_cannot_fill_stays_visible(
    stack: Endpoints, store: ObjectStore, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    send(stack, topic, 0, 10)
    archiver(stack, store, topic).run()
    far = [Record(topic.name, 0, 40, b"k", b"v", 1)]
    write_segment(store, topic.name, 0, 40, 40, far)
    archiver(stack, store, topic).run()
    assert holes(segments(store, topic.name, 0)) == [(5, 39)]
    assert "lacks offsets 5 to 39 and so does the log" in caplog.text
