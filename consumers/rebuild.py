"""Rebuild: fill the warehouse's tables again from the log, compare, and put them in place.

The new tables grow beside the live ones, so that readers see whole tables at any time. A
sink may go on writing meanwhile: what it wrote to the old tables after the rebuild had read
past is read once more after the exchange.
"""

from collections.abc import Callable
from dataclasses import dataclass

from consumers.replay import Past, Span
from consumers.tables import TABLES
from consumers.writer import (
    NEXT,
    Checksum,
    TableWriter,
    checksum,
    create_beside,
    drop_beside,
    exchange,
)
from infra.warehouse import Warehouse, migrate
from schemas.topics import CATALOGUE

Positions = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A table before and after: rows by identity and a digest over all they say."""

    table: str
    before: Checksum
    after: Checksum

    @property
    def equal(self) -> bool:
        return self.before == self.after


def rebuild(
    past: Past, warehouse: Warehouse, *, on_progress: Callable[[int], None] | None = None
) -> list[Rebuilt]:
    """Rebuild every table of TABLES; one entry a table, in that order.

    Differences are reported and do not stop it: the log is right. `on_progress` gets the
    number of records read so far. With an archive alone, what is not archived yet is not
    in the new tables, so stop the sink first. A rebuild that is cut short leaves the live
    tables as they were, or exchanged whole, and may be run again.
    """
    migrate(warehouse)
    create_beside(warehouse)
    positions: Positions = {}
    _fill(past, TableWriter(warehouse, NEXT), positions, on_progress)
    report = [
        Rebuilt(table, checksum(warehouse, table), checksum(warehouse, table + NEXT))
        for table in TABLES
    ]
    exchange(warehouse)
    _fill(past, TableWriter(warehouse), positions, None)
    drop_beside(warehouse)
    return report


def _fill(
    past: Past,
    writer: TableWriter,
    positions: Positions,
    on_progress: Callable[[int], None] | None,
) -> None:
    """Write what lies behind `positions`, and move them on."""
    read = 0
    for topic in CATALOGUE:
        for partition in past.partitions(topic.name):
            where = (topic.name, partition)
            for batch in past.records(*where, Span(first=positions.get(where, 0))):
                writer.write(batch)
                positions[where] = batch[-1].offset + 1
                read += len(batch)
                if on_progress:
                    on_progress(read)
    writer.flush()
