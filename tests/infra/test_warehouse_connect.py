"""clickhouse-connect, which dashboards and notebooks use, on the embedded warehouse."""

import datetime as dt
import decimal
import itertools
import uuid
from collections.abc import Iterator

import clickhouse_connect
import pyarrow as pa
import pytest
from clickhouse_connect.driver import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.infra.servers import PASSWORD, EmbeddedWarehouse

COLUMNS = """(id UInt64, at DateTime64(6, 'UTC'), maybe Nullable(Float64),
    word LowCardinality(String), tags Array(String), counts Map(String, UInt32),
    level Enum8('low' = 1, 'high' = 2), key UUID, price Decimal(18, 4), flag Bool)
    ENGINE = MergeTree ORDER BY id"""
AT = dt.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
ROWS = [
    [0, AT, None, "a", [], {}, "low", uuid.UUID(int=1), decimal.Decimal("0.0001"), False],
    [
        2**64 - 1, AT.replace(year=2100), 0.5, "NUL \0 😀", ["x", ""], {"k": 1, "l": 2**32 - 1},
        "high", uuid.UUID(int=2**128 - 1), decimal.Decimal("-12345678901234.5678"), True,
    ],
]  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(params=["lz4", "gzip", "zstd", False])
def client(embedded: EmbeddedWarehouse, request: pytest.FixtureRequest) -> Iterator[Client]:
    one = connect(embedded, compress=request.param)
    yield one
    one.close()


def connect(embedded: EmbeddedWarehouse, **options: object) -> Client:
    return clickhouse_connect.get_client(
        host="127.0.0.1",
        port=embedded.port,
        username="planloop",
        password=PASSWORD,
        tz_mode="aware",
        **options,  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture
def table(client: Client) -> str:
    name = f"connect_{next(_numbers)}"
    client.command(f"CREATE TABLE {name} {COLUMNS}")
    return name


def test_rows_go_in_and_come_back(client: Client, table: str) -> None:
    summary = client.insert(table, ROWS)
    assert summary.written_rows == 2
    answer = client.query(f"SELECT * FROM {table} ORDER BY id")
    assert [list(row) for row in answer.result_rows] == ROWS


def test_commands_and_parameters(client: Client) -> None:
    assert client.ping()
    assert str(client.server_version).count(".") == 3
    assert client.command("SELECT 13") == 13
    sql = "SELECT {a:UInt64} + 1, {b:String}, {c:DateTime64(6)}, {d:Array(String)}"
    parameters = {"a": 2**63, "b": "it's \t😀", "c": AT, "d": ["x", "y'"]}
    answer = client.query(sql, parameters=parameters)
    assert answer.result_rows == [(2**63 + 1, "it's \t😀", AT, ["x", "y'"])]


def test_arrow_both_ways(client: Client, table: str) -> None:
    data = pa.table({"id": pa.array(range(10_000), pa.uint64()), "word": ["w"] * 10_000})
    client.insert_arrow(table, data)
    answer = client.query_arrow(f"SELECT id, at FROM {table} ORDER BY id")
    assert answer["id"].to_pylist() == list(range(10_000))
    assert answer.schema.field("at").type == pa.timestamp("us", "UTC")


def test_many_rows_are_streamed(client: Client) -> None:
    query = "SELECT number, toString(number) FROM numbers(1000000)"
    with client.query_row_block_stream(query) as blocks:
        assert sum(len(block) for block in blocks) == 1_000_000


def test_errors_keep_code_and_text(client: Client) -> None:
    with pytest.raises(DatabaseError, match=r"60.*nowhere"):
        client.query("SELECT * FROM nowhere")
    with pytest.raises(DatabaseError, match="Code: 62"):
        client.command("SELEC")
    with (
        pytest.raises(DatabaseError, match=r"395|non-zero"),
        client.query_row_block_stream(
            "SELECT throwIf(number = 3000000) FROM system.numbers"
        ) as blocks,
    ):
        for _ in blocks:
            pass
    assert client.command("SELECT 1") == 1


def test_a_value_that_does_not_fit_is_refused_by_the_client(client: Client, table: str) -> None:
    with pytest.raises(Exception, match="id"):
        client.insert(table, [[-1]], column_names=["id"])
    assert client.command(f"SELECT count() FROM {table}") == 0


def test_raw_formats(client: Client, table: str) -> None:
    client.raw_insert(table, ["id", "word"], b"7,seven\n8,eight\n", fmt="CSV")
    answer = client.raw_query(f"SELECT id, word FROM {table} ORDER BY id", fmt="JSONEachRow")
    assert answer == b'{"id":7,"word":"seven"}\n{"id":8,"word":"eight"}\n'


def test_a_wrong_password_is_refused(embedded: EmbeddedWarehouse) -> None:
    with pytest.raises(DatabaseError, match="516"):
        clickhouse_connect.get_client(
            host="127.0.0.1", port=embedded.port, username="planloop", password="wrong"
        )
