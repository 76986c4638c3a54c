"""The embedded warehouse as any HTTP client sees it."""

import collections
import gzip
import io
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import urllib3

from infra.warehouse import WarehouseError
from infra.warehouse.exchange import decompress, status_of
from infra.warehouse.http import HttpWarehouse
from tests.infra.servers import PASSWORD, EmbeddedWarehouse, free_port

KEYS = {"X-ClickHouse-User": "planloop", "X-ClickHouse-Key": PASSWORD}
_numbers = itertools.count()


@pytest.fixture
def client(embedded: EmbeddedWarehouse) -> Iterator[httpx.Client]:
    url = f"http://127.0.0.1:{embedded.port}"
    with httpx.Client(base_url=url, headers=KEYS, timeout=60, trust_env=False) as one:
        yield one


@pytest.fixture
def table(client: httpx.Client) -> str:
    name = f"rows_{next(_numbers)}"
    columns = "(id UInt64, text String, at DateTime64(6, 'UTC'), half Nullable(Float64))"
    said = client.post(
        "/",
        content=f"CREATE TABLE {name} {columns} ENGINE = MergeTree ORDER BY id "
        "SETTINGS non_replicated_deduplication_window = 100",
    )
    assert said.status_code == 200, said.text
    return name


def test_ping_needs_no_password(client: httpx.Client) -> None:
    said = client.get("/ping", headers={"X-ClickHouse-Key": ""})
    assert (said.status_code, said.text) == (200, "Ok.\n")


@pytest.mark.parametrize(
    ("headers", "auth", "params", "status", "code"),
    [
        (KEYS, None, {}, 200, None),
        ({}, ("planloop", PASSWORD), {}, 200, None),
        ({}, None, {"user": "planloop", "password": PASSWORD}, 200, None),
        ({}, None, {}, 401, "194"),
        (KEYS | {"X-ClickHouse-Key": "wrong"}, None, {}, 403, "516"),
        (KEYS | {"X-ClickHouse-User": "default"}, None, {}, 403, "516"),
        ({}, ("planloop", ""), {}, 403, "516"),
        ({"Authorization": "Basic ///"}, None, {}, 401, "194"),
        ({}, None, {"user": "planloop", "password": PASSWORD + "\0"}, 403, "516"),
    ],
)
def test_who_may_ask(
    embedded: EmbeddedWarehouse,
    headers: dict[str, str],
    auth: tuple[str, str] | None,
    params: dict[str, str],
    status: int,
    code: str | None,
) -> None:
    url = f"http://127.0.0.1:{embedded.port}/"
    said = httpx.post(url, content="SELECT 1", headers=headers, auth=auth, params=params)
    assert said.status_code == status
    assert said.headers.get("X-ClickHouse-Exception-Code") == code
    assert PASSWORD not in said.text


def test_the_query_may_be_in_the_url_the_body_or_both(client: httpx.Client) -> None:
    assert client.get("/", params={"query": "SELECT 1"}).text == "1\n"
    assert client.post("/", content="SELECT 2").text == "2\n"
    assert client.post("/", params={"query": "SELECT 3"}, content=" + 4").text == "7\n"


def test_a_query_in_the_url_may_be_long(embedded: EmbeddedWarehouse) -> None:
    url = f"http://127.0.0.1:{embedded.port}/?query=SELECT+length('{'x' * 200_000}')"
    said = urllib3.request("GET", url, headers=KEYS, retries=False)
    assert said.data == b"200000\n"


def test_get_only_reads(client: httpx.Client, table: str) -> None:
    said = client.get("/", params={"query": f"DROP TABLE {table}"})
    assert (said.status_code, said.headers["X-ClickHouse-Exception-Code"]) == (403, "164")
    assert client.get("/", params={"query": f"EXISTS {table}"}).text == "1\n"


