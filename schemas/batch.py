"""Records: what a Kafka value holds, written with its index and read back lazily.

`encode` is for events that have passed the edge: it adds the runs that let a fold
leave most of a record unparsed. `Batch` is the reading side. It takes the runs when
they add up, and otherwise parses, validates and indexes the events itself; either
way a fold sees the same runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from schemas import event_pb2
from schemas.descriptors import POOL
from schemas.event_pb2 import Event, EventBatch
from schemas.refusal_pb2 import (
    REASON_EMPTY_RECORD,
    REASON_NO_EVENTS,
    REASON_TOO_LARGE,
    REASON_UNPARSEABLE,
)
from schemas.rollout_pb2 import ACTION_KIND_TOOL_CALL
from schemas.topics import BODIES, MAX_RECORD_BYTES, Topic
from schemas.validation import Refusal, check

ACTION = BODIES["action_taken"]
OBSERVATION = BODIES["observation_received"]

INDEX_FROM = 4
"""Shorter batches go without an index: parsing them costs less than reading it."""


@dataclass(slots=True)
class Run:
    """Events first_seq, first_seq + 1, ... of one stream, side by side in a record.

    `start` is the position of the first one in the record, `bodies` one byte an event (the
    field number of its body). The sums are over the run: `steps` actions, of which
    `tool_calls` are tool calls and `untold_actions` do not state their output tokens.
    Times are UTC microseconds.
    """

    start: int
    stream_id: str
    first_seq: int
    bodies: bytes
    tenant: str
    tool_calls: int
    output_tokens: int
    untold_actions: int
    errors: int
    earliest: int
    latest: int

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.bodies)

    @property
    def steps(self) -> int:
        return self.bodies.count(ACTION)


def run_of(event: Event, start: int) -> Run:
    """The run of a single event at position `start` of its record."""
    body = BODIES[event.WhichOneof("body") or ""]
    tool_calls = output_tokens = untold = errors = 0
    if body == ACTION:
        action = event.action_taken
        tool_calls = int(action.kind == ACTION_KIND_TOOL_CALL)
        if action.HasField("output_tokens"):
            output_tokens = action.output_tokens
        else:
            untold = 1
    elif body == OBSERVATION:
        errors = int(event.observation_received.error_code != "")
    at = event.occurred_at
    return Run(
        start,
        event.stream_id,
        event.seq,
        bytes((body,)),
        event.tenant,
        tool_calls,
        output_tokens,
        untold,
        errors,
        at,
        at,
    )


def append_run(runs: list[Run], run: Run) -> None:
    """Add a run, joined to the last one where it continues it."""
    if runs:
        last = runs[-1]
        if (
            last.stream_id == run.stream_id
            and last.next_seq == run.first_seq
            and last.start + len(last.bodies) == run.start
            and last.tenant == run.tenant
        ):
            last.bodies += run.bodies
            last.tool_calls += run.tool_calls
            last.output_tokens += run.output_tokens
            last.untold_actions += run.untold_actions
            last.errors += run.errors
            last.earliest = min(last.earliest, run.earliest)
            last.latest = max(last.latest, run.latest)
            return
    runs.append(run)


def encode(events: Sequence[Event]) -> bytes:
    """The record value of events that share a key and have passed the edge."""
    batch = EventBatch(events=events)
    if len(events) >= INDEX_FROM:
        runs: list[Run] = []
        for index, event in enumerate(events):
            append_run(runs, run_of(event, index))
        batch.runs.extend(
            event_pb2.Run(
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
            for run in runs
        )
    return batch.SerializeToString()


def _lazy_class() -> Any:
    """EventBatch with its events left as bytes: same wire format, nothing parsed below it."""
    file = descriptor_pb2.FileDescriptorProto(
        name="schemas/lazy.proto", package="planloop.lazy", syntax="proto3"
    )
    file.dependency.append("schemas/event.proto")
    message = file.message_type.add(name="LazyBatch")
    repeated = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    message.field.add(
        name="events", number=1, label=repeated, type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
    )
    message.field.add(
        name="runs",
        number=2,
        label=repeated,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".planloop.v1.Run",
    )
    POOL.Add(file)  # pyright: ignore[reportAttributeAccessIssue]  # missing in the stubs
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName("planloop.lazy.LazyBatch"))


_LazyBatch = _lazy_class()


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
        self._raw: Sequence[bytes] | None = None
        if not value:
            self._refuse(Refusal(REASON_EMPTY_RECORD, "the record has no value"))
        elif len(value) > MAX_RECORD_BYTES:
            detail = f"{len(value)} bytes where {MAX_RECORD_BYTES} are allowed"
            self._refuse(Refusal(REASON_TOO_LARGE, detail))
        elif not (trust and len(value) > _WORTH_AN_INDEX and self._take_index(value)):
            self._validate(value, key, topic)

    def event(self, position: int) -> Event:
        """The event at a position of the record, parsed when it is asked for."""
        if self._events is not None:
            return self._events[position]
        return Event.FromString(self.raw(position))

    def raw(self, position: int) -> bytes:
        """The bytes of the event at a position, as its producer wrote them."""
        if self._raw is None:
            self._raw = _LazyBatch.FromString(self._value).events
        return self._raw[position]

    def _refuse(self, refusal: Refusal) -> None:
        self.refusals.append((None, refusal))

    def _take_index(self, value: bytes) -> bool:
        """Adopt the record's own runs if they cover its events one for one."""
        try:
            lazy = _LazyBatch.FromString(value)
        except DecodeError:
            return False
        self._raw = lazy.events
        start = 0
        runs: list[Run] = []
        for run in lazy.runs:
            bodies = run.bodies
            runs.append(
                Run(
                    start,
                    run.stream_id,
                    run.first_seq,
                    bodies,
                    run.tenant,
                    run.tool_calls,
                    run.output_tokens,
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

    def _validate(self, value: bytes, key: bytes | None, topic: Topic) -> None:
        try:
            name = (key or b"").decode()
            events: Sequence[Event] = EventBatch.FromString(value).events
        except UnicodeDecodeError:
            self._refuse(Refusal(REASON_UNPARSEABLE, "the record's key is not UTF-8"))
            return
        except DecodeError as error:
            self._salvage(value, name, topic, error)
            return
        if not events:
            self._refuse(Refusal(REASON_NO_EVENTS, "the record parses but holds no event"))
            return
        self._events = events
        for position, event in enumerate(events):
            self._admit(position, event, topic, name)

    def _salvage(self, value: bytes, name: str, topic: Topic, error: DecodeError) -> None:
        """One bad event does not take its neighbours with it, as long as the frame holds."""
        try:
            raw = _LazyBatch.FromString(value).events
        except DecodeError:
            self._refuse(Refusal(REASON_UNPARSEABLE, str(error)))
            return
        if not raw:
            self._refuse(Refusal(REASON_UNPARSEABLE, str(error)))
            return
        self._raw = raw
        for position, part in enumerate(raw):
            try:
                event = Event.FromString(part)
            except DecodeError as wrong:
                self.refusals.append((position, Refusal(REASON_UNPARSEABLE, str(wrong))))
                continue
            self._admit(position, event, topic, name)

    def _admit(self, position: int, event: Event, topic: Topic, key: str) -> None:
        refusal = check(event, topic, key)
        if refusal is None:
            append_run(self.runs, run_of(event, position))
        else:
            self.refusals.append((position, refusal))


_WORTH_AN_INDEX = 512
"""Values shorter than this hold an event or two: not worth looking for an index."""
