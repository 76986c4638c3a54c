"""A log and an object store in memory, which can die at a chosen moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from schemas.batch import encode
from schemas.event_pb2 import Event, EventBatch
from schemas.topics import Topic, topic_of
from schemas.training_pb2 import ObjectRef
from trainer.ports import Positions, Record


class MemoryRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Killed(BaseException):
    """What the process does not live to handle."""


@dataclass
class Life:
    """Counts effects and ends before (`.0`) or after (`.5`) the chosen one."""

    ends_at: float = float("inf")
    effects: int = 0

    def before(self) -> None:
        if self.effects >= self.ends_at:
            raise Killed

    def after(self) -> None:
        self.effects += 1
        if self.effects - 0.5 >= self.ends_at:
            raise Killed


@dataclass
class MemoryLog:
    life: Life = field(default_factory=Life)
    records: dict[str, list[Record]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)

    def read(self, topic: Topic) -> Iterator[Record]:
        yield from list(self.records.get(topic.name, []))

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            self.life.before()
            topic = topic_of(event.WhichOneof("body") or "")
            written = self.records.setdefault(topic.name, [])
            written.append(
                MemoryRecord(
                    topic.name, 0, len(written), topic.key(event).encode(), encode([event])
                )
            )
            self.life.after()

    def acknowledge(self, positions: Positions) -> None:
        self.life.before()
        self.committed.update(positions)
        self.life.after()

    def events(self, topic: Topic) -> list[Event]:
        return [
            event
            for record in self.records.get(topic.name, [])
            for event in EventBatch.FromString(record.value or b"").events
        ]


@dataclass
class MemoryStore:
    life: Life = field(default_factory=Life)
    objects: dict[str, bytes] = field(default_factory=dict)

    def put(self, key: str, data: bytes) -> ObjectRef:
        self.life.before()
        self.objects[key] = data
        self.life.after()
        return ObjectRef(
            bucket="planloop", key=key, sha256=sha256(data).hexdigest(), bytes=len(data)
        )

    def get(self, key: str) -> bytes:
        return self.objects[key]

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield key, len(self.objects[key])