def test_formats_are_chosen_by_the_query_the_header_and_the_url(client: httpx.Client) -> None:
    query = "SELECT 1 AS x"
    params = {"default_format": "JSONEachRow"}
    header = {"X-ClickHouse-Format": "CSVWithNames"}
    told = [
        client.post("/", content=query + " FORMAT TSVWithNames", params=params, headers=header),
        client.post("/", content=query, params=params, headers=header),
        client.post("/", content=query, params=params),
        client.post("/", content=query),
    ]
    assert [said.headers["X-ClickHouse-Format"] for said in told] == [
        "TSVWithNames",
        "CSVWithNames",
        "JSONEachRow",
        "TabSeparated",
    ]
    assert [said.text for said in told] == ["x\n1\n", '"x"\n1\n', '{"x":1}\n', "1\n"]
    assert told[1].headers["Content-Type"] == "text/csv; charset=UTF-8; header=present"


def test_the_headers_that_clients_read(client: httpx.Client, table: str) -> None:
    said = client.post("/", content="SELECT number FROM numbers(10)", params={"query_id": "mine"})
    assert said.headers["X-ClickHouse-Query-Id"] == "mine"
    assert said.headers["X-ClickHouse-Timezone"] == "UTC"
    assert said.headers["X-ClickHouse-Server-Display-Name"] == "planloop"
    assert json.loads(said.headers["X-ClickHouse-Summary"])["result_rows"] == "10"
    said = client.post("/", content=f"INSERT INTO {table} (id) FORMAT TSV\n1\n2\n")
    assert json.loads(said.headers["X-ClickHouse-Summary"])["written_rows"] == "2"


def test_parameters_are_the_engines(client: httpx.Client) -> None:
    query = "SELECT {a:UInt8} + 1, {b:String}, {c:Array(String)} FORMAT JSONCompactEachRow"
    params = {"param_a": "4", "param_b": "it's\\t😀", "param_c": "['x','y']"}
    said = client.post("/", content=query, params=params)
    assert said.json() == [5, "it's\t😀", ["x", "y"]]
    assert client.post("/", content="SELECT {a:UInt8}").status_code == 400


def test_settings_are_taken_and_checked(client: httpx.Client) -> None:
    query = "SELECT getSetting('max_threads')"
    assert client.post("/", content=query, params={"max_threads": "3"}).text == "3\n"
    said = client.post("/", content=query, params={"no_such_setting": "3"})
    assert (said.status_code, said.headers["X-ClickHouse-Exception-Code"]) == (404, "115")
    assert client.post("/", content=query, params={"wait_end_of_query": "1"}).status_code == 200


def test_readonly_is_kept(client: httpx.Client, table: str) -> None:
    said = client.post("/", content=f"DROP TABLE {table}", params={"readonly": "1"})
    assert said.headers["X-ClickHouse-Exception-Code"] == "164"


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("SELECT * FROM nowhere", 404, 60),
        ("SELEC 1", 400, 62),
        ("", 400, 62),
        ("-- nothing", 400, 62),
        ("SELECT 1; SELECT 2", 400, 62),
        ("SELECT unknown", 404, 47),
        ("SELECT throwIf(1)", 500, 395),
        ("SELECT toUInt8('x')", 400, 6),
        ("SELECT count() FROM system.numbers SETTINGS max_execution_time = 0.1", 408, 159),
        ("SELECT 1 FORMAT Nonsense", 404, 73),
    ],
)
def test_errors_have_status_code_and_text(
    client: httpx.Client, query: str, status: int, code: int
) -> None:
    said = client.post("/", content=query)
    assert said.status_code == status, said.text
    assert said.headers["X-ClickHouse-Exception-Code"] == str(code)
    assert said.text.startswith(f"Code: {code}. DB::Exception: ")
    assert "(version " in said.text


