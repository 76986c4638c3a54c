"""Migrations on the embedded warehouse: in order, once, and safe to lose the ledger of."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.warehouse import Warehouse, WarehouseError, migrate, open_warehouse
from infra.warehouse.migrations import FOLDER, statements
from schemas.errors import CheckFailedError, InputError
from tests.infra.servers import EmbeddedWarehouse

_numbers = itertools.count()


@pytest.fixture
def warehouse(embedded: EmbeddedWarehouse) -> Iterator[Warehouse]:
    """A database of its own."""
    name = f"migrations_{next(_numbers)}"
    first = open_warehouse(embedded.url)
    first.execute(f"CREATE DATABASE {name}")
    one = open_warehouse(urlsplit(embedded.url)._replace(path=name).geturl())
    yield one
    one.close()
    first.execute(f"DROP DATABASE {name}")
    first.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "0001_first", "CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = Memory;")
    write(
        tmp_path,
        "0002_second",
        "-- adds a column; and a row\nALTER TABLE a ADD COLUMN IF NOT EXISTS y String;\n\n"
        "INSERT INTO a SELECT 1, ';\n'; \n-- the end",
    )
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.sql").write_text(text)


def test_in_order_and_once(warehouse: Warehouse, folder: Path) -> None:
    assert migrate(warehouse, folder) == ["0001_first", "0002_second"]
    assert migrate(warehouse, folder) == []
    assert warehouse.rows("SELECT * FROM a") == [(1, ";\n")]
    write(folder, "0003_third", "ALTER TABLE a ADD COLUMN z UInt8;")
    assert migrate(warehouse, folder) == ["0003_third"]
    ledger = warehouse.rows("SELECT version, name, length(sha256) FROM schema_migrations")
    assert sorted(ledger) == [(1, "first", 64), (2, "second", 64), (3, "third", 64)]


def test_a_file_changed_afterwards_is_found(warehouse: Warehouse, folder: Path) -> None:
    migrate(warehouse, folder)
    write(folder, "0001_first", "CREATE TABLE a (x UInt16) ENGINE = Memory;")
    with pytest.raises(CheckFailedError, match="0001_first"):
        migrate(warehouse, folder)


def test_a_file_that_is_gone_is_found(warehouse: Warehouse, folder: Path) -> None:
    migrate(warehouse, folder)
    (folder / "0002_second.sql").unlink()
    with pytest.raises(CheckFailedError, match="0002_second"):
        migrate(warehouse, folder)


def test_what_broke_off_starts_again(warehouse: Warehouse, folder: Path) -> None:
    make = "CREATE TABLE IF NOT EXISTS b (x UInt8) ENGINE = Memory;\n"
    write(folder, "0003_third", make + "SELECT nothing;")
    with pytest.raises(WarehouseError, match="nothing"):
        migrate(warehouse, folder)
    write(folder, "0003_third", make)
    assert migrate(warehouse, folder) == ["0003_third"]


@pytest.mark.parametrize("name", ["1_first", "0001-first", "first"])
def test_names_are_numbered(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "SELECT 1;")
    with pytest.raises(InputError, match=name):
        migrate(warehouse, tmp_path)


def test_numbers_are_used_once(warehouse: Warehouse, folder: Path) -> None:
    write(folder, "0002_again", "SELECT 1;")
    with pytest.raises(InputError, match="same number"):
        migrate(warehouse, folder)


def test_the_projects_own_survive_a_lost_ledger(warehouse: Warehouse) -> None:
    applied = migrate(warehouse)
    assert applied == sorted(path.stem for path in FOLDER.glob("*.sql"))
    query = "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()"
    before = sorted(warehouse.rows(query))
    warehouse.execute("DROP TABLE schema_migrations")
    assert migrate(warehouse) == applied
    assert sorted(warehouse.rows(query)) == before


def test_a_semicolon_ends_a_statement_unless_quoted_or_in_a_comment() -> None:
    text = "SELECT ';\n';  \n-- a;\nSELECT\n  2 -- c;\n;;\n/* ; */ SELECT `;`\n;\n-- end;\n"
    assert statements(text) == ["SELECT ';\n'", "-- a;\nSELECT\n  2 -- c;", "/* ; */ SELECT `;`"]
