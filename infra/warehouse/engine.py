"""chDB behind the warehouse's HTTP interface: one process, one path, a connection per request.

A chDB connection costs under a millisecond and has a session of its own (settings, current
database, temporary tables, parameters), so requests cannot leak into each other, and long ones run
beside short ones. A request that names a `session_id` keeps its connection until it times out, as
on a ClickHouse server.

Durability: asynchronous inserts are off and every part is fsynced with its directory before the
insert returns, so what was acknowledged survives `kill -9` and a power cut. The log of insert
tokens is not fsynced: after a power cut a retry of one of the last blocks may be taken twice.
Merged parts are not fsynced, but their sources are kept for some minutes.
"""

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

from chdb.state.sqlitelike import Connection

from infra.warehouse.literals import quote, quote_name
from infra.warehouse.protocol import WarehouseError
from infra.warehouse.statement import STREAMED, Statement
from infra.warehouse.tokens import forget_lost_tokens

DATABASE = "planloop"
log = logging.getLogger("planloop.warehouse")

SESSION_NOT_FOUND, SESSION_IS_LOCKED = 372, 373
_CODE = re.compile(r"Code: (\d+)\. (?:DB::Exception: )?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Request:
    """A statement and the session it runs in."""

    statement: Statement
    format: str
    database: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    session_id: str = ""
    session_timeout: float = 60.0
    session_must_exist: bool = False


@dataclass(slots=True)
class Progress:
    """Counted for `X-ClickHouse-Summary`; complete once the answer's first chunk is there."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_ns: int = 0


@dataclass(slots=True)
class _Session:
    connection: Connection
    busy: threading.Lock = field(default_factory=threading.Lock)
    expires: float = 0.0


class Engine:
    """Owns the database under `path`. Methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises WarehouseError when another process holds `path`."""
        path = path.resolve()
        path.mkdir(parents=True, exist_ok=True)
        configuration = path / "engine.xml"
        root = ElementTree.parse(Path(__file__).with_name("engine.xml")).getroot()  # noqa: S314
        ElementTree.SubElement(root, "users_config").text = str(configuration)
        ElementTree.ElementTree(root).write(configuration)
        self._url = f"{path}?config-file={configuration}"
        if forgotten := forget_lost_tokens(path):
            log.warning("%d insert tokens had lost their rows and are free again", forgotten)
        with _typed_errors():
            self._anchor = Connection(self._url)
            self._anchor.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self.version = self._ask("version()")
        self.timezone = self._ask("timezone()")

    def close(self) -> None:
        with self._lock:
            for session in self._sessions.values():
                session.connection.close()
            self._sessions.clear()
        self._anchor.close()

    def answer(self, request: Request, progress: Progress) -> Iterator[bytes]:
        """The answer's chunks, in order; each `next` blocks until the engine has one."""
        if not request.session_id:
            connection = self._connect()
            try:
                yield from _run(connection, request, progress)
            finally:
                connection.close()
            return
        session = self._session(request)
        try:
            yield from _run(session.connection, request, progress)
        finally:
            self._leave(session, request)

    def _connect(self) -> Connection:
        connection = Connection(self._url)
        connection.query(f"USE {DATABASE}")
        return connection

    def _ask(self, expression: str) -> str:
        return self._anchor.query(f"SELECT {expression}", "TabSeparated").bytes().decode().strip()

    def _session(self, request: Request) -> _Session:
        """The named session, locked for this request."""
        now = time.monotonic()
        with self._lock:
            for name, idle in list(self._sessions.items()):
                if idle.expires < now and idle.busy.acquire(blocking=False):
                    del self._sessions[name]
                    idle.connection.close()
            session = self._sessions.get(request.session_id)
            if session is None:
                if request.session_must_exist:
                    raise WarehouseError(SESSION_NOT_FOUND, "Session not found")
                session = self._sessions[request.session_id] = _Session(self._connect())
            if not session.busy.acquire(blocking=False):
                raise WarehouseError(SESSION_IS_LOCKED, "Session is locked by a concurrent client")
            return session

    def _leave(self, session: _Session, request: Request) -> None:
        """Settings of a request end with it: an insert token must not reach the next insert."""
        try:
            if request.settings:
                defaults = (f"{quote_name(name)} = DEFAULT" for name in request.settings)
                session.connection.query("SET " + ", ".join(defaults))
        except RuntimeError:  # a readonly session cannot be reset
            with self._lock:
                self._sessions.pop(request.session_id, None)
                session.connection.close()
        finally:
            session.expires = time.monotonic() + request.session_timeout
            session.busy.release()


def _run(connection: Connection, request: Request, progress: Progress) -> Iterator[bytes]:
    started = time.perf_counter_ns()
    statement = request.statement
    with _typed_errors():
        if request.database:
            connection.query(f"USE {quote_name(request.database)}")
        if request.settings:
            connection.query("SET " + _assignments(request.settings))
        if statement.reads_data:
            _insert(connection, request, progress)
        elif statement.streams and (statement.format or request.format) in STREAMED:
            yield from _stream(connection, request, progress, started)
        else:
            yield _query(connection, request, progress)
        progress.elapsed_ns = time.perf_counter_ns() - started


def _query(connection: Connection, request: Request, progress: Progress) -> bytes:
    text = _text(request.statement.text)
    result = connection.query(text, request.format, params=dict(request.parameters))
    progress.read_rows = result.storage_rows_read()
    progress.read_bytes = result.storage_bytes_read()
    progress.written_rows = result.rows_written()
    progress.written_bytes = result.bytes_written()
    progress.result_rows = result.rows_read()
    progress.result_bytes = result.size()
    return result.bytes()


def _insert(connection: Connection, request: Request, progress: Progress) -> None:
    statement = request.statement
    if request.parameters:
        named = {f"param_{name}": value for name, value in request.parameters.items()}
        connection.query("SET " + _assignments(named))
    inserter = connection.send_insert(_text(statement.text), statement.format or request.format)
    with inserter:
        if statement.data:
            inserter.append(statement.data)
        result = inserter.finish()
    progress.written_rows = progress.result_rows = result.rows_written
    progress.written_bytes = progress.result_bytes = result.bytes_written


def _stream(
    connection: Connection, request: Request, progress: Progress, started: int
) -> Iterator[bytes]:
    stream = connection.send_query(
        _text(request.statement.text), request.format, params=dict(request.parameters)
    )
    with stream:
        for chunk in stream:
            progress.result_rows += chunk.rows_read()
            progress.result_bytes += chunk.size()
            progress.elapsed_ns = time.perf_counter_ns() - started
            yield chunk.bytes()


def _text(statement: bytes) -> str:
    """chDB takes bytes as readily as text, and a literal need not be UTF-8."""
    return cast(str, statement)


class _typed_errors:  # noqa: N801 - reads as a statement
    """chDB says everything with RuntimeError; its text carries the code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RuntimeError):
            found = _CODE.search(str(error))
            code, text = (int(found[1]), found[2]) if found else (1001, str(error))
            raise WarehouseError(code, text.strip()) from error


def _assignments(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{quote_name(name)} = {quote(value)}" for name, value in settings.items())
