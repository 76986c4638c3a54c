"""Records: what a Kafka value holds, written with its index and read back lazily.

`encode` is for events that have passed the edge: it adds the runs that let a reader
leave most of a record unparsed and trust the rest (a record of one event is read twice
as fast with its index as without). `Batch` is the reading side. It takes the runs when
they add up, and otherwise parses, vets and indexes the events itself; either way a fold
sees the same runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import DecodeError

from schemas.descriptors import POOL
from schemas.event_pb2 import Event, EventBatch
from schemas.event_pb2 import Run as _WireRun
from schemas.refusal_pb2 import (
    REASON_EMPTY_RECORD,
    REASON_NO_EVENTS,
    REASON_TOO_LARGE,
    REASON_UNPARSEABLE,
)
from schemas.runs import ACTION, OBSERVATION, Run, append_run, run_of, runs_of
from schemas.topics import MAX_RECORD_BYTES, Topic
from schemas.validation import Refusal, Vetted, glance, vet

__all__ = [
    "ACTION",
    "OBSERVATION",
    "Batch",
    "LazyBatch",
    "Run",
    "append_run",
    "encode",
    "event_of",
    "run_of",
    "runs_of",
]


def _lazy_class(name: str, *, with_runs: bool) -> Any:
    """EventBatch with its events left as bytes: same wire format, nothing parsed below it."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"schemas/{name}", package="planloop.lazy", syntax="proto3"
    )
    file.dependency.append("schemas/event.proto")
    message = file.message_type.add(name=name)
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="events", number=1, label=field.LABEL_REPEATED, type=field.TYPE_BYTES)
    if with_runs:
        run = message.field.add(name="runs", number=2, label=field.LABEL_REPEATED)
        run.type = field.TYPE_MESSAGE
        run.type_name = ".planloop.v1.Run"
    POOL.Add(file)  # pyright: ignore[reportAttributeAccessIssue]  # missing in the stubs
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"planloop.lazy.{name}"))


LazyBatch = _lazy_class("LazyBatch", with_runs=True)
_Frames = _lazy_class("Frames", with_runs=False)


def event_of(raw: bytes) -> Event:
    """The event of a record that is believed by its index. Bytes that do not parse there give
    an empty event: a forged index can misstate what its own record holds, which `verify`
    finds and the warehouse refuses, but it cannot stop a fold."""
    try:
        return Event.FromString(raw)
    except DecodeError:
        return Event()


LARGEST_BELIEVED = 2**62
"""Sequence numbers and token counts of an index beyond this are not believed."""


def encode(events: Sequence[Event]) -> bytes:
    """The record value of events that share a key and have passed the edge."""
    return LazyBatch(
        events=[event.SerializeToString() for event in events],
        runs=[
            _WireRun(
                stream_id=run.stream_id,
                first_seq=run.first_seq,
                bodies=run.bodies,
                tenant=run.tenant,
                tool_calls=run.tool_calls,
                output_tokens=run.output_tokens,
                untold_actions=run.untold_actions,
                errors=run.errors,
                earliest=run.earliest,
                latest=run.latest,
            )
            for run in runs_of(enumerate(map(glance, events)))
        ],
    ).SerializeToString()


