"""Edge validation: parseable is not valid.

`check` is a pure function of the event, its topic and its key; no clock is read, so an
event that passed once passes on every replay.
"""

from google.protobuf.message import Message

from schemas.bodies import BODY_CHECKS, MAX_INTEGER, identity_fault, integer_fault, missing
from schemas.event_pb2 import Event
from schemas.events import event_id
from schemas.refusal_pb2 import (
    REASON_BODY_UNSET,
    REASON_CLOCK_OUT_OF_RANGE,
    REASON_TOO_LARGE,
    REASON_WRONG_EVENT_ID,
    REASON_WRONG_KEY,
    REASON_WRONG_TOPIC,
)
from schemas.rules import CLOCK_AHEAD, CLOCK_FROM, CLOCK_UNTIL, IN_ENVELOPE, Refusal
from schemas.topics import BODIES, MAX_EVENT_BYTES, Topic

__all__ = ["Refusal", "Vetted", "check", "glance", "vet"]

Vetted = tuple[str, int, str, int, int, Message]
"""What a reader wants to know of a valid event: stream_id, seq, tenant, occurred_at, the
field number of its body, and the body."""


def check(event: Event, topic: Topic, key: str) -> Refusal | None:
    """None when the event may be written to `topic` under `key`."""
    vetted = vet(event, topic, key, event.ByteSize())
    return vetted if isinstance(vetted, Refusal) else None


def vet(event: Event, topic: Topic, key: str, size: int) -> Vetted | Refusal:
    """`check` for a reader, which gets what was read on the way.

    `size` is an upper bound on the event's encoded bytes: who has a record knows it
    without measuring each event in it.
    """
    stream_id = event.stream_id
    seq = event.seq
    identity = event.event_id
    tenant = event.tenant
    producer = event.producer
    occurred_at = event.occurred_at
    recorded_at = event.recorded_at
    names = (
        f"{identity}{event.group_id}{tenant}{producer}{event.producer_version}"
        f"{event.correlation_id}{event.causation_id}"
        f"{event.policy_version}{event.harness_version}{event.schedule_version}"
    )
    if not (
        identity == f"{stream_id}#{seq}"
        and names.isascii()
        and names.isprintable()
        and len(names) <= _SHORT
        and stream_id
        and tenant
        and producer
        and CLOCK_FROM <= occurred_at < CLOCK_UNTIL
        and CLOCK_FROM <= recorded_at < CLOCK_UNTIL
        and occurred_at - recorded_at <= CLOCK_AHEAD
        and key
        and topic.key(event) == key
        and seq <= MAX_INTEGER
        and size <= MAX_EVENT_BYTES
    ):
        fault = _envelope_fault(event, topic, key, size)
        if fault:
            return fault
    name = event.WhichOneof("body")
    if name not in topic.bodies:
        return _body_fault(name, topic)
    body = getattr(event, name)
    number, check_body, check_place = _BODIES[name]
    fault = check_body(body) or (check_place and check_place(event))
    return fault or (stream_id, seq, tenant, occurred_at, number, body)


def glance(event: Event) -> Vetted:
    """What `vet` gives for an event that passed before. KeyError without a known body."""
    name = event.WhichOneof("body") or ""
    number = BODIES[name]
    return (
        event.stream_id,
        event.seq,
        event.tenant,
        event.occurred_at,
        number,
        getattr(event, name),
    )


_BODIES = {
    name: (number, BODY_CHECKS[name], IN_ENVELOPE.get(name)) for name, number in BODIES.items()
}

_SHORT = 512
"""Names of an event that are together no longer than this are no longer one by one."""

_NAMES = (
    "stream_id",
    "event_id",
    "group_id",
    "correlation_id",
    "causation_id",
    "producer",
    "producer_version",
    "tenant",
    "policy_version",
    "harness_version",
    "schedule_version",
)


def _envelope_fault(event: Event, topic: Topic, key: str, size: int) -> Refusal | None:
    """What is wrong with an envelope, if anything; in the order in which people would ask."""
    if size > MAX_EVENT_BYTES and (size := event.ByteSize()) > MAX_EVENT_BYTES:
        detail = f"the event has {size} bytes where {MAX_EVENT_BYTES} are allowed"
        return Refusal(REASON_TOO_LARGE, detail)
    for name in ("stream_id", "event_id", "tenant", "producer", "occurred_at", "recorded_at"):
        if not getattr(event, name):
            return missing(name)
    for name in _NAMES:
        if fault := identity_fault(name, getattr(event, name)):
            return fault
    if event.seq > MAX_INTEGER:
        return integer_fault("seq", event.seq)
    if event.event_id != event_id(event.stream_id, event.seq):
        detail = f"{event.event_id!r} is not the id of {event.stream_id!r}, {event.seq}"
        return Refusal(REASON_WRONG_EVENT_ID, detail)
    wanted = topic.key(event)
    if not wanted:
        return missing(f"what keys {topic.name}")
    if wanted != key:
        detail = f"the record's key is {key!r}, the event's is {wanted!r}"
        return Refusal(REASON_WRONG_KEY, detail)
    return _clock_fault(event)


def _clock_fault(event: Event) -> Refusal | None:
    for name, at in (("occurred_at", event.occurred_at), ("recorded_at", event.recorded_at)):
        if not CLOCK_FROM <= at < CLOCK_UNTIL:
            detail = f"{name} {at} is no time from 2010 to 2099 in microseconds"
            return Refusal(REASON_CLOCK_OUT_OF_RANGE, detail)
    if event.occurred_at - event.recorded_at > CLOCK_AHEAD:
        detail = f"occurred_at {event.occurred_at} is over a day after recorded_at"
        return Refusal(REASON_CLOCK_OUT_OF_RANGE, detail)
    return None


def _body_fault(name: str | None, topic: Topic) -> Refusal:
    if name is None:
        return Refusal(REASON_BODY_UNSET, "the event has no body that this schema knows")
    return Refusal(REASON_WRONG_TOPIC, f"{topic.name} takes no {name}")