def test_a_database_is_chosen_by_url_and_header(client: httpx.Client) -> None:
    query = "SELECT currentDatabase()"
    assert client.post("/", content=query).text == "planloop\n"
    assert client.post("/", content=query, params={"database": "default"}).text == "planloop\n"
    assert client.post("/", content=query, params={"database": "system"}).text == "system\n"
    header = {"X-ClickHouse-Database": "system"}
    assert client.post("/", content=query, headers=header).text == "system\n"
    said = client.post("/", content=query, params={"database": "nowhere"})
    assert (said.status_code, said.headers["X-ClickHouse-Exception-Code"]) == (404, "81")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "CREATE TABLE x (a String) ENGINE = File(CSV, '/etc/passwd')",
        "SELECT file('/etc/passwd')",
        "SELECT `file`('/etc/passwd')",
        "SELECT 1 INTO OUTFILE '/tmp/planloop-outfile'",
        "CREATE TABLE y ENGINE = Memory AS SELECT file('/etc/passwd')",
        "CREATE USER x",
        "SYSTEM SHUTDOWN",
    ],
)
def test_files_urls_and_users_are_out_of_reach(client: httpx.Client, query: str) -> None:
    said = client.post("/", content=query)
    assert said.status_code in (403, 501), said.text
    assert "root:" not in said.text
    assert not Path("/tmp/planloop-outfile").exists()


ROWS = [(1, "NUL \0 emoji 😀 \t\n'\"\\", 1_700_000_000_123_456, None), (2, "", 0, 0.5)]


def _arrow(write: str) -> bytes:
    columns = list(zip(*ROWS, strict=True))
    data = pa.table(
        {
            "id": pa.array(columns[0], pa.uint64()),
            "text": columns[1],
            "at": pa.array(columns[2], pa.timestamp("us", "UTC")),
            "half": columns[3],
        }
    )
    sink = io.BytesIO()
    if write == "Parquet":
        pq.write_table(data, sink)
    else:
        with pa.ipc.new_stream(sink, data.schema) as stream:
            stream.write_table(data)
    return sink.getvalue()


@pytest.mark.parametrize(
    "format", ["Native", "RowBinary", "ArrowStream", "Parquet", "JSONEachRow", "TSV", "CSV"]
)
@pytest.mark.parametrize("where", ["url", "body"])
def test_inserts_of_every_format(client: httpx.Client, table: str, format: str, where: str) -> None:
    if format in ("ArrowStream", "Parquet"):
        data = _arrow(format)
    else:
        source = f"source_{next(_numbers)}"
        client.post("/", content=f"CREATE TABLE {source} AS {table}")
        client.post(
            "/", content=f"INSERT INTO {source} FORMAT ArrowStream\n".encode() + _arrow("A")
        )
        data = client.post("/", content=f"SELECT * FROM {source} FORMAT {format}").content
    insert = f"INSERT INTO {table} FORMAT {format}"
    if where == "url":
        said = client.post("/", params={"query": insert}, content=data)
    else:
        said = client.post("/", content=insert.encode() + b"\n" + data)
    assert said.status_code == 200, said.text
    rows = client.post(
        "/",
        content=f"SELECT id, text, toUnixTimestamp64Micro(at), half FROM {table} ORDER BY id",
        params={"default_format": "JSONCompactEachRow"},
    )
    assert [tuple(json.loads(line)) for line in rows.text.splitlines()] == ROWS


def test_values_and_select_are_inserted_too(client: httpx.Client, table: str) -> None:
    for insert in (
        f"INSERT INTO {table} (id, text) VALUES (1, 'FORMAT x'), (2, 'b;')",
        f"INSERT INTO {table} (id, text) SELECT 3, 'c'",
        f"/* first */ insert into {table} (id) -- FORMAT TSV\n values ({{x:UInt64}})",
    ):
        assert client.post("/", content=insert, params={"param_x": "9"}).text == ""
    assert client.post("/", content=f"SELECT sum(id), count() FROM {table}").text == "15\t4\n"


def test_broken_data_is_refused_whole(client: httpx.Client, table: str) -> None:
    for format, data in (
        ("JSONEachRow", b'{"id": 1}\n{"id": '),
        ("CSV", b"1,a\n"),
        ("Native", b"\x01\x01\x02id\x06UInt64\x01"),
        ("ArrowStream", _arrow("A")[:-200]),
        ("Parquet", b"PAR1 nothing"),
    ):
        query = {"query": f"INSERT INTO {table} FORMAT {format}"}
        said = client.post("/", params=query, content=data)
        assert said.status_code >= 400, format
        assert said.text.startswith("Code: "), said.text
    assert client.post("/", content=f"SELECT count() FROM {table}").text == "0\n"


