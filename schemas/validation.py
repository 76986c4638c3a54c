"""Edge validation."""

from dataclasses import dataclass

from schemas.event_pb2 import Event
from schemas.refusal_pb2 import Reason
from schemas.topics import Topic


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event or a record may not pass, for people (`detail`) and programs (`reason`)."""

    reason: Reason
    detail: str


def check(event: Event, topic: Topic, key: str) -> Refusal | None:
    """None when the event may be written to `topic` under `key`."""
    return None
