"""A token whose rows a crash took with it is free again."""

import shutil
from pathlib import Path

from infra.warehouse import open_warehouse
from infra.warehouse.tokens import forget_lost_tokens
from tests.infra.servers import EmbeddedWarehouse


def test_the_retry_of_a_block_that_was_noted_but_not_committed_is_taken(tmp_path: Path) -> None:
    server = EmbeddedWarehouse(tmp_path)
    server.start()
    warehouse = open_warehouse(server.url)
    warehouse.execute(
        "CREATE TABLE t (x UInt64) ENGINE = MergeTree ORDER BY x PARTITION BY x % 2 "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    for number in range(6):
        warehouse.insert("t", {"x": [number]}, str(number))
    server.stop()
    # What `kill -9` between the note and the commit leaves: the note without its part.
    (part,) = server.folder.glob("database/store/*/*/1_6_6_0")
    shutil.rmtree(part)
    server.start()
    for number in range(6):
        warehouse.insert("t", {"x": [number]}, str(number))
    assert warehouse.rows("SELECT x FROM t ORDER BY x") == [(number,) for number in range(6)]
    assert "1 insert tokens had lost their rows" in server.log()
    server.stop()


def log_of(database: Path, parts: list[str], lines: list[str]) -> Path:
    table = database / "store" / "abc" / "abcdef"
    for part in parts:
        (table / part).mkdir(parents=True)
    folder = table / "deduplication_logs"
    folder.mkdir(parents=True)
    log = folder / "deduplication_log_1.txt"
    log.write_text("".join(line + "\n" for line in lines))
    return log


def test_merged_mutated_and_dropped_parts_are_told_apart(tmp_path: Path) -> None:
    lines = [
        "1\tall_1_1_0\ta", "1\tall_2_2_0\tb", "1\tall_3_3_0\tc",
        "1\tall_4_4_0\td", "2\tall_4_4_0\td",
        "1\t2026-03_5_5_0\te", "1\tall_6_6_0\tf",
    ]  # fmt: skip
    log = log_of(tmp_path, ["all_1_2_1", "all_3_3_0_7", "2026-03_5_5_0", "detached"], lines)
    assert forget_lost_tokens(tmp_path) == 1
    assert log.read_text().splitlines() == [*lines, "2\tall_6_6_0\tf"]
    assert forget_lost_tokens(tmp_path) == 0


def test_there_may_be_nothing(tmp_path: Path) -> None:
    assert forget_lost_tokens(tmp_path) == 0
    log_of(tmp_path, [], [])
    assert forget_lost_tokens(tmp_path) == 0
