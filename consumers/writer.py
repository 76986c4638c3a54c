"""Writing blocks to the warehouse's tables, and telling whether two sets of tables are equal.

The sink writes to the tables themselves; a rebuild writes the same records to a second set
beside them (`suffix`), compares the checksums and exchanges the two.
"""

from collections.abc import Iterable
from typing import NamedTuple

from consumers.blocks import Block, Blocks
from consumers.tables import TABLES
from infra.warehouse.protocol import Warehouse
from streams.host import LogRecord

NEXT = "_next"


class TableWriter:
    """Writes records to every table of TABLES, each named with `suffix`.

    Writing the same records again, in any cut, leaves the tables' rows as they are.
    `events` and `refused` count what the edge accepts and refuses.
    """

    def __init__(self, warehouse: Warehouse, suffix: str = "") -> None:
        self.events = 0
        self.refused = 0
        self._warehouse = warehouse
        self._suffix = suffix
        self._blocks = Blocks()

    def write(self, records: Iterable[LogRecord]) -> None:
        """Take records, those of a partition in order. Durable after `flush` only."""
        for block in self._blocks.add(records):
            self._insert(block)

    def flush(self) -> None:
        """Insert what is still open. Raises what the warehouse raises."""
        for block in self._blocks.drain():
            self._insert(block)

    def _insert(self, block: Block) -> None:
        insert(self._warehouse, block, self._suffix)
        self.events += block.events
        self.refused += len(block.refused)


def insert(warehouse: Warehouse, block: Block, suffix: str = "") -> None:
    """Insert a block into its tables. May be repeated: each table knows the block by its token."""
    for table, columns in block.tables().items():
        warehouse.insert(table + suffix, columns, block.token)


def create_beside(warehouse: Warehouse, suffix: str = NEXT) -> None:
    """An empty second set of tables, in place of one that an earlier rebuild left behind."""
    drop_beside(warehouse, suffix)
    for table in TABLES:
        warehouse.execute(f"CREATE TABLE {table}{suffix} AS {table}")


def exchange(warehouse: Warehouse, suffix: str = NEXT) -> None:
    """Put the second set in the place of the first, table by table; views read it from then on."""
    for table in TABLES:
        warehouse.execute(f"EXCHANGE TABLES {table} AND {table}{suffix}")


def drop_beside(warehouse: Warehouse, suffix: str = NEXT) -> None:
    for table in TABLES:
        warehouse.execute(f"DROP TABLE IF EXISTS {table}{suffix}")


class Checksum(NamedTuple):
    """Rows of a table, each identity once, and a digest that their order does not change."""

    rows: int
    digest: str


def checksum(warehouse: Warehouse, table: str) -> Checksum:
    """What a table says, however often and in which parts its rows were written.

    The row version is left out: it tells where the first copy lay on the log.
    """
    described = warehouse.rows(
        "SELECT name, is_in_sorting_key FROM system.columns"
        " WHERE database = currentDatabase() AND table = {table:String} AND name != 'version'"
        " ORDER BY name",
        {"table": table},
    )
    identity = ", ".join(name for name, in_key in described if in_key)
    row = ", ".join(f"`{name}`" for name, _ in described)
    ((rows, total, parity),) = warehouse.rows(
        f"SELECT uniqExact({identity}), sum(hash), groupBitXor(hash)"  # noqa: S608  # own names
        f" FROM (SELECT *, sipHash64(formatRowNoNewline('JSONCompactEachRow', {row})) AS hash"
        f" FROM {table} FINAL)"
    )
    return Checksum(rows, f"{total:016x}{parity:016x}")
