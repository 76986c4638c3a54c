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
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from infra.log import Record
from schemas.errors import CheckFailedError

_T = TypeVar("_T")
_R = TypeVar("_R")

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
    last = min(last, archived_end(found) - 1)
    position, index = first, 0
    furthest: Segment | None = None
    while position <= last:
        while index < len(found) and found[index].first <= position:
            if furthest is None or found[index].last > furthest.last:
                furthest = found[index]
            index += 1
        if furthest is None or furthest.last < position:
            raise CheckFailedError(
                f"the archive of {found[0].topic}/{found[0].partition} lacks offsets "
                f"{position} to {found[index].first - 1}",
                "archive again while the log still has them",
            )
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
    since = -(2**63) if since is None else since
    until = 2**63 - 1 if until is None else until

    def load(chosen: tuple[Segment, int]) -> tuple[int, bool, pa.Table] | None:
        segment, begin = chosen
        file = read_segment(store, segment)
        earliest, latest = times(file)
        if latest < since or earliest >= until:
            return None
        whole = begin == segment.first and segment.last <= end
        whole = whole and since <= earliest and latest < until
        return begin, whole, file.read()

    for loaded in _one_ahead(load, cover(segments(store, topic, partition), first, end)):
        if loaded is None:
            continue
        begin, whole, table = loaded
        for batch in table.to_batches(max_chunksize=_ROW_GROUP):
            offsets, stamps, keys, values = (column.to_pylist() for column in batch.columns)
            records = list(
                map(Record, repeat(topic), repeat(partition), offsets, keys, values, stamps)
            )
            if not whole:
                records = [
                    one
                    for one in records
                    if begin <= one.offset <= end and since <= one.timestamp < until
                ]
            if records:
                yield records


def _one_ahead(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """`map` that works on the next item while the caller is busy with this one."""
    with ThreadPoolExecutor(1) as ahead:
        coming: Future[_R] | None = None
        for item in items:
            ready, coming = coming, ahead.submit(work, item)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()


def _encode(topic: str, partition: int, first: int, last: int, records: Sequence[Record]) -> bytes:
    stamps = [record.timestamp for record in records]
    table = pa.table(
        [
            pa.array([record.offset for record in records], pa.int64()),
            pa.array(stamps, pa.int64()),
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
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
