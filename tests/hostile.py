"""Records that should never have been sent, among records that should.

Whoever reads a topic reads these too: nothing may stop, the good episodes come out as if
they had been alone, and each bad event ends as a dead letter with the reason given here.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.batch import encode
from schemas.event_pb2 import Event, EventBatch, Run
from schemas.refusal_pb2 import (
    REASON_BODY_UNSET,
    REASON_CLOCK_OUT_OF_RANGE,
    REASON_EMPTY_RECORD,
    REASON_FORBIDDEN_CHARACTER,
    REASON_INCONSISTENT,
    REASON_INTEGER_OUT_OF_RANGE,
    REASON_MISSING_FIELD,
    REASON_NO_EVENTS,
    REASON_NOT_A_NUMBER,
    REASON_NUMBER_OUT_OF_RANGE,
    REASON_TOO_LARGE,
    REASON_UNKNOWN_ENUM,
    REASON_UNPARSEABLE,
    REASON_WRONG_EVENT_ID,
    REASON_WRONG_KEY,
    REASON_WRONG_TENANT,
    REASON_WRONG_TOPIC,
    Reason,
)
from tests.builders import by_stream, good_episode, good_group, group_opened

GROUP = "grp-good"
"""The group of the good episodes; most bad records bear its key."""


@dataclass(frozen=True, slots=True)
class HostileRecord:
    """A record of `planloop.rollouts`.

    `expect` is the reason for which the event at `position` is refused, or the record as a
    whole where `position` is None. `expect` None: every event is accepted, and `name` says
    what a fold should make of it. `by_fold` where the edge cannot know.
    """

    name: str
    key: bytes | None
    value: bytes | None
    expect: Reason | None = None
    position: int | None = None
    by_fold: bool = False


def hostile_records(seed: int = 0) -> list[HostileRecord]:
    """The corpus in its order on the log: bad records at random places between good ones.

    Records about one group keep their order, so that what a fold should do is fixed.
    """
    queues = [_good(), *([record] for record in _refused_whole() + _refused_events()), *_folded()]
    source = random.Random(seed)
    mixed: list[HostileRecord] = []
    while queues:
        queue = source.choice(queues)
        mixed.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return mixed


def _record(name: str, events: Sequence[Event]) -> HostileRecord:
    return HostileRecord(name, events[0].group_id.encode(), encode(events))


def _good() -> list[HostileRecord]:
    return [_record("good", events) for events in by_stream(good_group(GROUP))]


def plain(*events: Event) -> bytes:
    """A record value as a foreign producer writes it, without an index."""
    return EventBatch(events=events).SerializeToString()


def _verdict() -> Event:
    """A verdict of an episode that otherwise never shows up."""
    return good_episode(GROUP, 90)[-2]


def _action() -> Event:
    return good_episode(GROUP, 91)[1]


def _refused_whole() -> list[HostileRecord]:
    key = GROUP.encode()
    good = plain(*good_episode(GROUP, 92))
    indexed = good_episode(GROUP, 93)
    huge = _verdict()
    huge.verification_made.detail = "x" * 25_000_000
    return [
        HostileRecord("value None", key, None, REASON_EMPTY_RECORD),
        HostileRecord("value empty", key, b"", REASON_EMPTY_RECORD),
        HostileRecord("key and value None", None, None, REASON_EMPTY_RECORD),
        HostileRecord("truncated", key, good[:-7], REASON_UNPARSEABLE),
        HostileRecord("JSON", key, b'{"stream_id": "ep-1", "seq": 0}', REASON_UNPARSEABLE),
        HostileRecord("random bytes", key, random.Random(1).randbytes(400), REASON_UNPARSEABLE),
        HostileRecord("another message", key, b"\x18\x01", REASON_NO_EVENTS),
        HostileRecord("events of a wrong type", key, b"\x08\x01", REASON_NO_EVENTS),
        HostileRecord("key not UTF-8", b"grp-\xff", plain(_verdict()), REASON_UNPARSEABLE),
        HostileRecord("key not UTF-8, indexed", b"grp-\xff", encode(indexed), REASON_UNPARSEABLE),
        HostileRecord(
            "key not UTF-8, one indexed event", b"grp-\xff", encode(indexed[:1]), REASON_UNPARSEABLE
        ),
        HostileRecord("25 MB", key, plain(huge), REASON_TOO_LARGE),
    ]


def _refused_events() -> list[HostileRecord]:
    """Records of one bad event."""
    records: list[HostileRecord] = []

    def bad(name: str, expect: Reason, spoil: Callable[[Event], object], event: Event) -> None:
        spoil(event)
        records.append(HostileRecord(name, GROUP.encode(), plain(event), expect, 0))

    def verdict(name: str, expect: Reason, spoil: Callable[[Event], object]) -> None:
        bad(name, expect, spoil, _verdict())

    def action(name: str, expect: Reason, spoil: Callable[[Event], object]) -> None:
        bad(name, expect, spoil, _action())

    verdict("no envelope", REASON_MISSING_FIELD, lambda e: e.CopyFrom(Event()))
    verdict("tenant missing", REASON_MISSING_FIELD, lambda e: e.ClearField("tenant"))
    verdict("clock missing", REASON_MISSING_FIELD, lambda e: e.ClearField("recorded_at"))
    verdict("clock in 1970", REASON_CLOCK_OUT_OF_RANGE, lambda e: _set(e, occurred_at=1_000_000))
    verdict("clock in 2100", REASON_CLOCK_OUT_OF_RANGE, lambda e: _set(e, recorded_at=_Y2100))
    verdict(
        "clock in milliseconds",
        REASON_CLOCK_OUT_OF_RANGE,
        lambda e: _set(e, occurred_at=e.occurred_at // 1000),
    )
    verdict(
        "clock two days ahead",
        REASON_CLOCK_OUT_OF_RANGE,
        lambda e: _set(e, occurred_at=e.recorded_at + 2 * 86_400_000_000),
    )
    verdict("id of another event", REASON_WRONG_EVENT_ID, lambda e: _set(e, event_id="ep-1#1"))
    verdict("NUL in an id", REASON_FORBIDDEN_CHARACTER, lambda e: _rename(e, "ep-\0-1"))
    verdict("line feed in an id", REASON_FORBIDDEN_CHARACTER, lambda e: _set(e, tenant="a\nb"))
    verdict("id of 600 bytes", REASON_TOO_LARGE, lambda e: _rename(e, "e" * 600))
    verdict("seq 2^63", REASON_INTEGER_OUT_OF_RANGE, lambda e: _renumber(e, 2**63))
    verdict("wrong key", REASON_WRONG_KEY, lambda e: _set(e, group_id="grp-other"))
    verdict("no body", REASON_BODY_UNSET, lambda e: e.ClearField("verification_made"))
    verdict(
        "body of another topic",
        REASON_WRONG_TOPIC,
        lambda e: _set(e.task_specified, task_id="task-1"),
    )
    verdict(
        "progress NaN",
        REASON_NOT_A_NUMBER,
        lambda e: _set(e.verification_made, progress=float("nan")),
    )
    verdict(
        "progress 1.5",
        REASON_NUMBER_OUT_OF_RANGE,
        lambda e: _set(e.verification_made, progress=1.5),
    )
    verdict(
        "event of 2 MB",
        REASON_TOO_LARGE,
        lambda e: _set(e.verification_made, detail="x" * 2_000_000),
    )
    action("unknown enum", REASON_UNKNOWN_ENUM, lambda e: _set(e.action_taken, kind=99))
    action("enum not set", REASON_MISSING_FIELD, lambda e: e.action_taken.ClearField("kind"))
    action(
        "infinite log-probability",
        REASON_NOT_A_NUMBER,
        lambda e: e.action_taken.logprobs.__setitem__(3, float("-inf")),
    )
    action(
        "one log-probability short",
        REASON_INCONSISTENT,
        lambda e: e.action_taken.logprobs.pop(),
    )
    action(
        "latency 2^63",
        REASON_INTEGER_OUT_OF_RANGE,
        lambda e: _set(e.action_taken, latency_us=2**63),
    )
    bad(
        "group of one",
        REASON_NUMBER_OUT_OF_RANGE,
        lambda e: _set(e.group_opened, size=1),
        group_opened(GROUP),
    )
    surrogate = _surrogate(_verdict())
    records.append(
        HostileRecord("lone surrogate", GROUP.encode(), surrogate, REASON_UNPARSEABLE, 0)
    )
    return records


def _set(target: object, **fields: object) -> None:
    for name, value in fields.items():
        setattr(target, name, value)


def _rename(event: Event, stream_id: str) -> None:
    event.stream_id = stream_id
    event.event_id = f"{stream_id}#{event.seq}"


def _renumber(event: Event, seq: int) -> None:
    event.seq = seq
    event.event_id = f"{event.stream_id}#{seq}"


_Y2100 = 4_102_444_800_000_000


def _surrogate(*events: Event) -> bytes:
    """A record whose last verdict holds UTF-16's half of a character, which no setter takes."""
    events[-1].verification_made.detail = "<?>"
    return plain(*events).replace(b"<?>", b"\xed\xa0\x80")


