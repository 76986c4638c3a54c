"""The archive: every record of the log, byte for byte, as Parquet segments in the object store.

A segment is named by the offsets that it covers, `archive/<topic>/<partition>/<first>-<last>`:
it begins where the one before it ended and holds every record that the log had in between.
Offsets without a record (aborted transactions) lie inside a segment and never between two, so
a list of names proves that nothing is missing. The names are also the archiver's only memory:
it goes on where they end, and a crash leaves a whole segment or none. Two archivers at once
give overlapping segments, which hold the same records and are read once.

A segment carries a SHA-256 over all its bytes (its own digits set to zero), so that any
changed byte is found, and the broker times of its records, which is the time index.
"""

import hashlib
import io
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from infra.log import Reader, Record, partitions_of, read_range
from schemas.errors import CheckFailedError
from schemas.topics import CATALOGUE, Topic

_log = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_RECORDS = 500_000

_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_ROW_GROUP = 4096
_NAME = re.compile(r"archive/([^/]+)/(\d+)/(\d{20})-(\d{20})\.parquet")
_MARK = b"sha256:"
_BLANK = _MARK + b"0" * 64


class Objects(Protocol):
    """What the archive needs of an object store; `infra.objects.ObjectStore` is one."""

    def put(self, key: str, data: bytes) -> Any: ...

    def get(self, key: str) -> bytes: ...

    def list(self, prefix: str) -> Iterator[tuple[str, int]]: ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets first to last (inclusive) of one partition; `bytes` is its size as stored."""

    topic: str
    partition: int
    first: int
    last: int
    bytes: int

    @property
    def key(self) -> str:
        return f"archive/{self.topic}/{self.partition}/{self.first:020d}-{self.last:020d}.parquet"


def segments(store: Objects, topic: str, partition: int) -> list[Segment]:
    """The segments of a partition by first offset, overlapping ones included."""
    found: list[Segment] = []
    for key, size in store.list(f"archive/{topic}/{partition}/"):
        if match := _NAME.fullmatch(key):
            found.append(Segment(topic, partition, int(match[3]), int(match[4]), size))
    return sorted(found, key=lambda segment: (segment.first, segment.last))


def archived_partitions(store: Objects, topic: str) -> list[int]:
    """Partitions of a topic that have at least one segment."""
    matches = (_NAME.fullmatch(key) for key, _ in store.list(f"archive/{topic}/"))
    return sorted({int(match[2]) for match in matches if match})


def archived_end(found: Sequence[Segment]) -> int:
    """The offset after the last one that the segments cover, holes or not; 0 for none."""
    return max((segment.last + 1 for segment in found), default=0)


def holes(found: Sequence[Segment]) -> list[tuple[int, int]]:
    """Offsets (first, last) that no segment covers although a later one exists."""
    missing: list[tuple[int, int]] = []
    position = 0
    for segment in found:
        if segment.first > position:
            missing.append((position, segment.first - 1))
        position = max(position, segment.last + 1)
    return missing


def write_segment(
    store: Objects, topic: str, partition: int, first: int, last: int, records: Sequence[Record]
) -> Segment:
    """Store the records of offsets first to last as one object; None and b"" stay distinct."""
    data = _encode(topic, partition, first, last, records)
    segment = Segment(topic, partition, first, last, len(data))
    store.put(segment.key, data)
    return segment


def read_segment(store: Objects, segment: Segment) -> pq.ParquetFile:
    """A stored segment, checked whole: its digest, and that it is what its name says.

    Raises CheckFailedError, which names the segment.
    """
    data = store.get(segment.key)
    at = data.rfind(_MARK)
    view = memoryview(data)
    digest = hashlib.sha256(view[: max(at, 0)])
    digest.update(_BLANK)
    digest.update(view[at + len(_BLANK) :])
    if at < 0 or view[at + len(_MARK) : at + len(_BLANK)] != digest.hexdigest().encode():
        raise CheckFailedError(
            f"segment {segment.key} is corrupt: its bytes do not have the digest that it carries",
            "restore the object, or remove it and archive again from the log",
        )
    file = pq.ParquetFile(pa.BufferReader(data))
    about = _about(file)
    names = (about["topic"], about["partition"], about["first"], about["last"])
    if names != (segment.topic, str(segment.partition), str(segment.first), str(segment.last)):
        raise CheckFailedError(
            f"segment {segment.key} holds offsets {about['first']} to {about['last']} of "
            f"{about['topic']}/{about['partition']}: it was stored under a wrong name"
        )
    return file


def times(file: pq.ParquetFile) -> tuple[int, int]:
    """Earliest and latest broker time in a segment, UTC microseconds; (0, -1) for no record."""
    about = _about(file)
    return int(about["earliest"]), int(about["latest"])


def cover(found: Sequence[Segment], first: int, last: int) -> list[tuple[Segment, int]]:
    """The fewest segments that cover offsets first to last, each with the offset to read from.

    Raises CheckFailedError at a hole. What lies behind the last segment is not a hole.
    """
    chosen: list[tuple[Segment, int]] = []
    position = first
    last = min(last, archived_end(found) - 1)
    while position <= last:
        reaching = [part for part in found if part.first <= position <= part.last]
        if not reaching:
            beyond = min(part.first for part in found if part.first > position)
            raise CheckFailedError(
                f"the archive of {found[0].topic}/{found[0].partition} lacks offsets "
                f"{position} to {beyond - 1}",
                "archive again while the log still has them",
            )
        furthest = max(reaching, key=lambda part: part.last)
        chosen.append((furthest, position))
        position = furthest.last + 1
    return chosen


def read_archive(
    store: Objects,
    topic: str,
    partition: int,
    first: int = 0,
    last: int | None = None,
    *,
    since: int | None = None,
    until: int | None = None,
) -> Iterator[list[Record]]:
    """Archived records of offsets first to last (inclusive), in order, in lists.

    `since` and `until` (exclusive) bound the broker time, UTC microseconds; segments outside
    are not decoded. Raises CheckFailedError for a corrupt segment and for a hole.
    """
    end = 2**63 - 1 if last is None else last
    for segment, begin in cover(segments(store, topic, partition), first, end):
        file = read_segment(store, segment)
        earliest, latest = times(file)
        if (since is not None and latest < since) or (until is not None and earliest >= until):
            continue
        whole = begin == segment.first and segment.last <= end
        timely = (since is None or since <= earliest) and (until is None or latest < until)
        for batch in file.iter_batches(batch_size=_ROW_GROUP):
            offsets, stamps, keys, values = (column.to_pylist() for column in batch.columns)
            records = list(
                map(Record, repeat(topic), repeat(partition), offsets, keys, values, stamps)
            )
            if not whole:
                records = [one for one in records if begin <= one.offset <= end]
            if not timely:
                records = [
                    one
                    for one in records
                    if (since is None or one.timestamp >= since)
                    and (until is None or one.timestamp < until)
                ]
            if records:
                yield records


def _encode(
    topic: str, partition: int, first: int, last: int, records: Sequence[Record]
) -> bytes:
    _, _, offsets, keys, values, stamps = zip(*records, strict=True) if records else ((),) * 6
    table = pa.table(
        [
            pa.array(offsets, pa.int64()),
            pa.array(stamps, pa.int64()),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
        ],
        schema=_SCHEMA,
    )
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=["key"],  # pyright: ignore[reportArgumentType]  # the stubs know only bool
        write_statistics=["offset", "timestamp"],  # pyright: ignore[reportArgumentType]
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata(
            {
                "planloop.topic": topic,
                "planloop.partition": str(partition),
                "planloop.first": str(first),
                "planloop.last": str(last),
                "planloop.records": str(len(records)),
                "planloop.earliest": str(min(stamps, default=0)),
                "planloop.latest": str(max(stamps, default=-1)),
                "planloop.digest": _BLANK.decode(),
            }
        )
    data = sink.getvalue()
    at = data.rindex(_BLANK)
    digest = hashlib.sha256(data).hexdigest().encode()
    return b"".join((data[: at + len(_MARK)], digest, data[at + len(_BLANK) :]))


def _about(file: pq.ParquetFile) -> dict[str, str]:
    return {
        key.decode().removeprefix("planloop."): value.decode()
        for key, value in file.metadata.metadata.items()
    }


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

        When following, open segments are stored every `interval_s` seconds. Blocks; raises
        InfrastructureAwayError when log or store is away, and loses nothing by it.
        """
        self._done = Archived()
        self._open = {
            (topic.name, partition): _Open(self._resume(topic.name, partition))
            for topic in self._topics
            for partition in partitions_of(self._bootstrap, topic.name)
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

    def _resume(self, topic: str, partition: int) -> int:
        """Where to go on, after filling holes as far as the log still can."""
        found = segments(self._store, topic, partition)
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
        for record in batch:
            part = self._open[record.topic, record.partition]
            part.records.append(record)
            part.bytes += len(record.value or b"") + len(record.key or b"") + 16
        self._done.records += len(batch)
        for where, part in self._open.items():
            if part.bytes >= self._segment_bytes or len(part.records) >= self._segment_records:
                self._close(where)
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
