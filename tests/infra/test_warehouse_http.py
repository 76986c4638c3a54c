"""What only the HTTP adapter meets: today's types, the embedded engine, formats."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.warehouse import Warehouse, open_warehouse
from infra.warehouse.native import formatted
from schemas.errors import InputError
from tests.infra.servers import EmbeddedWarehouse

_numbers = itertools.count()
MAKE = """CREATE TABLE {name:Identifier}
    (at DateTime64(6, 'UTC'), coarse DateTime64(3, 'Asia/Tokyo'), fine DateTime64(9),
     plain DateTime,
     maybe Nullable(DateTime64(6, 'UTC')), word LowCardinality(String),
     level LowCardinality(Nullable(String)), flag Bool, price Decimal(18, 4),
     counts Map(String, UInt32), moments Array(DateTime64(6, 'UTC')),
     nested Array(Array(Nullable(Int8))), made UInt8 MATERIALIZED 5)
    ENGINE = MergeTree ORDER BY tuple()"""
AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture(scope="module")
def warehouse(embedded: EmbeddedWarehouse) -> Iterator[Warehouse]:
    one = open_warehouse(embedded.url)
    yield one
    one.close()


@pytest.fixture
def table(warehouse: Warehouse) -> str:
    name = f"today_{next(_numbers)}"
    warehouse.execute(MAKE, {"name": name})
    return name


def test_todays_types_come_back_as_they_went(warehouse: Warehouse, table: str) -> None:
    whole = AT.replace(microsecond=0)
    columns = {
        "at": [AT, datetime(1900, 1, 1, tzinfo=UTC)],
        "coarse": [AT.replace(microsecond=123_000), whole],
        "fine": [AT, whole],
        "plain": [whole, whole],
        "maybe": [None, AT],
        "word": ["x", ""],
        "level": [None, "y"],
        "flag": [True, False],
        "price": [Decimal("0.0001"), Decimal("-12345678901234.5678")],
        "counts": [{"a": 0, "b": 2**32 - 1}, {}],
        "moments": [[AT, whole], []],
        "nested": [[[1, None], []], []],
    }
    warehouse.insert(table, columns, "1")
    names = ", ".join(columns)
    rows = warehouse.rows(f"SELECT {names} FROM {table} ORDER BY at DESC")
    assert rows == list(zip(*columns.values(), strict=True))
    assert warehouse.rows(f"SELECT made FROM {table}") == [(5,), (5,)]


def test_integers_in_time_columns_are_microseconds(warehouse: Warehouse, table: str) -> None:
    micros = int(AT.timestamp()) * 1_000_000 + 123_456
    names = ("at", "coarse", "fine", "plain", "maybe")
    warehouse.insert(table, {name: np.array([micros]) for name in names}, "1")
    warehouse.insert(table, {name: [micros] for name in names}, "2")
    row = (
        AT, AT.replace(microsecond=123_000), AT, AT.replace(microsecond=0), AT
    )  # fmt: skip
    assert warehouse.rows(f"SELECT {', '.join(names)} FROM {table}") == [row, row]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", datetime(1899, 12, 31, tzinfo=UTC)),
        ("at", 10_413_792_000_000_000),
        ("at", 0.5),
        ("moments", [None]),
        ("moments", [datetime(2026, 3, 1)]),
        ("price", Decimal("0.00001")),
        ("counts", {"a": -1}),
        ("counts", {"a": 1.5}),
        ("counts", {"a": None}),
        ("counts", None),
        ("nested", [[128]]),
        ("flag", "yes"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    warehouse: Warehouse, table: str, column: str, value: object
) -> None:
    with pytest.raises(InputError, match=rf"{table}\.{column} "):
        warehouse.insert(table, {column: [value]}, "1")


def test_a_type_that_is_not_inserted_is_named(warehouse: Warehouse) -> None:
    name = f"today_{next(_numbers)}"
    warehouse.execute(f"CREATE TABLE {name} (p Tuple(UInt8, UInt8)) ENGINE = Memory")
    with pytest.raises(InputError, match=rf"{name}\.p .*does not insert"):
        warehouse.insert(name, {"p": [(1, 2)]}, "1")


def test_todays_parameters(warehouse: Warehouse) -> None:
    params = {
        "at": AT,
        "flag": True,
        "price": Decimal("1.25"),
        "counts": {"k'": 5},
        "empty": [],
        "word": "w",
        "big": 2**64 - 1,
        "infinite": float("inf"),
    }
    sql = """SELECT {at:DateTime64(6)}, {flag:Bool}, {price:Decimal(18, 4)},
        {counts:Map(String, UInt8)}, {empty:Array(UInt64)}, {word:LowCardinality(String)},
        {big:UInt64}, {infinite:Float64}"""
    assert warehouse.rows(sql, params) == [tuple(params.values())]


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(), data=st.binary(), number=st.integers(-(2**63), 2**63 - 1),
    seconds=st.integers(0, 2**32 - 1), micros=st.integers(0, 999_999),
)  # fmt: skip
def test_any_parameter_is_read_as_it_was_given(
    warehouse: Warehouse, text: str, data: bytes, number: int, seconds: int, micros: int
) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=micros)
    params = {"text": text, "data": data, "number": number, "at": at}
    sql = "SELECT {text:String}, hex({data:String}), {number:Int64}, {at:DateTime64(6)}"
    assert warehouse.rows(sql, params) == [(text, data.hex().upper(), number, at)]


def test_raw_is_the_format_asked_for(warehouse: Warehouse) -> None:
    answer = warehouse.raw("SELECT 1 AS x, 'y' AS z", "JSONCompactEachRow")
    assert json.loads(answer) == [1, "y"]
    stream = warehouse.raw("SELECT number FROM numbers(3)", "ArrowStream")
    assert pa.ipc.open_stream(stream).read_all().to_pydict() == {"number": [0, 1, 2]}


@pytest.mark.parametrize("format", ["JSONEachRow", "TSV", "CSV", "RowBinary"])
def test_rows_of_a_format_are_the_format(warehouse: Warehouse, format: str) -> None:
    sql = "SELECT number AS n, 'a\\t😀' AS s, [1, 2] AS a FROM numbers(3)"
    rows = [row for (row,) in warehouse.rows(formatted(sql, format))]
    assert "".join(rows).encode() == warehouse.raw(sql, format)


@pytest.mark.parametrize(
    "url", ["http://u:se:cr/et@host/", "http://u:secret@[host/", "ftp://u:secret@h/"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InputError) as caught:
        open_warehouse(url)
    assert "cr" not in str(caught.value)


def test_insert_reaches_a_million_rows(warehouse: Warehouse) -> None:
    name = f"today_{next(_numbers)}"
    warehouse.execute(f"CREATE TABLE {name} (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    warehouse.insert(name, {"a": np.arange(1_500_000), "b": pa.array(["x"] * 1_500_000)}, "1")
    assert warehouse.rows(f"SELECT count(), uniqExact(a) FROM {name}") == [(1_500_000,) * 2]
