"""What one request asks for: a statement, the format of its data, and the data that follow it.

ClickHouse's HTTP interface takes the query from the URL, from the body, or from both, and the data
of an INSERT follow the query without a frame. Only the tokens that decide are read here: strings,
quoted names and comments are skipped, so that a word inside them decides nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.warehouse.protocol import WarehouseError

_TOKEN = re.compile(
    rb"""(?P<space>\s+|--[^\n]*|\#[ !][^\n]*|/\*.*?\*/)
    |(?P<quoted>'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>;)
    |(?P<other>\d[A-Za-z0-9_.]*|.)""",
    re.DOTALL | re.VERBOSE,
)
READS = {"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK"}
_AFTER_FORMAT = re.compile(rb";?[ \t\f]*\r?\n?")

# Formats whose chunks concatenate to the whole: no head, no tail, no frame around all rows.
STREAMED = {
    "Native", "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "RowBinary",
    "JSONEachRow", "JSONLines", "NDJSON", "JSONCompactEachRow", "JSONStringsEachRow",
}  # fmt: skip

SYNTAX_ERROR, NOT_IMPLEMENTED = 62, 48


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. With `reads_data` an INSERT reads `data`, and `text` has no FORMAT."""

    verb: str
    text: bytes
    format: str | None
    data: bytes = b""
    reads_data: bool = False

    @property
    def streams(self) -> bool:
        return self.verb in ("SELECT", "WITH")


def parse(query: bytes, body: bytes) -> Statement:
    """One request's statement. Raises WarehouseError for what HTTP must not carry."""
    if not query:
        return _parse(body)
    statement = _parse(query)
    if statement.reads_data:
        return replace(statement, data=statement.data + body if statement.data else body)
    return _parse(query + b"\n" + body) if body else statement


def _parse(source: bytes) -> Statement:
    read = tokens(source)
    first = next(read, None)
    if first is None:
        raise WarehouseError(SYNTAX_ERROR, "Empty query")
    while first is not None and first[1] == b"(":
        first = next(read, None)
    verb = first[1].decode("ascii", "replace").upper() if first else ""
    return _insert(source) if verb == "INSERT" else _query(source, verb)


def tokens(source: bytes) -> Iterator[tuple[str, bytes, int, int]]:
    """(kind, text, end, depth) of every token; brackets in between raise the depth."""
    depth = 0
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or ""
        if kind == "space":
            continue
        depth += (kind == "open") - (kind == "close")
        yield kind, match.group(), match.end(), depth


def _insert(source: bytes) -> Statement:
    """INSERT: the data start behind FORMAT name; VALUES and SELECT stay part of the statement."""
    before_format = previous_end = 0
    previous = b""
    for kind, text, end, depth in tokens(source):
        word = text.upper() if kind == "word" and depth == 0 else b""
        if previous == b"FORMAT" and kind == "word":
            data = _AFTER_FORMAT.match(source, end)
            start = data.end() if data else end
            return Statement(
                "INSERT", source[:before_format], text.decode(), source[start:], reads_data=True
            )
        if word == b"INFILE":
            raise WarehouseError(NOT_IMPLEMENTED, "FROM INFILE reads the server's own files")
        if word in (b"SELECT", b"WITH", b"VALUES") and previous != b".":
            _refuse_files(source)
            return Statement("INSERT", source, None)
        if kind == "end":
            break
        before_format, previous_end, previous = previous_end, end, word or text
    return Statement("INSERT", source[:previous_end], None, reads_data=True)


def _query(source: bytes, verb: str) -> Statement:
    """Anything else: one statement, its FORMAT clause if the tail has one."""
    _refuse_files(source)
    fmt = previous = b""
    tail: list[bytes] = []
    ended = False
    for kind, text, _, depth in tokens(source):
        if ended and kind != "end":
            raise WarehouseError(SYNTAX_ERROR, "Multi-statements are not allowed")
        ended = ended or (kind == "end" and depth == 0)
        word = text.upper() if kind == "word" and depth == 0 else b""
        if word == b"OUTFILE" and previous == b"INTO":
            raise WarehouseError(NOT_IMPLEMENTED, "INTO OUTFILE writes the server's own files")
        if previous == b"FORMAT" and kind == "word":
            fmt, tail = text, []
        elif kind != "end":
            tail.append(word)
        previous = word
    if tail and tail[0] != b"SETTINGS":
        fmt = b""
    return Statement(verb, source, fmt.decode() or None)


def _refuse_files(source: bytes) -> None:
    """The function `file` reads any file of the machine, and no right of access forbids it."""
    if b"file" not in source.lower():
        return
    previous = b""
    for _, text, _, _ in tokens(source):
        if text == b"(" and previous.strip(b'`"').lower() == b"file":
            raise WarehouseError(NOT_IMPLEMENTED, "file() reads the server's own files")
        previous = text
