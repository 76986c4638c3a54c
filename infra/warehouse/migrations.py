"""Numbered .sql files, applied in order, once each.

A file is `NNNN_name.sql`: statements that end with `;`, comments between them. What was
applied is in `schema_migrations` with the file's digest, so a file that was changed afterwards is
found. Statements are written to be harmless when run again (`IF NOT EXISTS`, `OR REPLACE`): a
migration that was broken off, or whose ledger was lost, starts again at its first statement.
"""

import hashlib
import re
from pathlib import Path

from infra.warehouse.protocol import Warehouse
from infra.warehouse.statement import tokens
from schemas.errors import CheckFailedError, InputError

FOLDER = Path(__file__).parent.parent / "migrations"
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations
(version UInt32, name String, sha256 String, applied_at DateTime('UTC'))
ENGINE = ReplacingMergeTree(applied_at) ORDER BY version
"""


def migrate(warehouse: Warehouse, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing; the names of the files applied now.

    Raises CheckFailedError for a file that differs from what was applied or is gone, InputError for
    a file name or number that is not in order.
    """
    files = _numbered(folder)
    warehouse.execute(_LEDGER)
    applied = {
        version: (name, digest)
        for version, name, digest in warehouse.rows(
            "SELECT version, argMax(name, applied_at), argMax(sha256, applied_at) "
            "FROM schema_migrations GROUP BY version"
        )
    }
    for version, (name, _) in applied.items():
        if version not in files:
            raise CheckFailedError(
                f"warehouse: migration {version:04}_{name} was applied and is not in {folder}",
                "run the release that brought it",
            )
    fresh: list[str] = []
    for version, path in files.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if version in applied:
            _check_same(path, digest, applied[version][1])
            continue
        for statement in statements(path.read_text()):
            warehouse.execute(statement)
        warehouse.execute(
            "INSERT INTO schema_migrations SELECT "
            "{version:UInt32}, {name:String}, {digest:String}, now()",
            {"version": version, "name": path.stem[5:], "digest": digest},
        )
        fresh.append(path.stem)
    return fresh


def statements(text: str) -> list[str]:
    """The statements of a file, without the `;` that ends each."""
    source = text.encode()
    found: list[str] = []
    start = 0
    empty = True
    for kind, _, end, _ in [*tokens(source), ("end", b"", len(source) + 1, 0)]:
        if kind == "end":
            if not empty:
                found.append(source[start : end - 1].decode().strip())
            start, empty = end, True
        else:
            empty = False
    return found


def _check_same(path: Path, digest: str, applied: str) -> None:
    if digest != applied:
        raise CheckFailedError(
            f"warehouse: {path.name} was changed after it had been applied",
            "put it back and write the change as a migration of its own",
        )


def _numbered(folder: Path) -> dict[int, Path]:
    files: dict[int, Path] = {}
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise InputError(f"{path} is not named NNNN_name.sql")
        version = int(match[1])
        if version in files:
            raise InputError(f"{path} and {files[version]} have the same number")
        files[version] = path
    return files
