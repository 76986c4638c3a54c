"""What the trainer asks of a log and of an object store, so that both can be in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from schemas.event_pb2 import Event
from schemas.topics import Topic
from schemas.training_pb2 import ObjectRef

Positions = Mapping[tuple[str, int], int]


class Record(Protocol):
    """A record of the log."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class Log(Protocol):
    """The log as the trainer uses it."""

    def read(self, topic: Topic) -> Iterator[Record]:
        """Every record of the topic, up to its end as of the call."""
        ...

    def write(self, events: Sequence[Event]) -> None:
        """Append events in order; they are durable when this returns."""
        ...

    def acknowledge(self, positions: Positions) -> None:
        """Say how far the trainer has come, for whoever watches its lag."""
        ...


class Store(Protocol):
    """The object store as the trainer uses it."""

    def put(self, key: str, data: bytes) -> ObjectRef: ...
    def get(self, key: str) -> bytes: ...
    def list(self, prefix: str) -> Iterable[tuple[str, int]]: ...