def test_a_token_is_taken_once(client: httpx.Client, table: str) -> None:
    query = f"INSERT INTO {table} (id) FORMAT TSV\n1\n"
    for token in ("a", "a", "b"):
        params = {"insert_deduplication_token": token}
        assert client.post("/", content=query, params=params).status_code == 200
    assert client.post("/", content=f"SELECT count() FROM {table}").text == "2\n"


def test_a_view_behind_a_table_counts_a_repeated_insert_once(
    client: httpx.Client, table: str
) -> None:
    for statement in (
        f"CREATE TABLE {table}_sum (n UInt64) ENGINE = MergeTree ORDER BY n "
        "SETTINGS non_replicated_deduplication_window = 100",
        f"CREATE MATERIALIZED VIEW {table}_view TO {table}_sum AS SELECT count() AS n FROM {table}",
    ):
        assert client.post("/", content=statement).status_code == 200
    for _ in range(3):
        client.post(
            "/",
            content=f"INSERT INTO {table} (id) FORMAT TSV\n1\n2\n",
            params={"insert_deduplication_token": "same"},
        )
    assert client.post("/", content=f"SELECT sum(n) FROM {table}_sum").text == "2\n"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "lz4", "br"])
def test_bodies_may_be_compressed(client: httpx.Client, table: str, encoding: str) -> None:
    plain = f"INSERT INTO {table} (id) FORMAT TSV\n".encode() + b"1\n" * 1000
    if encoding == "deflate":
        body = zlib.compress(plain)
    elif encoding == "gzip":  # two members, as appending writers leave them
        body = gzip.compress(plain[:100]) + gzip.compress(plain[100:])
    else:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, {"br": "brotli"}.get(encoding, encoding)) as stream:
            stream.write(plain)
        body = sink.getvalue().to_pybytes()
    said = client.post("/", content=body, headers={"Content-Encoding": encoding})
    assert said.status_code == 200, said.text
    assert client.post("/", content=f"SELECT count() FROM {table}").text == "1000\n"


def test_a_body_that_is_not_what_its_encoding_says(client: httpx.Client) -> None:
    said = client.post("/", content=b"SELECT 1", headers={"Content-Encoding": "gzip"})
    assert said.status_code == 400
    said = client.post("/", content=b"SELECT 1", headers={"Content-Encoding": "compress"})
    assert said.status_code == 501


@pytest.mark.parametrize("rows", [10, 1_000_000])
def test_answers_are_compressed_when_asked(client: httpx.Client, rows: int) -> None:
    query = f"SELECT number FROM numbers({rows})"
    header = {"Accept-Encoding": "gzip;q=1.0, identity"}
    plain = client.post("/", content=query, headers=header)
    assert "Content-Encoding" not in plain.headers
    packed = client.post(
        "/", content=query, headers=header, params={"enable_http_compression": "1"}
    )
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.content == plain.content  # httpx unpacks


def test_a_dashboard_gets_json(client: httpx.Client, table: str) -> None:
    client.post("/", content=f"INSERT INTO {table} VALUES (18446744073709551615, 'a', 1, 0.5)")
    said = client.post(
        "/",
        params={
            "database": "planloop",
            "add_http_cors_header": "1",
            "default_format": "JSON",
            "max_execution_time": "30",
            "output_format_json_quote_64bit_integers": "1",
        },
        content=f"SELECT id, text FROM {table} FORMAT JSON",
        headers={"Origin": "http://grafana.local", "Content-Type": "text/plain"},
    )
    assert said.headers["Access-Control-Allow-Origin"] == "*"
    assert said.headers["Content-Type"] == "application/json; charset=UTF-8"
    assert said.json()["data"] == [{"id": "18446744073709551615", "text": "a"}]
    assert said.json()["meta"] == [
        {"name": "id", "type": "UInt64"},
        {"name": "text", "type": "String"},
    ]
    before = client.request("OPTIONS", "/", headers={"Origin": "http://grafana.local"})
    assert before.status_code == 204


