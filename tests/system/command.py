"""The `planloop` command as a user runs it: a process of its own, one state directory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.settings import Endpoints, Settings
from tests.conftest import REPOSITORY, settings_of


class Planloop:
    """Commands on one state directory; `home` puts Apache Kafka in the broker's place."""

    def __init__(self, state: Path, home: Path | None = None) -> None:
        self.state = state
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PLANLOOP_")
        }
        if home is not None:
            self._environment["PLANLOOP_KAFKA_HOME"] = str(home)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "planloop", *arguments, "--state", str(self.state)],
            cwd=REPOSITORY,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """Standard output of a command that ends with `status`."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=600)
        assert process.returncode == status, f"{arguments}: {process.returncode}\n{out}\n{err}"
        return out

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The one JSON document that a command gives."""
        return json.loads(self(*arguments, "--json", status=status))

    def rows(self, query: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("sql", query, "--json").splitlines()]

    @property
    def settings(self) -> Settings:
        return settings_of(self.state)

    @property
    def endpoints(self) -> Endpoints:
        return self.settings.endpoints()


def tables(planloop: Planloop) -> dict[str, tuple[int, str]]:
    """Rows and digest of every table that is a function of the log."""
    from consumers.tables import TABLES
    from consumers.writer import checksum
    from infra.warehouse import open_warehouse

    warehouse = open_warehouse(planloop.endpoints.warehouse_url)
    try:
        found = {table: checksum(warehouse, table) for table in TABLES}
        return {table: (sums.rows, sums.digest) for table, sums in found.items()}
    finally:
        warehouse.close()