def _folded() -> list[list[HostileRecord]]:
    """Well-formed records that only a fold can judge, one list for each group."""
    return [
        _wrong_tenant(),
        _gap(),
        _duplicate(),
        _out_of_order(),
        _late_verdict(),
        _wrong_index(),
        _bad_neighbour(),
    ]


def _pair(group_id: str) -> list[list[Event]]:
    """Opening, first and second episode of a group of two."""
    return by_stream(good_group(group_id, successes=(True, False)))


def _wrong_tenant() -> list[HostileRecord]:
    opened, first, second = _pair("grp-tenant")
    intruder = good_episode("grp-tenant", 7, tenant="mallory")
    foreign = HostileRecord(
        "another tenant's event in the group",
        b"grp-tenant",
        plain(intruder[0]),
        REASON_WRONG_TENANT,
        0,
        by_fold=True,
    )
    return [_record("good", opened), foreign, _record("good", first), _record("good", second)]


def _gap() -> list[HostileRecord]:
    opened, first, second = _pair("grp-gap")
    holed = [event for event in first if event.seq != 3]
    return [
        _record("good", opened),
        _record("gap: event 3 never comes, the episode is invalid", holed),
        _record("good", second),
    ]


def _duplicate() -> list[HostileRecord]:
    opened, first, second = _pair("grp-duplicate")
    return [
        _record("good", opened),
        _record("good", first),
        _record("duplicate: the whole episode again, nothing new", first),
        HostileRecord("duplicate: one event again", b"grp-duplicate", plain(first[2])),
        _record("duplicate: the group is opened again", opened),
        _record("good", second),
    ]


