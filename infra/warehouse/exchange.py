"""A ClickHouse HTTP request read, an answer's headers and an error written.

What the URL carries is sorted here: the query, its parameters (`param_x`), the session, and
settings, which are everything else and are checked by the engine.
"""

import base64
import hmac
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from infra.warehouse.engine import Request
from infra.warehouse.protocol import WarehouseError
from infra.warehouse.statement import NOT_IMPLEMENTED, READS, parse

# In the URL, but the transport's or nobody's: a session cannot take them as settings.
_TRANSPORT = {
    "query", "database", "default_format", "user", "password", "session_id", "session_timeout",
    "session_check", "close_session", "query_id", "quota_key", "role", "stacktrace", "compress",
    "decompress", "buffer_size", "wait_end_of_query", "client_protocol_version",
}  # fmt: skip
_CODECS = {"gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "br": "brotli"}
_CONTENT_TYPES = {
    "Native": "application/octet-stream",
    "RowBinary": "application/octet-stream",
    "Arrow": "application/vnd.apache.arrow.file",
    "ArrowStream": "application/vnd.apache.arrow.stream",
    "Parquet": "application/vnd.apache.parquet",
}

UNKNOWN_FORMAT, READONLY, TOO_LARGE, CANNOT_DECOMPRESS = 73, 164, 396, 354
INVALID_SESSION_TIMEOUT = 374
REQUIRED_PASSWORD, AUTHENTICATION_FAILED = 194, 516
_STATUS = {
    **dict.fromkeys(
        (INVALID_SESSION_TIMEOUT, 36, 42, 43, 44, 53, 62, 69, 117, 168, 223, 377, 456, 457, 636),
        400,
    ),
    **dict.fromkeys((6, 25, 26, 27, 33, 38, 41, 72, 130, 131, 376, CANNOT_DECOMPRESS), 400),
    **dict.fromkeys((16, 46, 47, 50, 56, 60, 73, 81, 115, 372, 78), 404),
    **dict.fromkeys((AUTHENTICATION_FAILED, 192, 193, 497), 403),
    REQUIRED_PASSWORD: 401,
    159: 408,
    164: 403,
    TOO_LARGE: 413,
    NOT_IMPLEMENTED: 501,
    **dict.fromkeys((202, 439), 503),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who may ask. An empty password lets anyone in (the server then stays on loopback)."""

    user: str
    password: str

    def check(self, headers: Mapping[str, str], url: Mapping[str, str]) -> None:
        if not self.password:
            return
        user = headers.get("x-clickhouse-user") or url.get("user", "")
        password = headers.get("x-clickhouse-key") or url.get("password", "")
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            user, _, password = _basic(encoded).partition(":")
        if not (user or password):
            raise WarehouseError(REQUIRED_PASSWORD, "A user and password are needed")
        same = [
            hmac.compare_digest(given.encode(), right.encode())
            for given, right in ((user, self.user), (password, self.password))
        ]
        if not all(same):
            raise WarehouseError(
                AUTHENTICATION_FAILED,
                "Authentication failed: password is incorrect, or there is no user with such name",
            )


def _basic(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode()
    except ValueError:
        return ""


def read_request(
    method: str, url: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> Request:
    """The engine's request. Raises WarehouseError for what this interface does not do."""
    if url.get("compress", "0") == "1" or url.get("decompress", "0") == "1":
        raise _not_done("compress and decompress; use Content-Encoding and Accept-Encoding")
    if headers.get("content-type", "").startswith("multipart/form-data"):
        raise _not_done("external data in a form")
    statement = parse(url.get("query", "").encode("utf-8", "replace"), body)
    if method == "GET" and statement.verb not in READS:
        raise WarehouseError(READONLY, f"Cannot execute query in readonly mode: {statement.verb}")
    format = headers.get("x-clickhouse-format") or url.get("default_format") or "TabSeparated"
    if not format.isalnum():
        raise WarehouseError(UNKNOWN_FORMAT, f"Unknown format {format!r}")
    # Tools send `default` for "the server's own", which here has a name.
    database = headers.get("x-clickhouse-database") or url.get("database", "")
    return Request(
        statement,
        format=format,
        database="" if database == "default" else database,
        settings={
            name: value
            for name, value in url.items()
            if name not in _TRANSPORT and not name.startswith("param_")
        },
        parameters={
            name.removeprefix("param_"): value
            for name, value in url.items()
            if name.startswith("param_")
        },
        session_id=url.get("session_id", ""),
        session_timeout=_session_timeout(url.get("session_timeout", "60")),
        session_must_exist=url.get("session_check", "0") == "1",
    )


def _session_timeout(text: str) -> float:
    if not text.isdecimal() or not 0 < int(text) <= 3600:
        raise WarehouseError(INVALID_SESSION_TIMEOUT, f"Invalid session timeout: {text!r}")
    return float(text)


def _not_done(what: str) -> WarehouseError:
    return WarehouseError(NOT_IMPLEMENTED, f"not on this warehouse: {what}")


def content_type(format: str) -> str:
    if format.startswith("JSON"):
        return "application/json; charset=UTF-8"
    if format.startswith("CSV"):
        return "text/csv; charset=UTF-8; header=" + (
            "present" if format.startswith("CSVWithNames") else "absent"
        )
    if format.startswith(("TabSeparated", "TSV")):
        return "text/tab-separated-values; charset=UTF-8"
    return _CONTENT_TYPES.get(format, "text/plain; charset=UTF-8")


def status_of(error: WarehouseError) -> int:
    return _STATUS.get(error.code, 500)


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """`body` as it was before `Content-Encoding`. Raises WarehouseError beyond `limit` bytes."""
    try:
        if encoding == "deflate":
            plain = zlib.decompressobj().decompress(body, limit + 1)
        elif encoding in _CODECS:
            source = pa.CompressedInputStream(pa.BufferReader(body), _CODECS[encoding])
            plain = source.read(limit + 1)
        else:
            raise _not_done(f"Content-Encoding {encoding}")
    except (OSError, zlib.error) as error:
        raise WarehouseError(CANNOT_DECOMPRESS, f"{encoding}: {error}") from error
    if len(plain) > limit:
        raise too_large(limit)
    return plain


def too_large(limit: int) -> WarehouseError:
    return WarehouseError(TOO_LARGE, f"the request is above {limit} bytes")


def accepted_encoding(url: Mapping[str, str], accept: str) -> str | None:
    """The encoding to answer in: asked for in the URL, as on a server, and by the header."""
    if url.get("enable_http_compression", "0") not in ("1", "true"):
        return None
    offered = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((name for name in offered if name in _CODECS), None)


class _Collected(io.RawIOBase):
    """A file that hands over what was written to it, also after it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def compress(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """`chunks` as one compressed stream; each yields what the codec has ready."""
    file = _Collected()
    with pa.CompressedOutputStream(pa.PythonFile(file, "w"), _CODECS[encoding]) as stream:
        for chunk in chunks:
            stream.write(chunk)
            yield file.take()
    yield file.take()
