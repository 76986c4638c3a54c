"""What `up` decided for a state directory: ports and secrets, chosen once and kept in stack.json.

The file is the whole agreement between the command line, the supervisor and the parts, readable
by its owner only. A part left out of it (None) runs elsewhere.
"""

import os
import random
import socket
from pathlib import Path
from typing import Literal

import msgspec

from schemas.errors import InfrastructureAwayError, InputError

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 22_700)
"""Below the range from which systems give out source ports, also when 10,000 is added: a part
restarts on its own port, which no outgoing connection may have taken meanwhile."""


class S3Address(msgspec.Struct, frozen=True):
    """A bucket with its keys. `endpoint` is host:port."""

    endpoint: str
    access_key: str
    secret_key: str
    bucket: str
    secure: bool

    def __repr__(self) -> str:
        return f"S3Address({self.endpoint}/{self.bucket})"


class LogLayout(msgspec.Struct, frozen=True):
    """The broker. `store` is where Tansu keeps its log; `home` and `controller` are Kafka's."""

    kind: Literal["tansu", "kafka"]
    port: int
    store: S3Address | None = None
    home: str = ""
    controller: int = 0
    cluster: str = ""

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def __repr__(self) -> str:
        return f"LogLayout({self.kind}, {self.port})"


class ObjectsLayout(msgspec.Struct, frozen=True):
    """SeaweedFS. `port` is S3's, `inner` those of what stands behind it, by name. Each of them
    takes the port 10,000 above as well."""

    port: int
    inner: dict[str, int]
    access_key: str
    secret_key: str
    bucket: str

    @property
    def store(self) -> S3Address:
        address = f"{LOOPBACK}:{self.port}"
        return S3Address(address, self.access_key, self.secret_key, self.bucket, secure=False)

    def __repr__(self) -> str:
        return f"ObjectsLayout({self.port})"


class WarehouseLayout(msgspec.Struct, frozen=True):
    """The process that owns chDB, on ClickHouse's HTTP interface."""

    port: int
    password: str

    @property
    def url(self) -> str:
        return f"http://planloop:{self.password}@{LOOPBACK}:{self.port}/planloop"

    def __repr__(self) -> str:
        return f"WarehouseLayout({self.port})"


class Layout(msgspec.Struct, frozen=True):
    """The embedded parts of one state directory."""

    objects: ObjectsLayout | None
    log: LogLayout | None
    warehouse: WarehouseLayout | None

    @classmethod
    def load(cls, state: Path) -> "Layout | None":
        """The layout of a state directory, None where `up` has never run; InputError if broken."""
        path = state / "stack.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise InputError(f"{path} cannot be read: {error}") from None

    def save(self, state: Path) -> None:
        write_private(state / "stack.json", msgspec.json.format(msgspec.json.encode(self)))


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step, readable by its owner from the first byte on."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    draft.touch(0o600)
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def free_ports(count: int, *, above: int) -> list[int]:
    """Ports of the loopback interface that nothing listens on, all different, each with the
    port that much above it."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        if _is_free(port) and _is_free(port + above):
            found.append(port)
    raise InfrastructureAwayError("stack", f"fewer than {count} free ports in {_PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
