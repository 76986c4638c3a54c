"""Warehouses and object stores as processes of a test's own, to be killed at will."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from infra.settings import Endpoints

PASSWORD = "pass word's"
PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server(ABC):
    """A process on a port that stays the same from start to start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def ready(self) -> bool: ...

    def environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment()},
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def answers(self, path: str) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}{path}"
            return urllib3.request("GET", url, retries=False, timeout=1.0).status < 500
        except HTTPError:
            return False


class EmbeddedWarehouse(Server):
    """chDB on ClickHouse's HTTP interface."""

    takes_tokens = True

    @property
    def url(self) -> str:
        return f"http://planloop:pass%20word%27s@127.0.0.1:{self.port}/planloop"

    def command(self) -> list[str]:
        module = "infra.warehouse.server"
        database = str(self.folder / "database")
        return [sys.executable, "-m", module, "--path", database, "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        return {"PLANLOOP_WAREHOUSE_PASSWORD": PASSWORD, "TZ": "Asia/Tokyo"}

    def ready(self) -> bool:
        return self.answers("/ping")


class ClickHouseServer(Server):
    """A ClickHouse server on the native protocol, as old as Debian's 18.16."""

    takes_tokens = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        given = os.environ.get("PLANLOOP_TEST_CLICKHOUSE")
        self._binary = given or shutil.which("clickhouse-server") or ""
        if not self._binary:
            pytest.skip("no clickhouse-server on PATH and PLANLOOP_TEST_CLICKHOUSE is not set")

    @property
    def url(self) -> str:
        return f"clickhouse://planloop:pass%20word%27s@127.0.0.1:{self.port}/default"

    def command(self) -> list[str]:
        configuration = self.folder / "config.xml"
        configuration.write_text(f"""<yandex>
            <logger><level>warning</level><console>1</console></logger>
            <listen_host>127.0.0.1</listen_host>
            <tcp_port>{self.port}</tcp_port>
            <path>{self.folder}/data/</path>
            <tmp_path>{self.folder}/tmp/</tmp_path>
            <timezone>UTC</timezone>
            <mark_cache_size>67108864</mark_cache_size>
            <users_config>{configuration}</users_config>
            <default_profile>default</default_profile>
            <default_database>default</default_database>
            <profiles><default/></profiles>
            <quotas><default/></quotas>
            <users><planloop>
                <password>{PASSWORD}</password>
                <networks><ip>127.0.0.1</ip></networks>
                <profile>default</profile>
                <quota>default</quota>
            </planloop></users>
        </yandex>""")
        return [self._binary, f"--config-file={configuration}"]

    def ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.5).close()
        except OSError:
            return False
        return True


class ObjectServer(Server):
    """SeaweedFS on S3's interface."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._inner = {
            name: free_port()
            for name in (
                "master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc",
                "s3.grpc", "admin", "admin.grpc",
            )
        }  # fmt: skip

    def endpoints(self, bucket: str = "planloop", secret: str = "open sesame") -> Endpoints:
        return Endpoints(
            kafka="",
            s3_endpoint=f"127.0.0.1:{self.port}",
            s3_access_key="planloop",
            s3_secret_key=secret,
            s3_bucket=bucket,
            s3_secure=False,
            warehouse_url="",
        )

    def command(self) -> list[str]:
        identities = self.folder / "s3.json"
        identities.write_text(
            '{"identities": [{"name": "planloop", "credentials": [{"accessKey": "planloop", '
            '"secretKey": "open sesame"}], "actions": ["Admin", "Read", "Write", "List"]}]}'
        )
        ports = [
            f"-{name.removesuffix('.grpc')}.port{'.grpc' * name.endswith('.grpc')}={port}"
            for name, port in self._inner.items()
        ]
        return [
            str(Path(sys.executable).with_name("weed")), "mini", f"-dir={self.folder}",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={self.port}", *ports,
            f"-s3.config={identities}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false",
            "-admin.ui=false", "-master.telemetry=false", "-volume.preStopSeconds=0",
        ]  # fmt: skip

    def ready(self) -> bool:
        return self.answers("/")
