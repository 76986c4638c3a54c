"""The archiver: copies what the log has and the archive lacks.

Where it goes on is what the archive's own names say, so it keeps no other memory: it may be
killed at any moment and started again anywhere.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from consumers.archive import (
    Objects,
    Segment,
    archived_end,
    holes,
    segments,
    write_segment,
)
from infra.log import Reader, Record, end_offsets, read_range
from schemas.errors import CheckFailedError
from schemas.topics import CATALOGUE, Topic

_log = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_RECORDS = 500_000
"""A segment is stored when it has this many bytes (uncompressed) or records, or at the end of
a run."""


@dataclass(slots=True)
class Archived:
    """What a run of the archiver stored."""

    records: int = 0
    segments: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Open:
    """Records read but not stored: offsets from `position` on."""

    position: int
    records: list[Record] = field(default_factory=list)
    bytes: int = 0


class Archiver:
    """Copies what the log has and the archive lacks. May run again at any time, from anywhere."""

    def __init__(
        self,
        bootstrap: str,
        store: Objects,
        *,
        topics: Sequence[Topic] = CATALOGUE,
        segment_bytes: int = SEGMENT_BYTES,
        segment_records: int = SEGMENT_RECORDS,
    ) -> None:
        self._bootstrap = bootstrap
        self._store = store
        self._topics = topics
        self._segment_bytes = segment_bytes
        self._segment_records = segment_records
        self._open: dict[tuple[str, int], _Open] = {}
        self._done = Archived()

    def run(
        self,
        until_end: bool = True,
        on_progress: Callable[[Archived], None] | None = None,
        *,
        interval_s: float = 30.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Archived:
        """Archive to the end of the log, or follow it until `stop()` says so.

        When following, open segments are stored every `interval_s` seconds. Blocks. Raises
        InfrastructureAwayError when log or store is away, and loses nothing by it;
        CheckFailedError when the archive is another log's.
        """
        self._done = Archived()
        self._open = {
            (topic.name, partition): _Open(self._resume(topic.name, partition, end))
            for topic in self._topics
            for partition, end in end_offsets(self._bootstrap, topic.name).items()
        }
        reader = Reader(
            self._bootstrap, {where: part.position for where, part in self._open.items()}
        )
        stored_at = time.monotonic()
        try:
            while not stop():
                batch = reader.poll()
                self._take(batch)
                if on_progress and batch:
                    on_progress(self._done)
                if until_end and not batch and reader.at_end:
                    break
                if not until_end and time.monotonic() - stored_at >= interval_s:
                    self._store_all()
                    stored_at = time.monotonic()
            self._store_all()
        finally:
            reader.close()
        if on_progress:
            on_progress(self._done)
        return self._done

    def _resume(self, topic: str, partition: int, log_end: int) -> int:
        """Where to go on, after filling holes as far as the log still can."""
        found = segments(self._store, topic, partition)
        if archived_end(found) > log_end:
            raise CheckFailedError(
                f"the archive of {topic}/{partition} goes to offset {archived_end(found)} and "
                f"the log only to {log_end}: it is the archive of another log",
                "give this log a bucket of its own, or empty archive/ if that log is gone",
            )
        for first, last in holes(found):
            records = [
                record
                for batch in read_range(self._bootstrap, topic, partition, first, last)
                for record in batch
            ]
            if records:
                self._stored(write_segment(self._store, topic, partition, first, last, records))
            else:
                _log.warning(
                    "archive of %s/%d lacks offsets %d to %d and so does the log",
                    topic,
                    partition,
                    first,
                    last,
                )
        return archived_end(found)

    def _take(self, batch: Sequence[Record]) -> None:
        """Segments end after a certain record, whatever the batches: two archivers agree."""
        for record in batch:
            where = (record.topic, record.partition)
            part = self._open[where]
            part.records.append(record)
            part.bytes += len(record.value or b"") + len(record.key or b"") + 16
            if part.bytes >= self._segment_bytes or len(part.records) >= self._segment_records:
                self._close(where)
        self._done.records += len(batch)
        if sum(part.bytes for part in self._open.values()) >= 4 * self._segment_bytes:
            self._close(max(self._open, key=lambda where: self._open[where].bytes))

    def _store_all(self) -> None:
        for where in self._open:
            self._close(where)

    def _close(self, where: tuple[str, int]) -> None:
        part = self._open[where]
        if not part.records:
            return
        last = part.records[-1].offset
        self._stored(write_segment(self._store, *where, part.position, last, part.records))
        self._open[where] = _Open(last + 1)

    def _stored(self, segment: Segment) -> None:
        self._done.segments += 1
        self._done.bytes += segment.bytes