def test_sessions_keep_what_they_set_and_nothing_of_a_request(
    client: httpx.Client, table: str
) -> None:
    mine = {"session_id": f"s{next(_numbers)}"}
    client.post("/", content="CREATE TEMPORARY TABLE kept (a UInt8)", params=mine)
    assert client.post("/", content="SELECT count() FROM kept", params=mine).text == "0\n"
    assert client.post("/", content="SELECT count() FROM kept").status_code == 404
    for _ in range(2):
        once = mine | {"insert_deduplication_token": "t"}
        client.post("/", content=f"INSERT INTO {table} (id) FORMAT TSV\n1\n", params=once)
    client.post("/", content=f"INSERT INTO {table} (id) FORMAT TSV\n2\n", params=mine)
    client.post("/", content=f"INSERT INTO {table} (id) FORMAT TSV\n3\n", params=mine)
    assert client.post("/", content=f"SELECT sum(id) FROM {table}").text == "6\n"
    said = client.post("/", content="SELECT 1", params={"session_id": "x", "session_check": "1"})
    assert said.headers["X-ClickHouse-Exception-Code"] == "372"


def test_a_session_serves_one_at_a_time_and_ends(client: httpx.Client) -> None:
    mine = {"session_id": f"s{next(_numbers)}", "session_timeout": "1"}
    slow = threading.Thread(
        target=client.post, args=("/",), kwargs={"content": "SELECT sleep(1)", "params": mine}
    )
    slow.start()
    time.sleep(0.3)
    said = client.post("/", content="SELECT 1", params=mine)
    assert said.headers["X-ClickHouse-Exception-Code"] == "373"
    slow.join()
    check = mine | {"session_check": "1"}
    assert client.post("/", content="SELECT 1", params=check).text == "1\n"
    time.sleep(1.2)
    assert client.post("/", content="SELECT 1", params=check).status_code == 404


def test_large_answers_flow_while_others_are_served(client: httpx.Client) -> None:
    query = "SELECT number, toString(number) FROM numbers(20000000)"
    started = time.monotonic()
    with client.stream("POST", "/", content=query) as large:
        chunks = large.iter_raw(1 << 20)
        next(chunks)
        # The reader stands still, and the engine still answers and inserts.
        assert client.post("/", content="SELECT 1").text == "1\n"
        assert client.get("/ping").text == "Ok.\n"
        size = sum(map(len, chunks))
    assert size > 300_000_000
    assert time.monotonic() - started < 60


def test_a_reader_that_leaves_is_let_go(client: httpx.Client) -> None:
    for _ in range(20):  # more than there are threads
        with client.stream("POST", "/", content="SELECT number FROM system.numbers") as endless:
            next(endless.iter_raw(1 << 20))
    deadline = time.monotonic() + 20
    query = "SELECT count() FROM system.processes WHERE query LIKE '%system.numbers%'"
    while client.post("/", content=query).text != "1\n":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_failure_midway_is_marked_and_left_without_end(client: httpx.Client) -> None:
    query = "SELECT throwIf(number = 3000000) FROM system.numbers"
    with client.stream("POST", "/", content=query) as broken:
        tag = broken.headers["X-ClickHouse-Exception-Tag"]
        last = collections.deque(maxlen=2)
        with pytest.raises(httpx.RemoteProtocolError):
            last.extend(broken.iter_raw())
    told = b"".join(last).decode().split(f"\r\n__exception__\r\n{tag}\r\n")[1]
    assert told.startswith("Code: 395. DB::Exception: ")
    assert told.endswith(f"{tag}\r\n__exception__\r\n")


def test_what_is_not_done_is_said(client: httpx.Client) -> None:
    assert client.post("/", content=b"x", params={"decompress": "1"}).status_code == 501
    said = client.post("/", params={"query": "SELECT 1"}, files={"t": b"1\n"})
    assert said.status_code == 501
    assert client.post("/elsewhere", content="SELECT 1").status_code == 404


