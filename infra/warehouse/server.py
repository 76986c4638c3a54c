"""The embedded warehouse: chDB on ClickHouse's HTTP interface.

    python -m infra.warehouse.server --path DIR --port PORT [--host 127.0.0.1]

One process owns DIR; everything else asks it here, with any ClickHouse HTTP client. The user is
`planloop`, its password comes from PLANLOOP_WAREHOUSE_PASSWORD; without one the server listens on
loopback only and takes anyone. SIGTERM finishes the running requests and closes the database.
"""

import argparse
import asyncio
import ipaddress
import logging
import os
import secrets
import signal
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from infra.warehouse.engine import Engine, Progress
from infra.warehouse.exchange import (
    Credentials,
    accepted_encoding,
    compress,
    content_type,
    decompress,
    read_request,
    status_of,
    too_large,
)
from infra.warehouse.protocol import WarehouseError

USER = "planloop"
PASSWORD_VARIABLE = "PLANLOOP_WAREHOUSE_PASSWORD"  # noqa: S105 - the variable's name
MAX_BODY_BYTES = 512 << 20
MAX_URL_BYTES = 1 << 20  # as on a server
WHOLE_BYTES = 1 << 20  # a shorter answer is sent in one piece, with its length
THREADS = 8  # requests in the engine at once; it spreads each over the cores itself

log = logging.getLogger("planloop.warehouse")
T = TypeVar("T")


class WarehouseServer:
    """The ASGI side: bodies in, chunks out. The engine blocks only threads of its own."""

    def __init__(
        self, engine: Engine, credentials: Credentials, max_body: int = MAX_BODY_BYTES
    ) -> None:
        self._engine = engine
        self._credentials = credentials
        self._max_body = max_body
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="engine")

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/ping", self._ping, methods=["GET", "HEAD"]),
                Route("/", self._answer, methods=["GET", "POST"]),
                Route("/", self._preflight, methods=["OPTIONS"]),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._threads.shutdown()
        self._engine.close()

    async def _ping(self, _: HttpRequest) -> Response:
        return PlainTextResponse("Ok.\n")

    async def _preflight(self, _: HttpRequest) -> Response:
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Origin": "*",
                "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
                "Access-Control-Allow-Headers": "origin, x-requested-with, content-type, "
                "authorization, x-clickhouse-user, x-clickhouse-key, x-clickhouse-format",
                "Access-Control-Max-Age": "86400",
            },
        )

    async def _answer(self, http: HttpRequest) -> Response:
        url = dict(http.query_params)
        query_id = url.get("query_id", "")
        headers = {
            "X-ClickHouse-Server-Display-Name": USER,
            "X-ClickHouse-Query-Id": query_id if _is_header(query_id) else str(uuid.uuid4()),
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        if url.get("add_http_cors_header") == "1" and "origin" in http.headers:
            headers["Access-Control-Allow-Origin"] = "*"
        try:
            self._credentials.check(http.headers, url)
            request = read_request(http.method, url, http.headers, await self._body(http))
            progress = Progress()
            chunks = Chunks(self._engine.answer(request, progress))
            head, whole = await self._in_thread(_head, chunks)
        except WarehouseError as error:
            return self._refusal(error, headers)
        except ClientDisconnect:
            return Response(status_code=499)
        summary = {name: str(count) for name, count in asdict(progress).items()}
        headers["X-ClickHouse-Summary"] = orjson.dumps(summary).decode()
        headers["X-ClickHouse-Format"] = format = request.statement.format or request.format
        headers["Content-Type"] = content_type(format)
        answer = chain(head, chunks)
        if encoding := accepted_encoding(url, http.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = encoding
            answer = compress(answer, encoding)
        if whole:
            return Response(await self._in_thread(b"".join, answer), headers=headers)
        headers["X-ClickHouse-Exception-Tag"] = tag = secrets.token_hex(8)
        return Unfinishable(self._stream(Chunks(answer), chunks, tag), headers=headers)

    async def _body(self, http: HttpRequest) -> bytes:
        parts: list[bytes] = []
        size = 0
        announced = http.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._max_body:
            raise too_large(self._max_body)
        async for part in http.stream():
            size += len(part)
            if size > self._max_body:
                raise too_large(self._max_body)
            parts.append(part)
        body = b"".join(parts)
        encoding = http.headers.get("content-encoding", "identity").lower()
        if encoding == "identity" or not body:
            return body
        return await self._in_thread(decompress, body, encoding, self._max_body)

    async def _stream(self, answer: "Chunks", source: "Chunks", tag: str) -> AsyncIterator[bytes]:
        """The chunks as fast as the client takes them. A failure midway is told behind a marker
        that no data can contain."""
        try:
            while (chunk := await self._in_thread(answer.take)) is not None:
                if chunk:
                    yield chunk
        except WarehouseError as error:
            text = self._text(error)
            mark = f"\r\n__exception__\r\n{tag}\r\n{text}{len(text)} {tag}\r\n__exception__\r\n"
            yield mark.encode()
            raise
        finally:
            self._threads.submit(answer.close)
            self._threads.submit(source.close)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def _refusal(self, error: WarehouseError, headers: dict[str, str]) -> Response:
        headers["X-ClickHouse-Exception-Code"] = str(error.code)
        status = status_of(error)
        if status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="planloop warehouse"'
        if status in (401, 403, 413):  # the body was not read to its end
            headers["Connection"] = "close"
        return PlainTextResponse(self._text(error), status, headers)

    def _text(self, error: WarehouseError) -> str:
        return f"Code: {error.code}. DB::Exception: {error.text} (version {self._engine.version})\n"


class Chunks:
    """An answer's chunks, taken by one thread at a time; `close` waits for a `next` that runs."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._turn = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._turn:
            return next(self._source)

    def take(self) -> bytes | None:
        return next(self, None)

    def close(self) -> None:
        with self._turn:
            if isinstance(self._source, Generator):
                self._source.close()


def _is_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _head(chunks: Chunks) -> tuple[list[bytes], bool]:
    """The first chunks, and whether they are all. A failure up to here has its own status."""
    head: list[bytes] = []
    size = 0
    for chunk in chunks:
        head.append(chunk)
        size += len(chunk)
        if size > WHOLE_BYTES:
            return head, False
    return head, True


class Unfinishable(StreamingResponse):
    """A stream that is left without its end when it fails, so that no client takes it for whole."""

    async def stream_response(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async for chunk in self.body_iterator:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except WarehouseError as error:
            log.warning("an answer broke off: Code: %d", error.code)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def main() -> None:
    arguments = argparse.ArgumentParser(description="The embedded warehouse")
    arguments.add_argument("--path", type=Path, required=True, help="the database's directory")
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--host", default="127.0.0.1")
    given = arguments.parse_args()
    password = os.environ.pop(PASSWORD_VARIABLE, "")
    if not password and not _loopback(given.host):
        arguments.error(f"set {PASSWORD_VARIABLE} to listen on {given.host}")
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        engine = Engine(given.path)
    except WarehouseError as error:
        sys.exit(f"{error}; does another process hold {given.path}?")
    # uvicorn raises the signal again once it has shut down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        WarehouseServer(engine, Credentials(USER, password)).application(),
        host=given.host,
        port=given.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        http="h11",
        h11_max_incomplete_event_size=MAX_URL_BYTES,
        timeout_graceful_shutdown=30,
    )


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    main()
