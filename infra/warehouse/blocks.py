"""Answers in ClickHouse's Native format as rows of Python values.

HTTP's Native blocks are those of the native protocol at revision 0, so `clickhouse-driver`'s
decoder reads both, and both adapters give the same values.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from clickhouse_driver.bufferedreader import BufferedSocketReader
from clickhouse_driver.connection import ServerInfo
from clickhouse_driver.context import Context
from clickhouse_driver.errors import UnknownTypeError
from clickhouse_driver.streams.native import BlockInputStream

from infra.warehouse.protocol import WarehouseError

UNKNOWN_TYPE = 50
_BUFFER_BYTES = 1 << 20


class _Bytes:
    """Bytes where the decoder expects a socket."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    def recv_into(self, buffer: Any) -> int:
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def __len__(self) -> int:
        return len(self._rest)


def read_rows(data: bytes) -> list[tuple[Any, ...]]:
    """All rows of a Native answer. Raises EOFError when it ends inside a block."""
    context = Context()
    context.settings = {}
    context.client_settings = {
        "strings_as_bytes": False,
        "strings_encoding": "utf-8",
        "use_numpy": False,
        "namedtuple_as_json": False,
    }
    context.server_info = ServerInfo("warehouse", 0, 0, 0, 0, "UTC", "warehouse", 0)
    source = _Bytes(data)
    reader = BufferedSocketReader(source, _BUFFER_BYTES)
    stream = BlockInputStream(reader, context)
    rows: list[tuple[Any, ...]] = []
    while len(source) or reader.position < reader.current_buffer_size:
        block = stream.read()
        if block.num_rows:
            types = [type_name for _, type_name in block.columns_with_types]
            rows.extend(to_rows(block.get_columns(), types))
    return rows


@contextmanager
def typed_decoding() -> Iterator[None]:
    """What the decoder cannot read, said as an error of the warehouse."""
    try:
        yield
    except UnknownTypeError as error:
        raise WarehouseError(UNKNOWN_TYPE, f"{error.message}; ask with raw()") from error
    except UnicodeDecodeError as error:
        raise WarehouseError(
            UNKNOWN_TYPE, "a column's name is not UTF-8; name it with AS"
        ) from error


def to_rows(columns: Iterable[Sequence[Any]], types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Decoded columns as rows, their times as aware UTC datetimes."""
    return zip(
        *(
            [_in_utc(value) for value in column] if "DateTime" in type_name else column
            for column, type_name in zip(columns, types, strict=True)
        ),
        strict=True,
    )


def _in_utc(value: Any) -> Any:
    match value:
        case datetime(tzinfo=None):
            return value.replace(tzinfo=UTC)
        case datetime():
            return value.astimezone(UTC)
        case list() | tuple():
            return type(value)(_in_utc(item) for item in value)
        case dict():
            return {_in_utc(key): _in_utc(item) for key, item in value.items()}
        case _:
            return value
