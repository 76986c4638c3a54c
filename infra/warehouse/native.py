"""The warehouse over ClickHouse's native protocol, on a server's port 9000."""

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from clickhouse_driver import Client, defines
from clickhouse_driver.errors import Error, ServerException, TypeMismatchError

from infra.patience import AwayError, patiently
from infra.warehouse.blocks import to_rows, typed_decoding
from infra.warehouse.columns import MICROSECONDS, to_batch
from infra.warehouse.literals import quote, quote_name, render
from infra.warehouse.protocol import BUSY, Columns, Parameters, WarehouseError
from infra.warehouse.schema import TableTypes
from infra.warehouse.types import split, unwrap

# The driver tells every failed attempt with a trace; here the last one is told, once.
logging.getLogger("clickhouse_driver").setLevel(logging.ERROR)

log = logging.getLogger("planloop.warehouse")

T = TypeVar("T")
_TOKENS_SINCE = defines.DBMS_MIN_REVISION_WITH_SETTINGS_SERIALIZED_AS_STRINGS
_ONE_BLOCK = 2**31  # rows: the driver never splits an insert, so a token names the whole of it


class NativeWarehouse:
    """`url` is clickhouse://user:password@host:port/database. Threads take turns on one connection,
    which is made on first use and again after the server has gone."""

    def __init__(self, url: str, *, patience_s: float = 30.0, timeout_s: float = 600.0) -> None:
        parts = urlsplit(url)
        self._name = f"{parts.hostname}:{parts.port or 9000}"
        self._client = Client(
            parts.hostname or "",
            port=parts.port or 9000,
            user=unquote(parts.username or "default"),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.strip("/")) or "default",
            connect_timeout=5,
            send_receive_timeout=timeout_s,
            settings={"insert_block_size": _ONE_BLOCK, "namedtuple_as_json": False},
        )
        self._patience_s = patience_s
        self._turn = threading.Lock()
        self._warned = False
        self._types = TableTypes(self.rows)

    def execute(self, sql: str, params: Parameters | None = None) -> None:
        text = render(sql, params)
        self._patiently(lambda: self._client.execute(text), once=True)

    def rows(self, sql: str, params: Parameters | None = None) -> list[tuple[Any, ...]]:
        text = render(sql, params)
        answer = self._patiently(
            lambda: self._client.execute(text, with_column_types=True, columnar=True)
        )
        if not isinstance(answer, tuple) or not answer[0]:
            return []
        columns, described = answer
        return list(to_rows(columns, [type_name for _, type_name in described]))

    def raw(self, sql: str, format: str) -> bytes:
        """Formats made of rows only, see `formatted`."""
        rows = self.rows(formatted(sql, format))
        return b"".join(row.encode() if isinstance(row, str) else row for (row,) in rows)

    def insert(self, table: str, columns: Columns, token: str) -> None:
        types = self._types.of(table, columns)
        batch = to_batch(table, types, columns)
        if not batch.num_rows:
            return
        sql = f"INSERT INTO {table} ({', '.join(map(quote_name, columns))}) VALUES"

        def send() -> None:
            # Made anew for each attempt: the driver changes the lists that it is given.
            data = [_driver_values(batch.column(name), types[name]) for name in columns]
            self._client.execute(sql, data, columnar=True, settings=self._settings(token))

        with self._types.forgotten_on_error(table):
            self._patiently(send)

    def _settings(self, token: str) -> dict[str, str]:
        server = self._client.connection.server_info
        if server and server.used_revision >= _TOKENS_SINCE:
            return {
                "insert_deduplication_token": token,
                "deduplicate_blocks_in_dependent_materialized_views": "1",
                "async_insert": "0",
            }
        if not self._warned:
            self._warned = True
            log.warning("%s knows no insert tokens: a repeated insert is there twice", self._name)
        return {}

    def close(self) -> None:
        with self._turn:
            self._client.disconnect()

    def _patiently(self, call: Callable[[], T], once: bool = False) -> T:
        def attempt() -> T:
            with self._turn:
                return self._attempt(call, once)

        return patiently("warehouse", attempt, self._patience_s)

    def _attempt(self, call: Callable[[], T], once: bool) -> T:
        """With `once`, only a statement that cannot have been sent may be repeated."""
        connection = self._client.connection
        connected = False
        try:
            if not (connection.connected and connection.ping()):
                connection.connect()
            connected = True
            with typed_decoding():
                return call()
        except ServerException as error:
            text = error.message.partition("Stack trace:")[0].removeprefix("DB::Exception: ")
            text = text.strip().rstrip(".")
            if error.code in BUSY:
                raise AwayError(f"Code: {error.code}. {text}") from error
            raise WarehouseError(error.code or 0, text) from error
        except TypeMismatchError as error:
            self._client.disconnect()
            raise WarehouseError(error.code, str(error.message)) from error
        except (OSError, EOFError, Error) as error:
            self._client.disconnect()
            if not connected:
                raise AwayError(f"{self._name} does not answer") from error
            doubt = "; whether the statement ran is not known" if once else ""
            raise AwayError(f"{self._name} broke off: {error}{doubt}", again=not once) from error


def formatted(sql: str, format: str) -> str:
    """`sql` with each row as one text in `format`. The native protocol carries no formats, so the
    server is asked for rows of them: JSONEachRow, TSV, CSV, RowBinary and others without a frame.
    """
    return f"SELECT formatRow({quote(format)}, *) FROM ({sql})"  # noqa: S608


def _driver_values(array: pa.Array, type_name: str) -> list[Any]:
    """Arrow values as the driver packs them. Times go as the integers that are stored."""
    inner, _ = unwrap(type_name)
    name, arguments = split(inner)
    match name:
        case "DateTime":
            return array.cast(pa.int64()).to_pylist()
        case "DateTime64":
            micros = array.cast(MICROSECONDS, safe=False).cast(pa.int64()).to_pylist()
            return _scaled(micros, int(arguments[0]))
        case "Map":
            return [dict(pairs) for pairs in array.to_pylist()]
        case _:
            return array.to_pylist()


def _scaled(micros: list[int | None], scale: int) -> list[Any]:
    """Microseconds in the column's own unit of 10**-scale seconds."""
    if scale == 6:
        return micros
    factor, divisor = 10 ** max(scale - 6, 0), 10 ** max(6 - scale, 0)
    return [None if value is None else value * factor // divisor for value in micros]
