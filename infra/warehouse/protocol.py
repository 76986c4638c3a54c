"""What every warehouse does, and how it fails.

Two adapters keep this contract (`tests/infra/test_warehouse_conformance.py`): HTTP, which the
embedded warehouse and a ClickHouse server both answer, and ClickHouse's native protocol.

Parameters are written `{name:Type}` in the SQL and are rendered by `literals.render` before they
are sent, so that both adapters and old servers read the same statement. In results times are aware
UTC `datetime`, text is `str` (`bytes` where it is not UTF-8), arrays are `list`, maps `dict`,
enums their names.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from schemas.errors import PlanloopError

Parameters = Mapping[str, Any]
Columns = Mapping[str, Sequence[Any] | Any]  # a sequence, a numpy array or a pyarrow array each

# ClickHouse's codes for "not now": nothing was run, so the same request may be sent again.
BUSY = frozenset({202, 203, 209, 210, 236, 252, 319, 439})


class WarehouseError(PlanloopError):
    """The warehouse answered, and said no. `code` is ClickHouse's number, `text` its words."""

    failed: ClassVar[str] = "warehouse"

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"warehouse: Code: {code}. {text}")
        self.code = code
        self.text = text


class Warehouse(Protocol):
    """Every method raises WarehouseError when the statement is refused and InfrastructureAwayError
    ("warehouse") when no answer came after bounded retries. Safe to share between threads."""

    def execute(self, sql: str, params: Parameters | None = None) -> None:
        """Run a statement without rows. Never sent twice once the warehouse may have read it."""
        ...

    def rows(self, sql: str, params: Parameters | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query, as Python values."""
        ...

    def raw(self, sql: str, format: str) -> bytes:
        """The answer in one of ClickHouse's output formats, e.g. `JSONEachRow`, `Parquet`."""
        ...

    def insert(self, table: str, columns: Columns, token: str) -> None:
        """Insert equally long columns as one block, durable on return. Names missing from `columns`
        take the table's defaults. `token` names the block for ever: a block whose token the table
        has seen is dropped, so the caller may repeat it. Integers for a time column are UTC
        microseconds. Raises InputError naming table and column for a value that does not fit."""
        ...

    def close(self) -> None: ...
