"""The archive: byte-exact segments, provable continuity, and no changed byte unnoticed."""

import random
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.archive import (
    archived_end,
    archived_partitions,
    cover,
    holes,
    read_archive,
    read_segment,
    segments,
    times,
    write_segment,
)
from infra.log import Record
from schemas.errors import CheckFailedError
from tests.consumers.memory_store import MemoryStore

T = "planloop.rollouts"


def record(offset: int, value: bytes | None = b"v", key: bytes | None = b"k") -> Record:
    return Record(T, 0, offset, key, value, 1_000_000 + offset)


def stored(*ranges: tuple[int, int], gaps: Sequence[int] = ()) -> MemoryStore:
    store = MemoryStore()
    for first, last in ranges:
        records = [record(n, b"%d" % n) for n in range(first, last + 1) if n not in gaps]
        write_segment(store, T, 0, first, last, records)
    return store


def offsets(store: MemoryStore, **bounds: int) -> list[int]:
    return [one.offset for batch in read_archive(store, T, 0, **bounds) for one in batch]


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=9)),
        max_size=30,
    )
)
@settings(deadline=None)
def test_records_come_back_byte_for_byte(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    store = MemoryStore()
    records = [record(7 + 2 * n, value, key) for n, (value, key) in enumerate(pairs)]
    last = records[-1].offset if records else 7
    write_segment(store, T, 0, 0, last, records)
    assert [one for batch in read_archive(store, T, 0) for one in batch] == records


def test_segments_are_named_by_the_offsets_they_cover() -> None:
    store = stored((0, 9), (10, 24))
    assert list(store.objects) == [
        f"archive/{T}/0/{0:020d}-{9:020d}.parquet",
        f"archive/{T}/0/{10:020d}-{24:020d}.parquet",
    ]
    assert archived_partitions(store, T) == [0]
    assert archived_end(segments(store, T, 0)) == 25
    assert archived_end(segments(store, T, 1)) == 0


def test_any_parquet_reader_can_read_a_segment() -> None:
    store = stored((0, 4))
    table = pq.read_table(pa.BufferReader(next(iter(store.objects.values()))))
    assert table.column_names == ["offset", "timestamp", "key", "value"]
    assert table["value"].to_pylist() == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, range(30)),
        ({"first": 12}, range(12, 30)),
        ({"last": 11}, range(12)),
        ({"first": 8, "last": 21}, range(8, 22)),
        ({"first": 30}, ()),
        ({"since": 1_000_010}, range(10, 30)),
        ({"since": 1_000_005, "until": 1_000_021}, range(5, 21)),
        ({"since": 2_000_000}, ()),
    ],
)
def test_ranges_of_offsets_and_times(bounds: dict[str, int], expected: Sequence[int]) -> None:
    assert offsets(stored((0, 9), (10, 19), (20, 29)), **bounds) == list(expected)


def test_segments_carry_their_times() -> None:
    store = stored((0, 9))
    (segment,) = segments(store, T, 0)
    assert times(read_segment(store, segment)) == (1_000_000, 1_000_009)


def test_offsets_of_aborted_transactions_are_no_hole() -> None:
    store = stored((0, 9), (10, 19), gaps=(0, 4, 9, 10))
    assert holes(segments(store, T, 0)) == []
    assert offsets(store) == [n for n in range(20) if n not in (0, 4, 9, 10)]


def test_missing_segment_is_found_and_named() -> None:
    store = stored((0, 9), (20, 29))
    assert holes(segments(store, T, 0)) == [(10, 19)]
    assert offsets(store, last=9) == list(range(10))
    assert offsets(store, first=20) == list(range(20, 30))
    with pytest.raises(CheckFailedError, match="lacks offsets 10 to 19"):
        offsets(store)
    with pytest.raises(CheckFailedError, match="lacks offsets 0 to 19"):
        offsets(stored((20, 29)))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), min_size=1, max_size=8))
@settings(deadline=None)
def test_overlapping_segments_are_read_once(starts: list[tuple[int, int]]) -> None:
    store = stored((0, 12), *((first, first + length) for first, length in starts))
    found = segments(store, T, 0)
    reachable = next((first for first, _ in holes(found)), archived_end(found))
    assert offsets(store, last=reachable - 1) == list(range(reachable))
    chosen = cover(found, 0, reachable - 1)
    assert len(chosen) <= len(found)


def test_every_changed_byte_is_found() -> None:
    store = stored((0, 199))
    (segment,) = segments(store, T, 0)
    whole = store.objects[segment.key]
    random.seed(3)
    tail = range(len(whole) - 900, len(whole))
    for at in [0, 1, *random.sample(range(len(whole)), 200), *tail]:
        changed = bytearray(whole)
        changed[at] ^= 1 << random.randrange(8)
        store.objects[segment.key] = bytes(changed)
        with pytest.raises(CheckFailedError, match=segment.key):
            read_segment(store, segment)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"sha256:", b"x" * 100])
def test_what_is_no_segment_is_called_corrupt(data: bytes) -> None:
    store = stored((0, 9))
    (segment,) = segments(store, T, 0)
    store.objects[segment.key] = data
    with pytest.raises(CheckFailedError, match=segment.key):
        read_segment(store, segment)


def test_segment_under_a_wrong_name_is_found() -> None:
    store = stored((0, 9))
    (segment,) = segments(store, T, 0)
    moved = segment.key.replace(f"{9:020d}", f"{19:020d}")
    store.objects = {moved: store.objects[segment.key]}
    with pytest.raises(CheckFailedError, match="wrong name"):
        offsets(store)


def test_other_objects_beside_the_segments_are_left_alone() -> None:
    store = stored((0, 9))
    store.put(f"archive/{T}/0/notes.txt", b"mine")
    assert len(segments(store, T, 0)) == 1