def _out_of_order() -> list[HostileRecord]:
    opened, first, second = _pair("grp-order")
    return [
        _record("good", opened),
        _record("out of order: the second half first", first[5:]),
        _record("out of order: the first half, the episode is complete", first[:5]),
        _record("good", second),
    ]


def _late_verdict() -> list[HostileRecord]:
    opened, first, second = _pair("grp-late")
    late = Event()
    late.CopyFrom(first[-2])
    _renumber(late, first[-1].seq + 1)
    late.occurred_at = late.recorded_at = second[-1].occurred_at + 3_600_000_000
    late.verification_made.success = False
    return [
        _record("good", opened),
        _record("good", first),
        _record("good", second),
        _record("late verdict: the score stands, the correction is recorded", [late]),
    ]


def _wrong_index() -> list[HostileRecord]:
    opened, first, second = _pair("grp-index")
    lying = EventBatch(events=first[:2], runs=[Run(stream_id="ep-x", bodies=b"\x17")])
    garbage = b"\x12\x04\x0a\x7fab"
    key = b"grp-index"
    return [
        _record("good", opened),
        HostileRecord("index that does not add up", key, lying.SerializeToString()),
        HostileRecord("broken index behind one event", key, plain(first[2]) + garbage),
        HostileRecord("broken index behind a batch", key, plain(*first[3:]) + garbage),
        _record("good", second),
    ]


def _bad_neighbour() -> list[HostileRecord]:
    opened, first, second = _pair("grp-neighbour")
    broken = b"\x0a\x04" + b"\x0a\x7fab"
    value = plain(first[0]) + broken + plain(*first[1:])
    name = "broken event among good ones, which are kept"
    return [
        _record("good", opened),
        HostileRecord(name, b"grp-neighbour", value, REASON_UNPARSEABLE, 1),
        _record("good", second),
    ]
