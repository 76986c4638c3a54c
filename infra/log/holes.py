"""Holes: offsets that the embedded broker has given to a batch which cannot be read.

That broker numbers a batch before it stores it. For a moment, and for ever if it or its store
is killed just then, a later batch can be read and an earlier one cannot. A reader that went on
would never see what is then stored and acknowledged. So it comes back to the hole until it is
filled, or until a living broker has shown it for so long that nobody can still be filling it.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from infra.log.record import Place, Record

RETRY_S = 0.1
"""Seconds between two looks at a hole."""

OLD_S = 5.0
"""Seconds in which a hole becomes old: a living broker gives up storing a batch in less. Time
in which nothing can be read (the broker or its store is away) does not count."""

_AT_MOST_S = 0.5
"""How much of the time between two sightings counts: more may have been an outage."""


class Holes:
    """What is known of one broker's holes, shared by the readers of a process.

    A hole is old once it has lain below a known high watermark for OLD_S.
    """

    def __init__(self) -> None:
        self._alive_s = 0.0
        self._sighted_at: float | None = None
        self._noted: dict[Place, tuple[int, float]] = {}
        """The high watermark of a place, and the `_alive_s` when it was noted."""
        self._old_below: dict[Place, int] = {}

    def cut(
        self,
        records: Sequence[Record],
        next_offsets: Mapping[Place, int],
        highs: Mapping[Place, int],
        now: float,
    ) -> tuple[list[Record], set[Place]]:
        """Split what was read at its holes: (records to deliver, places to read again).

        `next_offsets` are those expected, negative where any is right; `highs` the high
        watermarks; `now` any steady clock's seconds. Records behind a hole come again.
        """
        expected = dict(next_offsets)
        delivered: list[Record] = []
        again: set[Place] = set()
        for record in records:
            place = (record.topic, record.partition)
            if place in again:
                continue
            at = expected[place]
            if 0 <= at < record.offset and not self._is_old(place, at, highs[place]):
                again.add(place)
            else:
                expected[place] = record.offset + 1
                delivered.append(record)
        if again:
            if self._sighted_at is not None:
                self._alive_s += min(now - self._sighted_at, _AT_MOST_S)
            self._sighted_at = now
        return delivered, again

    def _is_old(self, place: Place, at: int, high: int) -> bool:
        if at < self._old_below.get(place, 0):
            return True
        noted, since = self._noted.get(place, (0, 0))
        if at >= noted:
            self._noted[place] = (high, self._alive_s)
            return False
        if self._alive_s - since < OLD_S:
            return False
        self._old_below[place] = noted
        return True


@cache
def holes_of(bootstrap: str) -> Holes:
    """What this process knows of a broker's holes."""
    return Holes()
