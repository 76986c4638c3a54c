"""Several records of one key, read as one batch.

A fold's work for each record is worth sparing where records are small: what a poll
brought of one key is joined, its runs too, and records of a single event are parsed
all at once, because encoded batches side by side are again a batch.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from google.protobuf.message import DecodeError

from schemas.batch import LARGEST_BELIEVED, Batch, LazyBatch, append_run, event_of, text_of
from schemas.event_pb2 import Event
from schemas.runs import ACTION, OBSERVATION, Run
from schemas.topics import Topic
from schemas.validation import Refusal


class Indexed(Protocol):
    """Events as a fold reads them: runs first, single events where it must."""

    @property
    def runs(self) -> list[Run]: ...
    def event(self, position: int) -> Event: ...
    def raw(self, position: int) -> bytes: ...


class _Singles:
    """Events of records that hold one each."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Sequence[bytes]) -> None:
        self._raw = raw

    def event(self, position: int) -> Event:
        return event_of(self._raw[position])

    def raw(self, position: int) -> bytes:
        return self._raw[position]


class Joined:
    """The records `values` of one key, in order. Positions count events across all of them.

    `refusals` holds (record, position in it, refusal); position None: refused whole.
    """

    __slots__ = ("_firsts", "_parts", "_size", "_starts", "refusals", "runs")

    def __init__(
        self, values: Sequence[bytes | None], key: bytes | None, topic: Topic, *, trust: bool
    ) -> None:
        self.runs: list[Run] = []
        self.refusals: list[tuple[int, int | None, Refusal]] = []
        self._size = 0
        self._parts: list[Batch | _Singles] = []
        self._starts: list[int] = []
        self._firsts: list[int] = []
        index, end = 0, len(values)
        believed = trust and text_of(key) is not None
        while index < end:
            after = index
            while after < end and believed and _is_single(values[after]):
                after += 1
            if after == index or not self._take_singles(index, values[index:after]):
                after = max(after, index + 1)
                for record in range(index, after):
                    self._take(record, Batch(values[record], key, topic, trust=trust))
            index = after

    def event(self, position: int) -> Event:
        index = bisect_right(self._starts, position) - 1
        return self._parts[index].event(position - self._starts[index])

    def raw(self, position: int) -> bytes:
        index = bisect_right(self._starts, position) - 1
        return self._parts[index].raw(position - self._starts[index])

    def place(self, position: int) -> tuple[int, int]:
        """(record, position in it) of an event."""
        index = bisect_right(self._starts, position) - 1
        within, first = position - self._starts[index], self._firsts[index]
        return (first + within, 0) if isinstance(self._parts[index], _Singles) else (first, within)

    def raw_in(self, record: int, position: int) -> bytes:
        """The bytes of the event at a position of a record that was not read as a single."""
        return self._parts[self._firsts.index(record)].raw(position)

    def _add(self, record: int, part: Batch | _Singles, size: int) -> None:
        self._parts.append(part)
        self._starts.append(self._size)
        self._firsts.append(record)
        self._size += size

    def _take(self, record: int, batch: Batch) -> None:
        for position, refusal in batch.refusals:
            self.refusals.append((record, position, refusal))
        for run in batch.runs:
            run.start += self._size
            append_run(self.runs, run)
        self._add(record, batch, len(batch))

    def _take_singles(self, record: int, values: Sequence[bytes | None]) -> bool:
        """Take records of one event and one run each; False if some index is not believable."""
        try:
            lazy = LazyBatch.FromString(b"".join(values))  # pyright: ignore[reportArgumentType]
        except DecodeError:
            return False
        run: Run | None = None
        taken: list[Run] = []
        stream, tenant, next_seq = "", "", -1
        for position, wire in enumerate(lazy.runs, self._size):
            body, seq, at = wire.bodies, wire.first_seq, wire.latest
            if len(body) != 1 or seq > LARGEST_BELIEVED:
                return False
            if (
                run is not None
                and seq == next_seq
                and wire.stream_id == stream
                and wire.tenant == tenant
            ):
                run.bodies += body
                if at > run.latest:
                    run.latest = at
                elif at < run.earliest:
                    run.earliest = at
            else:
                stream, tenant = wire.stream_id, wire.tenant
                run = Run(position, stream, seq, body, tenant, 0, 0, 0, 0, at, at)
                taken.append(run)
            number = body[0]
            if number == ACTION:
                tokens = wire.output_tokens
                if tokens > LARGEST_BELIEVED:
                    return False
                run.tool_calls += wire.tool_calls
                run.output_tokens += tokens
                run.untold_actions += wire.untold_actions
            elif number == OBSERVATION:
                run.errors += wire.errors
            next_seq = seq + 1
        for run in taken:
            append_run(self.runs, run)
        self._add(record, _Singles(lazy.events), len(values))
        return True


def _is_single(value: bytes | None) -> bool:
    """Whether a record is one short event with one run behind it, judged by the frame alone."""
    if value is None or len(value) < 8 or value[0] != _EVENTS_TAG:
        return False
    low = value[1]
    if low < 128:
        tag = 2 + low
    else:
        high = value[2]
        if high > 127:
            return False
        tag = 3 + low - 128 + (high << 7)
    size = len(value)
    return tag + 2 <= size and value[tag] == _RUNS_TAG and tag + 2 + value[tag + 1] == size


_EVENTS_TAG = 0x0A
_RUNS_TAG = 0x12
"""The bytes that precede an event and a run on the wire; a run is shorter than 128 bytes here."""
