"""Holes: offsets that the embedded broker has given to a batch which cannot be read.

That broker numbers a batch before it stores it. For a moment, and for ever if it is killed
just then, a later batch can be read and an earlier one cannot. A reader that went on would
never see what is then stored and acknowledged. So it comes back to the hole until it is
filled, or until a living broker has shown it so often that nobody can still be filling it.
"""

from collections.abc import Mapping, Sequence

from infra.log.record import Place, Record

SIGHTINGS = 100
"""After so many sightings, RETRY_S apart, a hole stays one: the broker itself gives up storing
a batch in less than the five seconds that this makes."""

RETRY_S = 0.05


class Holes:
    """The holes in front of a reader, one a partition, and how often each was seen."""

    def __init__(self) -> None:
        self._seen: dict[Place, tuple[int, int]] = {}

    def cut(
        self, records: Sequence[Record], next_offsets: Mapping[Place, int]
    ) -> tuple[list[Record], dict[Place, int]]:
        """Split what was read at its holes: (records to deliver, where to read again).

        `next_offsets` are those expected, negative where any is right. Records behind a hole
        are left out; they come again.
        """
        expected = dict(next_offsets)
        delivered: list[Record] = []
        again: dict[Place, int] = {}
        for record in records:
            place = (record.topic, record.partition)
            if place in again:
                continue
            at = expected[place]
            if 0 <= at < record.offset and not self._is_old(place, at):
                again[place] = at
            else:
                expected[place] = record.offset + 1
                delivered.append(record)
        return delivered, again

    def _is_old(self, place: Place, at: int) -> bool:
        """Note a sighting of the hole that begins at an offset; whether it has been enough."""
        known, sightings = self._seen.get(place, (at, 0))
        sightings = sightings + 1 if known == at else 1
        self._seen[place] = (at, sightings)
        return sightings > SIGHTINGS
