"""Records of the log to blocks: what is inserted at once, cut by the records alone.

A block holds whole records of one partition. It is full after BLOCK_EVENTS events or
BLOCK_BYTES of values, never after some time, so that reading again from where a block
began cuts the same blocks, and `token` names the same rows for ever. Only a block that is
drained before it is full may be cut otherwise by a second reading; its rows then arrive
twice, under two tokens and one identity, and count once.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from google.protobuf.message import DecodeError

from consumers.rows import Columns, rows, versions
from schemas.batch import Batch
from schemas.event_pb2 import Event, EventBatch
from schemas.topics import CATALOGUE, MAX_RECORD_BYTES, Topic
from schemas.validation import Refusal, Vetted, vet
from streams.host import LogRecord

BLOCK_EVENTS = 65_536
BLOCK_BYTES = 64 * 1024 * 1024

_CHUNK_EVENTS = 1_000
"""Events converted at a time: few enough for them to stay in the processor's cache."""


class Refused(NamedTuple):
    """Bytes of a record that the edge refuses: one event's, or all of them (position None)."""

    record: LogRecord
    position: int | None
    refusal: Refusal
    raw: bytes


class Block:
    """Rows of consecutive records of one partition, by table."""

    def __init__(self, topic: Topic, partition: int, first: int) -> None:
        self.topic = topic
        self.partition = partition
        self.first = first
        self.last = first
        self.time = 0
        self.records = 0
        self.events = 0
        self.bytes = 0
        self.refused: list[Refused] = []
        self._parts: dict[str, list[Columns]] = {}
        self._events: list[Event] = []
        self._vetted: list[Vetted] = []
        self._versions: list[int] = []

    @property
    def token(self) -> str:
        """`topic:partition:first-last`, by which the warehouse knows a block sent twice."""
        return f"{self.topic.name}:{self.partition}:{self.first}-{self.last}"

    @property
    def full(self) -> bool:
        return self.events >= BLOCK_EVENTS or self.bytes >= BLOCK_BYTES

    def add(self, record: LogRecord) -> None:
        """Take the next record of the partition."""
        before = len(self._vetted)
        if not self._take_whole(record):
            self._take_apart(record)
        self._versions.extend(versions(self.partition, record.offset, len(self._vetted) - before))
        self.last, self.time = record.offset, record.timestamp
        self.records += 1
        self.events += len(self._vetted) - before
        self.bytes += len(record.value or b"")
        if len(self._vetted) >= _CHUNK_EVENTS:
            self._convert()

    def tables(self) -> dict[str, Columns]:
        """The block's columns by table. Call it when nothing more is added."""
        self._convert()
        return {
            name: {
                column: pa.concat_arrays([part[column] for part in parts]) for column in parts[0]
            }
            for name, parts in self._parts.items()
        }

    def _take_whole(self, record: LogRecord) -> bool:
        """Take a record that is right in every part; False, and nothing taken, for another."""
        value = record.value
        if not value or len(value) > MAX_RECORD_BYTES:
            return False
        try:
            key = (record.key or b"").decode()
            events = EventBatch.FromString(value).events
        except (DecodeError, UnicodeDecodeError):
            return False
        size = len(value)
        topic = self.topic
        vetted = [vet(event, topic, key, size) for event in events]
        if not vetted or Refusal in map(type, vetted):
            return False
        self._events.extend(events)
        self._vetted.extend(vetted)  # pyright: ignore[reportArgumentType]  # none is a Refusal
        return True

    def _take_apart(self, record: LogRecord) -> None:
        """Take what is right of a record and keep what is refused."""
        value = record.value or b""
        batch = Batch(record.value, record.key, self.topic, trust=False)
        key = "" if not batch.runs else (record.key or b"").decode()
        for run in batch.runs:
            for position in range(run.start, run.start + len(run.bodies)):
                event = batch.event(position)
                vetted = vet(event, self.topic, key, len(value))
                if not isinstance(vetted, Refusal):
                    self._events.append(event)
                    self._vetted.append(vetted)
        for position, refusal in batch.refusals:
            raw = value if position is None else batch.raw(position)
            self.refused.append(Refused(record, position, refusal, raw))

    def _convert(self) -> None:
        if self._vetted:
            for name, columns in rows(self._events, self._vetted, self._versions).items():
                self._parts.setdefault(name, []).append(columns)
            self._events, self._vetted, self._versions = [], [], []


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: events make many objects and no cycles, and walking all of
    them again and again takes longer than converting them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Blocks:
    """The blocks that are open, one a partition."""

    def __init__(self, topics: Iterable[Topic] = CATALOGUE) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._open: dict[tuple[str, int], Block] = {}

    def add(self, records: Iterable[LogRecord]) -> list[Block]:
        """Take records, those of a partition in order; returns the blocks that they fill."""
        full: list[Block] = []
        with _uncollected():
            for record in records:
                where = (record.topic, record.partition)
                block = self._open.get(where)
                if block is None:
                    topic = self._topics[record.topic]
                    block = self._open[where] = Block(topic, record.partition, record.offset)
                block.add(record)
                if block.full:
                    full.append(self._open.pop(where))
        return full

    def drain(self) -> list[Block]:
        """The open blocks as they are; none is open afterwards."""
        blocks = list(self._open.values())
        self._open.clear()
        return blocks
