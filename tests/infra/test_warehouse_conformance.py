"""What every warehouse adapter does, on the real thing: chDB over HTTP, a server over TCP.

The table has only types that a server of 2018 knows.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from infra.warehouse import Warehouse, WarehouseError, open_warehouse
from infra.warehouse.http import HttpWarehouse
from infra.warehouse.native import NativeWarehouse
from schemas.errors import InfrastructureAwayError, InputError
from tests.infra.servers import ClickHouseServer, EmbeddedWarehouse, free_port

ADAPTERS = {EmbeddedWarehouse: HttpWarehouse, ClickHouseServer: NativeWarehouse}
COLUMNS = """(k UInt64, i Int64, f Float64, s String, n Nullable(Int32), d Date,
    t DateTime('UTC'), a Array(String), e Enum8('a' = 1, 'b' = 2), u UUID, x FixedString(4))
    ENGINE = MergeTree ORDER BY k"""
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MICROS = int(NOON.timestamp()) * 1_000_000

AnyServer = EmbeddedWarehouse | ClickHouseServer


@pytest.fixture(scope="module", params=[EmbeddedWarehouse, ClickHouseServer])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyServer]:
    one = request.param(tmp_path_factory.mktemp("warehouse"))
    one.start()
    yield one
    assert one.stop() == 0


@pytest.fixture
def warehouse(server: AnyServer) -> Iterator[Warehouse]:
    one = open_warehouse(server.url)
    yield one
    one.close()


@pytest.fixture
def table(server: AnyServer, warehouse: Warehouse, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname
    window = " SETTINGS non_replicated_deduplication_window = 100" if server.takes_tokens else ""
    warehouse.execute(f"DROP TABLE IF EXISTS {name}")
    warehouse.execute(f"CREATE TABLE {name} {COLUMNS}{window}")
    return name


def count(warehouse: Warehouse, table: str) -> int:
    return warehouse.rows(f"SELECT count() FROM {table}")[0][0]


def test_values_come_back_as_they_went(warehouse: Warehouse, table: str) -> None:
    columns = {
        "k": [0, 1, 2**64 - 1],
        "i": [-(2**63), 0, 2**63 - 1],
        "f": [math.inf, -0.0, 1e-300],
        "s": ["", "NUL \0, emoji 😀, quotes '\"\\`, line\nend", "naïve"],
        "n": [None, -(2**31), 2**31 - 1],
        "d": [date(1970, 1, 1), date(2026, 3, 1), date(2100, 1, 1)],
        "t": [datetime(1970, 1, 1, tzinfo=UTC), NOON, datetime(2106, 2, 7, tzinfo=UTC)],
        "a": [[], ["", "x"], ["\0", "😀", "'"]],
        "e": ["a", "b", "a"],
        "u": [UUID(int=0), UUID(int=2**127 + 5), UUID(int=2**128 - 1)],
        "x": ["abcd", "zzzz", "1234"],
    }
    warehouse.insert(table, columns, "1")
    rows = warehouse.rows(f"SELECT * FROM {table} ORDER BY k")
    assert rows == list(zip(*columns.values(), strict=True))
    assert [row[6].tzinfo for row in rows] == [UTC] * 3


def test_what_is_not_utf_8_comes_back_as_bytes(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"k": [1, 2], "s": [b"\xff\0\x80", "text"]}, "1")
    assert warehouse.rows(f"SELECT s FROM {table} ORDER BY k") == [(b"\xff\0\x80",), ("text",)]


def test_a_column_name_that_is_no_text_is_an_error(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError, match="name it with AS"):
        warehouse.rows(r"SELECT '\xff'")
    assert warehouse.rows(r"SELECT '\xff' AS x") == [(b"\xff",)]
    assert warehouse.rows("SELECT {x:String}", {"x": b"\xff"}) == [(b"\xff",)]


def test_nan_stays_nan(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"f": [math.nan]}, "1")
    ((value,),) = warehouse.rows(f"SELECT f FROM {table}")
    assert math.isnan(value)


def test_missing_columns_take_their_defaults(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"k": [7]}, "1")
    assert warehouse.rows(f"SELECT i, s, n, a FROM {table}") == [(0, "", None, [])]


def test_columns_may_be_arrays_of_numpy_and_arrow(warehouse: Warehouse, table: str) -> None:
    columns = {
        "k": np.arange(3, dtype=np.int32),
        "f": pa.chunked_array([[0.5], [1.5, 2.5]]),
        "s": pa.array(["x", "y", "z"]).dictionary_encode(),
        "t": np.array([MICROS, MICROS + 1, MICROS + 999_999]),
        "a": pa.array([["p"], [], ["q", "r"]])[0:3],
        "e": ("a", "b", "a"),
    }
    warehouse.insert(table, columns, "1")
    assert warehouse.rows(f"SELECT k, f, s, t, a FROM {table} ORDER BY k") == [
        (0, 0.5, "x", NOON, ["p"]),
        (1, 1.5, "y", NOON, []),
        (2, 2.5, "z", NOON, ["q", "r"]),
    ]


def test_times_of_any_zone_are_stored_as_utc(warehouse: Warehouse, table: str) -> None:
    tokyo = timezone(timedelta(hours=9))
    warehouse.insert(table, {"k": [1], "t": [NOON.astimezone(tokyo)]}, "1")
    assert warehouse.rows(f"SELECT t FROM {table}") == [(NOON,)]
    assert warehouse.rows(f"SELECT toUnixTimestamp(t) FROM {table}") == [(MICROS // 1_000_000,)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("k", -1), ("k", 2**64), ("k", None), ("k", 1.0), ("k", "1"), ("k", True),
        ("i", 2**63), ("n", 2**31), ("n", math.nan), ("f", "1"), ("f", None),
        ("s", None), ("s", 5), ("s", "\ud800"), ("d", date(2200, 1, 1)), ("d", date(1969, 1, 1)),
        ("t", -1), ("t", 2**32 * 1_000_000), ("t", 1.5), ("t", datetime(2026, 3, 1)), ("t", None),
        ("a", None), ("a", [None]), ("a", "text"), ("e", "c"), ("e", None), ("u", "not one"),
        ("x", "12345"), ("nowhere", 1),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named(
    warehouse: Warehouse, table: str, column: str, value: object
) -> None:
    with pytest.raises(InputError, match=rf"{table}.*\b{column}\b"):
        warehouse.insert(table, {column: [value]}, "1")
    assert count(warehouse, table) == 0


def test_columns_of_different_length_are_refused(warehouse: Warehouse, table: str) -> None:
    with pytest.raises(InputError, match="k 2, i 1"):
        warehouse.insert(table, {"k": [1, 2], "i": [1]}, "1")


def test_no_rows_are_no_insert(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"k": []}, "1")
    assert count(warehouse, table) == 0


def test_a_token_is_taken_once(
    server: AnyServer, warehouse: Warehouse, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "planloop.warehouse"):
        for token in ("1", "1", "2"):
            warehouse.insert(table, {"k": [1, 1]}, token)
    if server.takes_tokens:
        assert count(warehouse, table) == 4
        return
    assert count(warehouse, table) == 6
    assert [record.message for record in caplog.records] == [
        f"127.0.0.1:{server.port} knows no insert tokens: a repeated insert is there twice"
    ]


def test_a_block_is_one_part_however_long(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"k": np.arange(1_200_000)}, "1")
    parts = warehouse.rows(
        f"SELECT rows FROM system.parts WHERE table = '{table}' AND active AND level = 0"
    )
    assert parts == [(1_200_000,)]


def test_parameters_mean_the_same(warehouse: Warehouse) -> None:
    params = {
        "text": "'; DROP TABLE x -- \\ \0 😀 {number:UInt8}",
        "number": 255,
        "minus": -5,
        "time": NOON,
        "day": date(2026, 3, 1),
        "list": ["a'b", ""],
        "null": None,
        "half": 0.5,
        "id": UUID(int=7),
    }
    sql = """SELECT {text:String}, {number:UInt8}, {minus:Int64}, {time:DateTime}, {day:Date},
        {list:Array(String)}, {null:Nullable(UInt8)}, {half:Float64}, {id:UUID},
        '{text:String}' /* {text:String} */ -- {text:String}"""
    assert warehouse.rows(sql, params) == [(*params.values(), "{text:String}")]


def test_an_identifier_is_a_parameter_too(warehouse: Warehouse, table: str) -> None:
    sql = "SELECT count() FROM {table:Identifier} WHERE {column:Identifier} = 1"
    assert warehouse.rows(sql, {"table": table, "column": "k"}) == [(0,)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELECT * FROM nowhere", 60), ("SELEC 1", 62), ("SELECT nothing", 47), ("SELECT f(1)", 46)],
)
def test_a_refused_statement_tells_the_code(warehouse: Warehouse, sql: str, code: int) -> None:
    for call in (warehouse.rows, warehouse.execute):
        with pytest.raises(WarehouseError) as caught:
            call(sql)
        assert caught.value.code == code
        assert "Stack trace" not in caught.value.text
        assert str(caught.value) == f"warehouse: Code: {code}. {caught.value.text}"
    assert warehouse.rows("SELECT 1") == [(1,)]


def test_a_failure_midway_is_an_error(warehouse: Warehouse) -> None:
    sql = "SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000"
    with pytest.raises(WarehouseError) as caught:
        warehouse.rows(sql)
    assert caught.value.code == 395


def test_a_query_without_rows_has_none(warehouse: Warehouse, table: str) -> None:
    assert warehouse.rows(f"SELECT * FROM {table}") == []
    assert warehouse.rows("SELECT 1 WHERE 0") == []


def test_raw_is_the_format_asked_for(server: AnyServer, warehouse: Warehouse) -> None:
    if isinstance(server, EmbeddedWarehouse):
        assert warehouse.raw("SELECT 1 AS x", "JSONEachRow") == b'{"x":1}\n'
        return
    with pytest.raises(WarehouseError, match="formatRow"):  # servers have it since 2020
        warehouse.raw("SELECT 1 AS x", "JSONEachRow")


def test_threads_may_share_one(warehouse: Warehouse, table: str) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                warehouse.insert(table, {"k": [number], "i": [turn]}, f"{number}-{turn}")
                assert warehouse.rows(f"SELECT {number}") == [(number,)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert count(warehouse, table) == 60


def test_a_table_that_changed_is_asked_again(warehouse: Warehouse, table: str) -> None:
    warehouse.insert(table, {"k": [1]}, "1")
    warehouse.execute(f"ALTER TABLE {table} ADD COLUMN later String")
    warehouse.insert(table, {"k": [2], "later": ["x"]}, "2")
    assert warehouse.rows(f"SELECT k, later FROM {table} ORDER BY k") == [(1, ""), (2, "x")]


def test_what_was_acknowledged_survives_kill_9(
    server: AnyServer, warehouse: Warehouse, table: str
) -> None:
    for number in range(5):
        warehouse.insert(table, {"k": [number]}, str(number))
    server.kill()
    server.start()
    assert count(warehouse, table) == 5
    warehouse.insert(table, {"k": [5]}, "5")
    assert warehouse.rows(f"SELECT k FROM {table} ORDER BY k") == [(k,) for k in range(6)]


def test_calls_wait_for_a_server_that_comes_back(
    server: AnyServer, warehouse: Warehouse, table: str
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: warehouse.insert(table, {"k": [1]}, "1"),
        lambda: warehouse.rows(f"SELECT count() FROM {table}"),
        lambda: warehouse.execute(f"CREATE TABLE IF NOT EXISTS {table} (k UInt8) ENGINE = Memory"),
    ]
    warehouse.insert(table, {"k": [0]}, "0")
    for call in calls:
        server.kill()
        back = threading.Timer(0.3, server.start)
        back.start()
        call()
        back.join()
    assert count(warehouse, table) == 2


@pytest.mark.parametrize("adapter", ADAPTERS.values())
def test_nobody_there_is_told_in_bounded_time(
    adapter: type[HttpWarehouse] | type[NativeWarehouse],
) -> None:
    warehouse = adapter(f"http://planloop:secret@127.0.0.1:{free_port()}/planloop", patience_s=0.5)
    started = time.monotonic()
    for call in (warehouse.rows, warehouse.execute):
        with pytest.raises(InfrastructureAwayError, match="does not answer") as caught:
            call("SELECT 1")
        assert caught.value.component == "warehouse"
        assert "secret" not in str(caught.value)
    assert time.monotonic() - started < 5


def test_a_wrong_password_is_no_absence(server: AnyServer) -> None:
    warehouse = open_warehouse(server.url.replace("pass", "wrong"))
    with pytest.raises(WarehouseError) as caught:
        warehouse.rows("SELECT 1")
    assert caught.value.code in (193, 516)
    assert "wrong" not in str(caught.value)


def test_logs_hold_no_password(server: AnyServer, tmp_path: Path) -> None:
    assert "pass word" not in server.log()