class Batch:
    """One record as a fold reads it.

    `runs` lists the accepted events in order. `refusals` holds (position, refusal) of each
    event that the edge refuses, position None where the record is refused whole.
    """

    __slots__ = ("_events", "_raw", "_value", "refusals", "runs")

    def __init__(
        self, value: bytes | None, key: bytes | None, topic: Topic, *, trust: bool = True
    ) -> None:
        """Decode a record. `trust` False sets the index aside and validates every event."""
        self.runs: list[Run] = []
        self.refusals: list[tuple[int | None, Refusal]] = []
        self._value = value
        self._events: Sequence[Event] | None = None
        self._raw: Any = None
        if not value:
            self._refuse(Refusal(REASON_EMPTY_RECORD, "the record has no value"))
        elif len(value) > MAX_RECORD_BYTES:
            detail = f"{len(value)} bytes where {MAX_RECORD_BYTES} are allowed"
            self._refuse(Refusal(REASON_TOO_LARGE, detail))
        elif (name := text_of(key)) is None:
            self._refuse(Refusal(REASON_UNPARSEABLE, "the record's key is not UTF-8"))
        elif start := _start_of_only_event(value):
            self._vet_one(value, start, name, topic)
        elif not (trust and self._take_index(value)):
            self._vet_all(value, name, topic)

    def __len__(self) -> int:
        """Events in the record, refused ones included; 0 where it is refused whole."""
        if self._events is not None:
            return len(self._events)
        return 0 if self._raw is None else len(self._raw)

    def event(self, position: int) -> Event:
        """The event at a position of the record, parsed when it is asked for."""
        if self._events is not None:
            return self._events[position]
        return event_of(self.raw(position))

    def raw(self, position: int) -> bytes:
        """The bytes of the event at a position, as its producer wrote them."""
        raw = self._raw
        if raw is None:
            raw = self._raw = LazyBatch.FromString(self._value).events
        return raw[position]

    def _refuse(self, refusal: Refusal) -> None:
        self.refusals.append((None, refusal))

    def _take_index(self, value: bytes) -> bool:
        """Adopt the record's own runs if they cover its events one for one."""
        try:
            lazy = LazyBatch.FromString(value)
        except DecodeError:
            return False
        self._raw = lazy.events
        start = 0
        runs: list[Run] = []
        for run in lazy.runs[:]:
            bodies, first_seq, tokens = run.bodies, run.first_seq, run.output_tokens
            if not bodies or first_seq > LARGEST_BELIEVED or tokens > LARGEST_BELIEVED:
                return False
            runs.append(
                Run(
                    start,
                    run.stream_id,
                    first_seq,
                    bodies,
                    run.tenant,
                    run.tool_calls,
                    tokens,
                    run.untold_actions,
                    run.errors,
                    run.earliest,
                    run.latest,
                )
            )
            start += len(bodies)
        if start == 0 or start != len(self._raw):
            return False
        self.runs = runs
        return True

    def _vet_one(self, value: bytes, start: int, key: str, topic: Topic) -> None:
        try:
            event = Event.FromString(value[start:])
        except DecodeError as error:
            self._raw = (value[start:],)
            self.refusals.append((0, Refusal(REASON_UNPARSEABLE, str(error))))
            return
        self._events = (event,)
        vetted = vet(event, topic, key, len(value))
        if isinstance(vetted, tuple):
            self.runs = runs_of(((0, vetted),))
        else:
            self.refusals.append((0, vetted))

    def _vet_all(self, value: bytes, key: str, topic: Topic) -> None:
        try:
            self._events = events = EventBatch.FromString(value).events[:]
        except DecodeError as error:
            self._salvage(value, key, topic, error)
        else:
            if not events:
                self._refuse(Refusal(REASON_NO_EVENTS, "the record parses but holds no event"))
            self._admit(enumerate(events), len(value), topic, key)

    def _salvage(self, value: bytes, key: str, topic: Topic, error: DecodeError) -> None:
        """As long as the frame holds, a bad event or a bad index takes nothing else with it."""
        try:
            raw: Sequence[bytes] = _Frames.FromString(value).events
        except DecodeError:
            raw = ()
        if not raw:
            self._refuse(Refusal(REASON_UNPARSEABLE, str(error)))
            return
        self._raw = raw
        self._admit(self._parseable(raw), len(value), topic, key)

    def _parseable(self, raw: Sequence[bytes]) -> Iterator[tuple[int, Event]]:
        for position, part in enumerate(raw):
            try:
                event = Event.FromString(part)
            except DecodeError as wrong:
                self.refusals.append((position, Refusal(REASON_UNPARSEABLE, str(wrong))))
            else:
                yield position, event

    def _admit(
        self, events: Iterable[tuple[int, Event]], size: int, topic: Topic, key: str
    ) -> None:
        admitted: list[tuple[int, Vetted]] = []
        for position, event in events:
            vetted = vet(event, topic, key, size)
            if isinstance(vetted, tuple):
                admitted.append((position, vetted))
            else:
                self.refusals.append((position, vetted))
        self.runs = runs_of(admitted)


def text_of(key: bytes | None) -> str | None:
    """A record's key as text, None for one that is none. No key is an empty key."""
    try:
        return key.decode() if key else ""
    except UnicodeDecodeError:
        return None


def _start_of_only_event(value: bytes) -> int:
    """Where the event begins in a record that is one event and nothing else, as most short
    records are; 0 for any other. Such a record needs no batch around its event to parse."""
    length = len(value)
    if length < 4 or value[0] != _EVENTS_TAG:
        return 0
    low = value[1]
    if low < 128:
        return 2 if low == length - 2 else 0
    high = value[2]
    return 3 if high < 128 and low - 128 + (high << 7) == length - 3 else 0


_EVENTS_TAG = 0x0A
"""The byte that precedes each event of a batch on the wire: field 1, length-delimited."""