def test_a_body_too_large_is_refused_before_it_is_sent(embedded: EmbeddedWarehouse) -> None:
    with socket.create_connection(("127.0.0.1", embedded.port), 10) as client:
        client.sendall(
            b"POST /?user=planloop&password=pass+word%27s HTTP/1.1\r\nHost: x\r\n"
            b"Content-Length: 999999999999\r\n\r\n"
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_too_large_once_unpacked_is_refused() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    assert len(decompress(bomb, "gzip", 10_000_000)) == 10_000_000
    with pytest.raises(WarehouseError) as caught:
        decompress(bomb, "gzip", 9_999_999)
    assert status_of(caught.value) == 413


@pytest.mark.parametrize(
    "params",
    [{"query_id": "a\r\nX-Evil: 1"}, {"query_id": "ü😀"}, {"default_format": "CSV\n"},
     {"session_id": "x", "session_timeout": "soon"}, {"session_id": "x", "session_timeout": "1e9"}],
)  # fmt: skip
def test_nothing_from_the_url_breaks_a_header(client: httpx.Client, params: dict[str, str]) -> None:
    said = client.post("/", content="SELECT 1", params=params)
    assert said.status_code in (200, 400, 404)
    assert "X-Evil" not in said.headers


def test_only_loopback_without_a_password(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.warehouse.server", "--path", str(tmp_path / "x")]
    environment = {k: v for k, v in os.environ.items() if k != "PLANLOOP_WAREHOUSE_PASSWORD"}
    ended = subprocess.run(
        [*command, "--port", str(free_port()), "--host", "0.0.0.0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "PLANLOOP_WAREHOUSE_PASSWORD" in ended.stderr


def test_a_folder_has_one_owner(embedded: EmbeddedWarehouse) -> None:
    second = subprocess.run(
        embedded.command(),
        env={**os.environ, **embedded.environment()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1
    assert "does another process hold" in second.stderr


def test_the_password_is_nowhere_to_be_seen(embedded: EmbeddedWarehouse) -> None:
    url = f"http://127.0.0.1:{embedded.port}/"
    params = {"user": "planloop", "password": PASSWORD}
    query = "SELECT throwIf(number = 3000000) FROM system.numbers"
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(url, content=query, params=params)
    assert "pass word" not in embedded.log()
    assert "pass%20word" not in embedded.log()


def test_sigterm_finishes_what_runs(tmp_path: Path) -> None:
    server = EmbeddedWarehouse(tmp_path)
    server.start()
    said: list[str] = []
    query = threading.Thread(
        target=lambda: said.append(
            httpx.post(
                f"http://127.0.0.1:{server.port}/", content="SELECT sleep(1)", headers=KEYS
            ).text
        )
    )
    query.start()
    time.sleep(0.4)
    assert server.stop() == 0
    query.join()
    assert said == ["0\n"]


@pytest.mark.slow
def test_kill_9_neither_loses_nor_repeats_a_block(tmp_path: Path) -> None:
    """Killed within inserts, at seeded moments: every block is there once."""
    server = EmbeddedWarehouse(tmp_path)
    server.start()
    warehouse = HttpWarehouse(server.url, patience_s=60)
    warehouse.execute(
        "CREATE TABLE t (block UInt64, text String) ENGINE = MergeTree ORDER BY block "
        "SETTINGS non_replicated_deduplication_window = 1000"
    )
    random_moment = random.Random(5)
    blocks = 0
    for _ in range(20):
        done = threading.Event()

        def insert(done: threading.Event = done) -> None:
            nonlocal blocks
            while not done.is_set():
                warehouse.insert(
                    "t", {"block": [blocks] * 500, "text": ["x" * 50] * 500}, str(blocks)
                )
                blocks += 1

        writer = threading.Thread(target=insert)
        writer.start()
        time.sleep(random_moment.uniform(0.05, 0.1))
        server.kill()
        done.set()
        server.start()
        writer.join()
    rows = warehouse.rows("SELECT block, count() FROM t GROUP BY block ORDER BY block")
    assert rows == [(block, 500) for block in range(blocks)]
    server.stop()
