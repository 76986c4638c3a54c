"""Hosting folds over one topic: the part of an engine that has no I/O.

`Host` keeps the states of one partition, applies records to them, and turns into a
snapshot and back. Engines and the synchronous driver differ only in where records come
from and where derived events go.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.joined import Joined
from schemas.refusal_pb2 import DeadLetter
from schemas.topics import Topic
from schemas.validation import Refusal
from streams.fold import Fold, Output

EPOCH = 16_384
"""Offsets in an epoch. A closed state is kept through the epoch in which it closed and the
next one, to know duplicates and latecomers by. What is forgotten thus follows from offsets
alone and is the same however the log is read."""

LARGEST_RAW = 512 * 1024
"""Longer refused bytes go to the object store; the dead letter names them."""


class LogRecord(Protocol):
    """What a fold's host needs of a record; the log client's `Record` has more."""

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
    @property
    def timestamp(self) -> int: ...


class _Kept(msgspec.Struct, array_like=True):
    """A fold's states in a snapshot, encoded; `closed` has the epoch in which a key closed."""

    version: int
    states: msgspec.Raw
    closed: dict[str, int]


class _Snapshot(msgspec.Struct, array_like=True):
    next_offset: int
    events: int
    refused: int
    folds: dict[str, _Kept]


class Host:
    """The states of one partition of `topic` under `folds`.

    `next_offset` is the offset after the last record that was applied; `events` counts what was
    read since offset 0, `refused` what of it was refused by the edge or by a fold.
    """

    def __init__(self, topic: Topic, folds: Sequence[Fold[Any]], *, trust: bool = True) -> None:
        self.next_offset = 0
        self.events = 0
        self.refused = 0
        self._topic = topic
        self._folds = folds
        self._trust = trust
        self._apart = all(fold.key("a key") == "a key" for fold in folds)
        self._states: list[dict[str, Any]] = [{} for _ in folds]
        self._closed: list[dict[str, int]] = [{} for _ in folds]
        self._epoch_end = EPOCH

    def apply(self, records: Iterable[LogRecord]) -> Output:
        """Apply records of this partition in order; records seen before are passed over.

        States are apart, so the records of one key are taken together, unless they share
        their state with other keys: then the order of the log is kept.
        """
        output = Output()
        stretches: list[list[LogRecord]] = []
        newest: dict[bytes | None, list[LogRecord]] = {}
        for record in records:
            offset = record.offset
            if offset < self.next_offset:
                continue
            if offset >= self._epoch_end:
                self._take(stretches, output)
                stretches, newest = [], {}
                self._begin_epoch(offset)
            self.next_offset = offset + 1
            stretch = newest.get(record.key)
            if stretch is None:
                if not self._apart:
                    newest.clear()
                stretch = newest[record.key] = []
                stretches.append(stretch)
            stretch.append(record)
        self._take(stretches, output)
        return output

    def states(self, fold_name: str) -> Iterable[Any]:
        """The states of a fold that are in memory, to be looked at."""
        names = [fold.name for fold in self._folds]
        return self._states[names.index(fold_name)].values()

    @property
    def kept(self) -> int:
        """How many states are in memory."""
        return sum(map(len, self._states))

    def _begin_epoch(self, offset: int) -> None:
        epoch = offset // EPOCH
        self._epoch_end = (epoch + 1) * EPOCH
        for states, closed in zip(self._states, self._closed, strict=True):
            for key in [key for key, closed_in in closed.items() if closed_in < epoch - 1]:
                del closed[key], states[key]

    def _take(self, stretches: Sequence[Sequence[LogRecord]], output: Output) -> None:
        for stretch in stretches:
            self._apply(stretch, output)

    def _apply(self, records: Sequence[LogRecord], output: Output) -> None:
        key = records[0].key
        values = [record.value for record in records]
        batch = Joined(values, key, self._topic, trust=self._trust)
        for index, position, refusal in batch.refusals:
            raw = (values[index] or b"") if position is None else batch.raw_in(index, position)
            self._dead_letter(records[index], raw, position, refusal, "edge", output)
        self.events += len(batch.refusals)
        if not batch.runs:
            return
        for run in batch.runs:
            self.events += len(run.bodies)
        record_key = (key or b"").decode()
        for fold, states, closed in zip(self._folds, self._states, self._closed, strict=True):
            state_key = fold.key(record_key)
            state = states.get(state_key)
            if state is None:
                state = states[state_key] = fold.initial(state_key)
            fold.apply(state, batch, output)
            if output.refused:
                by = f"{fold.name}/{fold.version}"
                for position, refusal in output.refused:
                    index, within = batch.place(position)
                    raw = batch.raw(position)
                    self._dead_letter(records[index], raw, within, refusal, by, output)
                output.refused.clear()
            if state_key not in closed and fold.closed(state):
                closed[state_key] = self._epoch_end // EPOCH - 1

    def _dead_letter(
        self,
        record: LogRecord,
        raw: bytes,
        position: int | None,
        refusal: Refusal,
        refused_by: str,
        output: Output,
    ) -> None:
        self.refused += 1
        event = dead_letter(record, raw, position, refusal, refused_by)
        if event.dead_letter.object_key:
            output.objects.append((event.dead_letter.object_key, raw))
        output.events.append(event)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(
            _Snapshot(
                self.next_offset,
                self.events,
                self.refused,
                {
                    fold.name: _Kept(
                        fold.version, msgspec.Raw(msgspec.msgpack.encode(states)), closed
                    )
                    for fold, states, closed in zip(
                        self._folds, self._states, self._closed, strict=True
                    )
                },
            )
        )

    def restore(self, snapshot: bytes) -> bool:
        """Adopt a snapshot. False, and nothing changed, if it is of another set or version
        of folds: the partition is then read from its beginning."""
        taken = msgspec.msgpack.decode(snapshot, type=_Snapshot)
        versions = {name: kept.version for name, kept in taken.folds.items()}
        if versions != {fold.name: fold.version for fold in self._folds}:
            return False
        for index, fold in enumerate(self._folds):
            kept = taken.folds[fold.name]
            states = msgspec.msgpack.decode(kept.states, type=dict[str, msgspec.Raw])
            self._states[index] = {
                key: msgspec.msgpack.decode(state, type=fold.state_type)
                for key, state in states.items()
            }
            self._closed[index] = kept.closed
        self.next_offset = taken.next_offset
        self._epoch_end = (max(taken.next_offset - 1, 0) // EPOCH + 1) * EPOCH
        self.events = taken.events
        self.refused = taken.refused
        return True


def dead_letter(
    record: LogRecord, raw: bytes, position: int | None, refusal: Refusal, refused_by: str
) -> Event:
    """The event that keeps refused bytes, the same whoever refuses them first.

    `raw` longer than LARGEST_RAW is left out and named by `object_key`, which the caller stores.
    """
    place = "record" if position is None else str(position)
    stream = Stream(
        f"dead:{record.topic}:{record.partition}:{record.offset}:{place}",
        tenant="planloop",
        producer="planloop.edge",
    )
    event = stream.event(record.timestamp)
    letter = DeadLetter(
        reason=refusal.reason,
        detail=refusal.detail,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key or b"",
        refused_by=refused_by,
        record_time=record.timestamp,
        raw_bytes=len(raw),
    )
    if position is not None:
        letter.index = position
    if len(raw) > LARGEST_RAW:
        letter.object_key = f"dead-letters/{sha256(raw).hexdigest()}"
    else:
        letter.raw = raw
    event.dead_letter.CopyFrom(letter)
    return event
