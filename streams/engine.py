"""The `local` engine: folds over one topic of the log, on one machine, with checkpoints.

A checkpoint goes in this order, so that a crash between any two steps loses nothing and
repeats only what has the same identity: objects are stored, derived events are flushed
to the log, then (states, next offsets, fold versions) are written in one piece, then the
offsets are committed for whoever watches the lag.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from schemas.errors import CheckFailedError
from schemas.event_pb2 import Event
from schemas.topics import Topic, topic_of
from streams.fold import Fold, Output
from streams.host import Host, LogRecord


class Source(Protocol):
    """Reads one topic's partitions from given positions."""

    @property
    def at_end(self) -> bool: ...
    def poll(self, max_records: int, timeout_s: float) -> Sequence[LogRecord]: ...
    def commit(self, positions: Mapping[tuple[str, int], int]) -> None: ...


class Sink(Protocol):
    """Takes derived events; `flush` returns once all of them are durable on the log."""

    def send_events(self, topic: Topic, events: Sequence[Event]) -> None: ...
    def flush(self) -> None: ...


class Objects(Protocol):
    """Stores objects by key; they are durable when it returns."""

    def put_all(self, objects: Sequence[tuple[str, bytes]]) -> None: ...


class Checkpoints(Protocol):
    """Keeps one snapshot a partition; `save` is atomic and durable when it returns."""

    def load(self, partition: int) -> bytes | None: ...
    def save(self, snapshots: Mapping[int, bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts since the engine was opened, and since offset 0 for `events` and `refused`."""

    records: int
    events: int
    refused: int
    derived: int


class TooManyRefusedError(CheckFailedError):
    """Most of what is read is refused: rather a bad release than bad events."""


MAX_REFUSED_SHARE = 0.5
REFUSED_WINDOW = 1000
"""The engine stops when more than this share of so many events in a row is refused."""


class LocalEngine:
    """Runs `folds` over `topic`. `open_source` is called with the positions to read from."""

    def __init__(
        self,
        topic: Topic,
        folds: Sequence[Fold[Any]],
        *,
        partitions: Iterable[int],
        open_source: Callable[[Mapping[tuple[str, int], int]], Source],
        sink: Sink,
        objects: Objects,
        checkpoints: Checkpoints,
        checkpoint_interval_s: float = 1.0,
    ) -> None:
        self._topic = topic
        self._sink = sink
        self._objects = objects
        self._checkpoints = checkpoints
        self._interval = checkpoint_interval_s
        self._hosts: dict[int, Host] = {}
        for partition in partitions:
            host = self._hosts[partition] = Host(topic, folds)
            snapshot = checkpoints.load(partition)
            if snapshot is not None:
                host.restore(snapshot)
        self._source = open_source(self._positions())
        self._records = 0
        self._derived = 0
        self._window = (0, 0)
        self._dirty: set[int] = set()

    def run(
        self,
        *,
        until_end: bool,
        on_progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Apply records until the end of the log, or until `stop` says so; ends with a checkpoint.

        Raises TooManyRefusedError before anything of the offending window is committed.
        """
        last = monotonic()
        while not stop():
            records = self._source.poll(2000, 0.2)
            if records:
                self._apply(records)
            if monotonic() - last >= self._interval:
                self.checkpoint()
                last = monotonic()
                if on_progress:
                    on_progress(self.progress())
            if until_end and not records and self._source.at_end:
                break
        self.checkpoint()
        if on_progress:
            on_progress(self.progress())
        return self.progress()

    def _apply(self, records: Sequence[LogRecord]) -> None:
        by_partition: dict[int, list[LogRecord]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        for partition, some in by_partition.items():
            output = self._hosts[partition].apply(some)
            self._dirty.add(partition)
            self._emit(output)
        self._records += len(records)
        self._check_refused()

    def _emit(self, output: Output) -> None:
        if output.objects:
            self._objects.put_all(output.objects)
        for topic, events in _in_topics(output.events):
            self._sink.send_events(topic, events)
        self._derived += len(output.events)

    def _check_refused(self) -> None:
        events = sum(host.events for host in self._hosts.values())
        refused = sum(host.refused for host in self._hosts.values())
        read, bad = events - self._window[0], refused - self._window[1]
        if read < REFUSED_WINDOW:
            return
        self._window = (events, refused)
        if bad > MAX_REFUSED_SHARE * read:
            raise TooManyRefusedError(
                f"{bad} of the last {read} events of {self._topic.name} were refused",
                "see `planloop dead-letters list`, mend the producer or the release, start again",
            )

    def checkpoint(self) -> None:
        """Make everything so far durable, in the order that the module states."""
        if not self._dirty:
            return
        self._sink.flush()
        self._checkpoints.save({p: self._hosts[p].snapshot() for p in sorted(self._dirty)})
        self._source.commit(self._positions())
        self._dirty.clear()

    @property
    def at_end(self) -> bool:
        """Whether everything on the log has been applied."""
        return self._source.at_end

    def states(self, fold_name: str) -> Iterator[Any]:
        """The states of a fold, of all partitions, to be looked at."""
        for host in self._hosts.values():
            yield from host.states(fold_name)

    def progress(self) -> Progress:
        return Progress(
            records=self._records,
            events=sum(host.events for host in self._hosts.values()),
            refused=sum(host.refused for host in self._hosts.values()),
            derived=self._derived,
        )

    def _positions(self) -> dict[tuple[str, int], int]:
        return {(self._topic.name, p): host.next_offset for p, host in self._hosts.items()}


def _in_topics(events: Sequence[Event]) -> list[tuple[Topic, list[Event]]]:
    """Events by topic, in order within each."""
    topics: dict[str, tuple[Topic, list[Event]]] = {}
    for event in events:
        topic = topic_of(event.WhichOneof("body") or "")
        topics.setdefault(topic.name, (topic, []))[1].append(event)
    return list(topics.values())
