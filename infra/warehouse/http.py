"""The warehouse over ClickHouse's HTTP interface: the embedded one, or a server's port 8123."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import pyarrow as pa
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
)

from infra.patience import AwayError, patiently
from infra.warehouse.blocks import read_rows, typed_decoding
from infra.warehouse.columns import to_batch
from infra.warehouse.literals import quote_name, render
from infra.warehouse.protocol import BUSY, Columns, Parameters, WarehouseError
from infra.warehouse.schema import TableTypes

_EXCEPTION = re.compile(
    r"Code: (\d+)\. (?:DB::Exception: )?(.*?)(?: \(version [^()]*(?:\([^()]*\))?\))?\s*", re.DOTALL
)


class HttpWarehouse:
    """`url` is http(s)://user:password@host:port/database. Threads may share one."""

    def __init__(self, url: str, *, patience_s: float = 30.0, timeout_s: float = 600.0) -> None:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._url = f"{parts.scheme}://{host}:{parts.port or 8123}/"
        self._headers = {
            "X-ClickHouse-User": unquote(parts.username or "default"),
            "X-ClickHouse-Key": unquote(parts.password or ""),
        }
        self._database = unquote(parts.path.strip("/"))
        self._patience_s = patience_s
        self._pool = urllib3.PoolManager(
            maxsize=8,
            retries=False,
            timeout=urllib3.Timeout(connect=5.0, read=timeout_s),
        )
        self._types = TableTypes(self.rows)

    def execute(self, sql: str, params: Parameters | None = None) -> None:
        self._ask(render(sql, params), "TabSeparated", once=True)

    def rows(self, sql: str, params: Parameters | None = None) -> list[tuple[Any, ...]]:
        data = self._ask(render(sql, params), "Native")
        with typed_decoding():
            return read_rows(data)

    def raw(self, sql: str, format: str) -> bytes:
        return self._ask(sql, format)

    def insert(self, table: str, columns: Columns, token: str) -> None:
        batch = to_batch(table, self._types.of(table, columns), columns)
        if not batch.num_rows:
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        names = ", ".join(map(quote_name, columns))
        url = self._address(
            query=f"INSERT INTO {table} ({names}) FORMAT ArrowStream",
            insert_deduplication_token=token,
            deduplicate_blocks_in_dependent_materialized_views="1",
            # one block a call, whatever the server's defaults: the token names the whole of it
            async_insert="0",
            max_insert_block_size=str(batch.num_rows),
            min_insert_block_size_rows="0",
            min_insert_block_size_bytes="0",
        )
        body = sink.getvalue()
        with self._types.forgotten_on_error(table):
            patiently("warehouse", lambda: self._send(url, body), self._patience_s)

    def close(self) -> None:
        self._pool.clear()

    def _ask(self, sql: str, format: str, once: bool = False) -> bytes:
        url = self._address(default_format=format)
        body = sql.encode()
        return patiently("warehouse", lambda: self._send(url, body, once), self._patience_s)

    def _address(self, **parameters: str) -> str:
        if self._database:
            parameters["database"] = self._database
        return f"{self._url}?{urlencode(parameters)}"

    def _send(self, url: str, body: bytes | pa.Buffer, once: bool = False) -> bytes:
        """One attempt. With `once`, only a request that cannot have arrived may be repeated."""
        try:
            response = self._pool.request(
                "POST", url, body=body, headers=self._headers, preload_content=False
            )
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise AwayError(f"{self._url} does not answer") from error
        except ReadTimeoutError as error:
            raise AwayError(f"{self._url} gave no answer in time", again=False) from error
        except HTTPError as error:
            raise AwayError(_broken(self._url, once), again=not once) from error
        parts: list[bytes] = []
        try:
            for part in response.stream(1 << 20):
                parts.append(part)
        except HTTPError as error:
            _raise_told(parts, response.headers)
            raise AwayError(_broken(self._url, once), again=not once) from error
        finally:
            response.release_conn()
        answer = b"".join(parts)
        if response.status == 200:
            return answer
        raise _refusal(response.status, answer)


def _broken(url: str, once: bool) -> str:
    doubt = "; whether the statement ran is not known" if once else ""
    return f"{url} broke the connection off{doubt}"


def _refusal(status: int, answer: bytes) -> Exception:
    told = _EXCEPTION.fullmatch(answer.decode("utf-8", "replace"))
    if told is None:
        words = answer[:200].decode("utf-8", "replace")
        if status in (502, 503, 504):
            return AwayError(f"HTTP {status} {words}")
        return WarehouseError(0, f"HTTP {status} {words}")
    code = int(told[1])
    if code in BUSY:
        return AwayError(f"Code: {code}. {told[2]}")
    return WarehouseError(code, told[2])


def _raise_told(parts: list[bytes], headers: Mapping[str, str]) -> None:
    """A failure midway is in the data, behind a marker that the headers announced."""
    tag = headers.get("X-ClickHouse-Exception-Tag", "")
    mark = f"__exception__\r\n{tag}\r\n".encode()
    _, found, told = b"".join(parts[-2:]).rpartition(mark)
    match = _EXCEPTION.match(told.decode("utf-8", "replace")) if tag and found else None
    if match:
        raise WarehouseError(int(match[1]), told.decode("utf-8", "replace").split("\n")[0])
