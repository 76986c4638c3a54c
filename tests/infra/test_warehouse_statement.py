"""What a request is read as, before the engine sees it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.warehouse.protocol import WarehouseError
from infra.warehouse.statement import parse
from infra.warehouse.types import split, unwrap


@pytest.mark.parametrize(
    ("query", "verb", "format"),
    [
        ("SELECT 1", "SELECT", None),
        ("select 1 format JSON", "SELECT", "JSON"),
        ("SELECT 1 FORMAT JSON;", "SELECT", "JSON"),
        ("SELECT 1 FORMAT JSON SETTINGS max_threads = 1", "SELECT", "JSON"),
        ("SELECT format FROM t", "SELECT", None),
        ("SELECT 'a FORMAT JSON'", "SELECT", None),
        ("SELECT 1 -- FORMAT JSON", "SELECT", None),
        ("SELECT 1 /* FORMAT JSON */", "SELECT", None),
        ("SELECT `FORMAT JSON` FROM t", "SELECT", None),
        ("SELECT (SELECT 1 FORMAT x)", "SELECT", None),
        ("(SELECT 1) UNION ALL (SELECT 2) FORMAT TSV", "SELECT", "TSV"),
        ("-- first\nWITH 1 AS x SELECT x FORMAT CSV", "WITH", "CSV"),
        ("SHOW TABLES FORMAT JSONEachRow", "SHOW", "JSONEachRow"),
        ("SELECT 'it''s; \\'; x'", "SELECT", None),
    ],
)
def test_queries(query: str, verb: str, format: str | None) -> None:
    statement = parse(b"", query.encode())
    assert (statement.verb, statement.format, statement.reads_data) == (verb, format, False)
    assert parse(query.encode(), b"") == statement


@pytest.mark.parametrize(
    ("source", "text", "format", "data"),
    [
        (b"INSERT INTO t FORMAT TSV\n1\n", b"INSERT INTO t", "TSV", b"1\n"),
        (b"INSERT INTO t FORMAT TSV \r\n\n1", b"INSERT INTO t", "TSV", b"\n1"),
        (b"INSERT INTO t FORMAT TSV;\n1", b"INSERT INTO t", "TSV", b"1"),
        (b"insert into t (`FORMAT x`) format Native \x00\xff", b"insert into t (`FORMAT x`)",
         "Native", b"\x00\xff"),
        (b"INSERT INTO t SETTINGS a = 1 FORMAT CSV\n", b"INSERT INTO t SETTINGS a = 1", "CSV", b""),
        (b"INSERT INTO d.format (a) FORMAT CSV\n1", b"INSERT INTO d.format (a)", "CSV", b"1"),
        (b"INSERT INTO t (a)", b"INSERT INTO t (a)", None, b""),
        (b"INSERT INTO FUNCTION null('a UInt8') FORMAT CSV 1", b"INSERT INTO FUNCTION "
         b"null('a UInt8')", "CSV", b"1"),
    ],
)  # fmt: skip
def test_inserts_that_read_data(source: bytes, text: bytes, format: str, data: bytes) -> None:
    statement = parse(b"", source)
    assert statement.reads_data
    assert (statement.text, statement.format, statement.data) == (text, format, data)


def test_the_data_of_a_query_in_the_url_are_the_body() -> None:
    statement = parse(b"INSERT INTO t FORMAT CSV", b"FORMAT TSV")
    assert (statement.format, statement.data) == ("CSV", b"FORMAT TSV")
    assert parse(b"INSERT INTO t", b"1").data == b"1"
    assert parse(b"INSERT INTO t VALUES", b"(1)").text == b"INSERT INTO t VALUES\n(1)"


@pytest.mark.parametrize(
    "source",
    [b"INSERT INTO t VALUES (1, 'FORMAT TSV')", b"INSERT INTO t SELECT 1 FORMAT TSV",
     b"INSERT INTO t WITH 1 AS x SELECT x"],
)  # fmt: skip
def test_inserts_that_are_whole(source: bytes) -> None:
    statement = parse(b"", source)
    assert (statement.text, statement.reads_data) == (source, False)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (b"", 62), (b" \n-- x", 62), (b"SELECT 1; SELECT 2", 62),
        (b"SELECT 1 INTO OUTFILE 'x'", 48), (b"INSERT INTO t FROM INFILE 'x' FORMAT CSV", 48),
        (b"SELECT file('x')", 48), (b"SELECT \"FILE\" /**/ ('x')", 48),
        (b"INSERT INTO t SELECT `file`('x')", 48),
    ],
)  # fmt: skip
def test_what_http_must_not_carry(source: bytes, code: int) -> None:
    with pytest.raises(WarehouseError) as caught:
        parse(b"", source)
    assert caught.value.code == code


def test_a_file_in_a_name_or_a_text_is_no_function() -> None:
    for source in (b"SELECT file_name(1), 'file(x)', file FROM t", b"SELECT t.profile (1)"):
        assert parse(b"", source).text == source


@given(st.binary())
def test_the_data_are_what_follows(data: bytes) -> None:
    assert parse(b"", b"INSERT INTO t FORMAT Native\n" + data).data == data


@given(st.binary())
def test_any_bytes_are_read_or_refused(source: bytes) -> None:
    with suppress(WarehouseError):
        parse(b"", source)


def test_types_are_taken_apart() -> None:
    assert split("UInt8") == ("UInt8", [])
    assert split("DateTime64(6, 'UTC')") == ("DateTime64", ["6", "'UTC'"])
    assert split("Map(String, Array(Tuple(UInt8, String)))") == (
        "Map",
        ["String", "Array(Tuple(UInt8, String))"],
    )
    assert split("Enum8('a,)' = 1, 'b' = 2)") == ("Enum8", ["'a,)' = 1", "'b' = 2"])
    assert unwrap("LowCardinality(Nullable(String))") == ("String", True)
    assert unwrap("Array(Nullable(UInt8))") == ("Array(Nullable(UInt8))", False)
    with pytest.raises(ValueError, match="not a type"):
        split("Array(")
