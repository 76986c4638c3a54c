"""Dead letters: listed from the log alone, shown, and written back as they were."""

from hashlib import sha256
from itertools import count

import pytest
from msgspec.structs import replace

from consumers.dead_letters import (
    Letter,
    contents,
    dead_letters,
    find,
    framed,
    raw_of,
    requeue,
)
from infra.log import Producer, Record, end_offsets, read_range
from infra.objects import ObjectStore
from infra.settings import Endpoints
from schemas.errors import CheckFailedError, InputError
from schemas.event_pb2 import Event, EventBatch
from schemas.refusal_pb2 import (
    REASON_GROUP_UNKNOWN,
    REASON_UNPARSEABLE,
    Reason,
)
from schemas.topics import DEAD_LETTERS, ROLLOUTS
from schemas.validation import Refusal
from streams.driver import drive
from streams.groups import GroupFold
from streams.host import LARGEST_RAW, dead_letter
from tests.consumers.rollouts import NOON, done

_offsets = count(1_000_000)


def refused(
    raw: bytes, reason: Reason = REASON_UNPARSEABLE, position: int | None = None
) -> tuple[Record, Event]:
    record = Record(ROLLOUTS.name, 0, next(_offsets), b"g1", raw, NOON)
    refusal = Refusal(reason, "for a test")
    return record, dead_letter(record, raw, position, refusal, "edge")


def publish(stack: Endpoints, *letters: Event) -> None:
    producer = Producer(stack.kafka)
    producer.send_events(DEAD_LETTERS, letters)
    producer.close()


def test_framed_is_the_encoding_of_a_batch_of_one() -> None:
    for size in (0, 1, 127, 128, 300, 20_000, 3_000_000):
        raw = bytes(size)
        value = framed(raw)
        event = Event(stream_id="s" * size)
        assert framed(event.SerializeToString()) == EventBatch(events=[event]).SerializeToString()
        assert value.endswith(raw)


def test_each_is_listed_once_with_its_reason(stack: Endpoints) -> None:
    _, one = refused(b"\x0a\xff", REASON_UNPARSEABLE)
    _, other = refused(b"x", REASON_GROUP_UNKNOWN, 3)
    publish(stack, one, other)
    publish(stack, one)
    listed = [letter for letter in dead_letters(stack.kafka) if letter.body.detail == "for a test"]
    ours = {x.letter_id: x for x in listed if x.letter_id in (one.event_id, other.event_id)}
    assert len([x for x in listed if x.letter_id == one.event_id]) == 1
    assert ours[one.event_id].reason == "unparseable"
    assert ours[other.event_id].reason == "group_unknown"
    assert ours[other.event_id].body.index == 3
    assert [x.letter_id for x in find(stack.kafka, [other.event_id, one.event_id])] == [
        other.event_id,
        one.event_id,
    ]
    with pytest.raises(InputError, match="no dead letter nobody#0"):
        find(stack.kafka, [one.event_id, "nobody#0"])


def test_requeued_record_is_the_refused_one_byte_for_byte(stack: Endpoints) -> None:
    store = ObjectStore(stack)
    _, letter = refused(b"\x0a\xff\x00broken")
    publish(stack, letter)
    assert _requeued(stack, store, letter) == (b"g1", b"\x0a\xff\x00broken")


def test_requeued_event_travels_alone(stack: Endpoints) -> None:
    store = ObjectStore(stack)
    event = done("g1", "e1").events[2]
    _, letter = refused(event.SerializeToString(), REASON_GROUP_UNKNOWN, 2)
    publish(stack, letter)
    key, value = _requeued(stack, store, letter)
    assert key == b"g1"
    assert list(EventBatch.FromString(value or b"").events) == [event]


def test_large_bytes_come_from_the_object_store(stack: Endpoints) -> None:
    store = ObjectStore(stack)
    raw = b"\x0a\xff" + bytes(LARGEST_RAW)
    _, letter = refused(raw)
    publish(stack, letter)
    (found,) = find(stack.kafka, [letter.event_id])
    assert found.body.raw == b""
    assert found.body.object_key == f"dead-letters/{sha256(raw).hexdigest()}"
    store.put(found.body.object_key, raw[:-1])
    with pytest.raises(CheckFailedError):
        raw_of(found, store)
    store.put(found.body.object_key, raw)
    assert _requeued(stack, store, letter) == (b"g1", raw)


def test_topic_that_is_none_of_ours_is_refused_before_anything_is_written(
    stack: Endpoints,
) -> None:
    store = ObjectStore(stack)
    _, good = refused(b"good")
    _, bad = refused(b"bad")
    bad.dead_letter.topic = "elsewhere"
    before = end_offsets(stack.kafka, ROLLOUTS.name)
    producer = Producer(stack.kafka)
    letters = [Letter(event.event_id, event.dead_letter) for event in (good, bad)]
    with pytest.raises(InputError, match="elsewhere"):
        requeue(producer, store, letters)
    producer.close()
    assert end_offsets(stack.kafka, ROLLOUTS.name) == before


def test_refused_again_is_a_new_letter_at_its_new_offset() -> None:
    first = Record(ROLLOUTS.name, 0, 7, b"g1", framed(b"\xff"), NOON)
    again = replace(first, offset=12)
    letters = drive(GroupFold(), [first, again]).events
    assert [letter.dead_letter.offset for letter in letters] == [7, 12]
    assert len({letter.event_id for letter in letters}) == 2


def test_contents_shows_what_can_be_read() -> None:
    event = done("g1", "e1").events[0]
    _, single = refused(event.SerializeToString(), REASON_GROUP_UNKNOWN, 0)
    letter = Letter(single.event_id, single.dead_letter)
    assert contents(letter, single.dead_letter.raw) == [event]
    _, garbage = refused(b"\xff\xff")
    assert contents(Letter("x#0", garbage.dead_letter), b"\xff\xff") == []


def _requeued(
    stack: Endpoints, store: ObjectStore, letter: Event
) -> tuple[bytes | None, bytes | None]:
    """Requeue a letter and return the key and value of the one record that this wrote."""
    before = end_offsets(stack.kafka, ROLLOUTS.name)
    producer = Producer(stack.kafka)
    assert requeue(producer, store, find(stack.kafka, [letter.event_id])) == 1
    producer.close()
    ((key, value),) = [
        (record.key, record.value)
        for partition, end in before.items()
        for batch in read_range(stack.kafka, ROLLOUTS.name, partition, end)
        for record in batch
    ]
    return key, value
