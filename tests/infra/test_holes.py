"""Holes in the embedded broker's offsets: waited for, then passed."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from infra.log.holes import SIGHTINGS, Holes
from infra.log.record import Place, Record

A, B = ("topic", 0), ("topic", 1)


def record(place: Place, offset: int) -> Record:
    return Record(*place, offset, b"", b"", 0)


def offsets(holes: Holes, places: list[tuple[Place, int]], expected: Mapping[Place, int]):
    delivered, again = holes.cut([record(place, offset) for place, offset in places], expected)
    return [((r.topic, r.partition), r.offset) for r in delivered], again


def test_what_is_whole_is_delivered() -> None:
    read = [(A, 3), (B, 0), (A, 4), (B, 1)]
    assert offsets(Holes(), read, {A: 3, B: 0}) == (read, {})


def test_nothing_behind_a_hole_is_delivered() -> None:
    read = [(A, 3), (A, 5), (B, 0), (A, 6)]
    assert offsets(Holes(), read, {A: 3, B: 0}) == ([(A, 3), (B, 0)], {A: 4})


def test_a_hole_that_stays_is_passed() -> None:
    holes = Holes()
    for _ in range(SIGHTINGS):
        assert offsets(holes, [(A, 5), (A, 6)], {A: 3}) == ([], {A: 3})
    assert offsets(holes, [(A, 5), (A, 6)], {A: 3}) == ([(A, 5), (A, 6)], {})


def test_each_hole_is_counted_for_itself() -> None:
    holes = Holes()
    for _ in range(SIGHTINGS):
        offsets(holes, [(A, 5)], {A: 3})
    assert offsets(holes, [(A, 5)], {A: 4}) == ([], {A: 4})
    assert offsets(holes, [(B, 5)], {B: 3}) == ([], {B: 3})


def test_where_any_offset_is_right_there_is_no_hole() -> None:
    assert offsets(Holes(), [(A, 24), (A, 25)], {A: -1}) == ([(A, 24), (A, 25)], {})


@given(st.sets(st.integers(0, 40), min_size=1), st.lists(st.integers(1, 6)))
def test_every_record_comes_once_in_order_whenever_it_is_stored(
    never: set[int], sizes: list[int]
) -> None:
    """A broker whose batches become readable late and in any order, some of them never."""
    log = [offset for offset in range(41) if offset not in never]
    holes = Holes()
    expected = 0
    got: list[int] = []
    late = sorted(log, key=lambda offset: (offset % 7, offset))
    for step in range(len(log) + 42 * (SIGHTINGS + 1)):
        stored = sorted(late[: step + 1])
        size = sizes[step % len(sizes)] if sizes else 3
        read = [offset for offset in stored if offset >= expected][:size]
        delivered, _ = offsets(holes, [(A, offset) for offset in read], {A: expected})
        got += [offset for _, offset in delivered]
        expected = got[-1] + 1 if got else 0
    assert got == log
