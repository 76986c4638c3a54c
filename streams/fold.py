"""What a fold is: a pure, named, versioned state machine over the records of one topic.

A fold has no clock, no random source and no I/O. Whatever it derives has a derived
identity, so that applying a record twice derives the same events twice and changes
nothing downstream.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from schemas.event_pb2 import Event
from schemas.joined import Indexed
from schemas.topics import Topic
from schemas.validation import Refusal

S = TypeVar("S")


@dataclass(slots=True)
class Output:
    """What applying records gave: derived events, refused events, objects to store.

    `events` go to the topic of their body, in order. `refused` holds positions in the record
    that was applied. `objects` are (key, content); keys are content-addressed, so that storing
    one twice is harmless, and an object is durable before the event that names it.
    """

    events: list[Event] = field(default_factory=list)
    refused: list[tuple[int, Refusal]] = field(default_factory=list)
    objects: list[tuple[str, bytes]] = field(default_factory=list)


class Fold(Protocol[S]):
    """A state machine with one state for each key. `apply` changes `state` in place."""

    name: str
    version: int
    topic: Topic
    state_type: type[S]

    def key(self, record_key: str) -> str:
        """The state that a record belongs to; most folds return the record's key."""
        ...

    def initial(self, key: str) -> S: ...

    def apply(self, state: S, batch: Indexed, output: Output) -> None:
        """Take one record. The edge's refusals in `batch.refusals` are not the fold's business."""
        ...

    def closed(self, state: S) -> bool:
        """True once nothing but duplicates and latecomers is expected; the engine keeps a
        bounded number of closed states, forgetting the oldest."""
        ...
