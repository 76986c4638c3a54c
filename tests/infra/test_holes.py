"""Holes in the embedded broker's offsets: waited for, then passed."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from infra.log.holes import OLD_S, RETRY_S, Holes
from infra.log.record import Place, Record

A, B = ("topic", 0), ("topic", 1)
HIGH = {A: 100, B: 100}
YOUNG = int(OLD_S / RETRY_S) - 2
"""Readings after which a hole is still young; a few more and it is old."""


class Reading:
    """Readings of one broker, RETRY_S apart."""

    def __init__(self) -> None:
        self.holes = Holes()
        self.now = 1000.0

    def cut(
        self,
        read: list[tuple[Place, int]],
        expected: Mapping[Place, int],
        highs: Mapping[Place, int] = HIGH,
    ) -> tuple[list[tuple[Place, int]], set[Place]]:
        self.now += RETRY_S
        records = [Record(*place, offset, b"", b"", 0) for place, offset in read]
        delivered, again = self.holes.cut(records, expected, highs, self.now)
        return [((r.topic, r.partition), r.offset) for r in delivered], again

    def age(
        self,
        read: list[tuple[Place, int]],
        expected: Mapping[Place, int],
        highs: Mapping[Place, int] = HIGH,
    ) -> None:
        """Read the same until a hole in it is old."""
        while self.cut(read, expected, highs)[1]:
            pass


def test_what_is_whole_is_delivered() -> None:
    read = [(A, 3), (B, 0), (A, 4), (B, 1)]
    assert Reading().cut(read, {A: 3, B: 0}) == (read, set())


def test_nothing_behind_a_hole_is_delivered() -> None:
    read = [(A, 3), (A, 5), (B, 0), (A, 6)]
    assert Reading().cut(read, {A: 3, B: 0}) == ([(A, 3), (B, 0)], {A})


def test_a_hole_that_stays_is_passed() -> None:
    reading = Reading()
    for _ in range(YOUNG):
        assert reading.cut([(A, 5), (A, 6)], {A: 3}) == ([], {A})
    reading.age([(A, 5)], {A: 3})
    assert reading.cut([(A, 5), (A, 6)], {A: 3}) == ([(A, 5), (A, 6)], set())


def test_a_hole_below_a_watermark_known_long_ago_is_passed_at_once() -> None:
    reading = Reading()
    reading.age([(A, 5)], {A: 3})
    assert reading.cut([(A, 50)], {A: 6}) == ([(A, 50)], set())
    assert reading.cut([(A, 5), (A, 50)], {A: 3}) == ([(A, 5), (A, 50)], set())


def test_a_hole_above_it_is_new() -> None:
    reading = Reading()
    reading.age([(A, 5)], {A: 3})
    for _ in range(YOUNG):
        assert reading.cut([(A, 105)], {A: 100}, {A: 110}) == ([], {A})
    reading.age([(A, 105)], {A: 100}, {A: 110})
    assert reading.cut([(A, 105)], {A: 100}, {A: 110}) == ([(A, 105)], set())


def test_each_partition_is_judged_for_itself() -> None:
    reading = Reading()
    reading.age([(A, 5)], {A: 3})
    assert reading.cut([(B, 5)], {B: 3}) == ([], {B})


def test_time_without_a_sighting_does_not_count() -> None:
    reading = Reading()
    reading.cut([(A, 5)], {A: 3})
    reading.now += 3600
    assert reading.cut([(A, 5)], {A: 3}) == ([], {A})


def test_it_is_the_time_that_counts() -> None:
    holes = Holes()
    records = [Record(*A, 5, b"", b"", 0)]
    for step in range(1000):
        assert holes.cut(records, {A: 3}, HIGH, 1000.0 + step * OLD_S / 1000) == ([], {A})


def test_where_any_offset_is_right_there_is_no_hole() -> None:
    assert Reading().cut([(A, 24), (A, 25)], {A: -1}) == ([(A, 24), (A, 25)], set())


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 6))
def test_every_record_comes_once_in_order_whenever_it_is_stored(never: set[int], size: int) -> None:
    """A broker whose batches become readable late and in any order, some of them never."""
    log = [offset for offset in range(41) if offset not in never]
    late = sorted(log, key=lambda offset: (offset % 7, offset))
    reading = Reading()
    got: list[int] = []
    for step in range(2 * len(log) + 8 * YOUNG):
        expected = got[-1] + 1 if got else 0
        stored = late[: step + 1]
        read = sorted(offset for offset in stored if offset >= expected)[:size]
        high = {A: max(stored, default=-1) + 1}
        delivered, _ = reading.cut([(A, offset) for offset in read], {A: expected}, high)
        got += [offset for _, offset in delivered]
    assert got == log
