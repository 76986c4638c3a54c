"""The embedded warehouse: the process that owns chDB."""

from pathlib import Path

import urllib3
from urllib3.exceptions import HTTPError

from infra.layout import LOOPBACK, WarehouseLayout
from infra.parts.part import Command, private_folder
from infra.processes import python


class WarehousePart:
    """`python -m infra.warehouse.server` over a folder of the state directory."""

    name = "warehouse"
    stop_s = 15.0
    stands_on = None

    def __init__(self, state: Path, layout: WarehouseLayout) -> None:
        self.port = layout.port
        self._password = layout.password
        self._folder = state / "warehouse"

    def command(self) -> Command:
        folder = private_folder(self._folder)
        return Command(
            python("-m", "infra.warehouse.server", f"--path={folder}", f"--port={self.port}"),
            {"PLANLOOP_WAREHOUSE_PASSWORD": self._password},
        )

    def ready(self) -> bool:
        url = f"http://{LOOPBACK}:{self.port}/ping"
        try:
            answer = urllib3.request("GET", url, timeout=1.0, retries=False)
        except HTTPError:
            return False
        return answer.data.strip() == b"Ok."
