"""Keeps the parts of one state directory alive: `python -m infra.supervisor --state DIR`.

It starts what does not run, adopts what does, and starts again what died, on the same port.
While a part is away, what stands on it is held still (SIGSTOP): its clients see it slow, not
wrong. The supervisor does not end the parts: when it is stopped or killed they live on, and the
next one adopts them. `down` is what ends them.
"""

import argparse
import fcntl
import logging
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from infra.layout import Layout, write_private
from infra.parts import Part, parts_of
from infra.processes import alive, listens, living, start
from schemas.errors import PlanloopError

_TICK_S = 0.1
_BACK_OFF_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
_SETTLED_S = 1.0
"""A part that ran this long before it died starts again at once."""

logger = logging.getLogger("planloop.supervisor")

State = Literal["waiting", "starting", "running", "restarting"]


class PartRecord(msgspec.Struct, frozen=True):
    """What the supervisor knows of a part. `since` is in seconds since 1970.

    `failures` counts the deaths and failed starts since it last ran for a while.
    """

    state: State = "waiting"
    since: float = 0.0
    pid: int = 0
    restarts: int = 0
    failures: int = 0
    detail: str = ""


class SupervisorRecord(msgspec.Struct):
    """The content of supervisor.json: written by one supervisor, `pid`, for everyone to read."""

    pid: int
    parts: dict[str, PartRecord]

    @classmethod
    def load(cls, state: Path) -> "SupervisorRecord | None":
        try:
            return msgspec.json.decode((state / "supervisor.json").read_bytes(), type=cls)
        except FileNotFoundError:
            return None

    def save(self, state: Path) -> None:
        write_private(state / "supervisor.json", msgspec.json.encode(self))


class Watch:
    """One part under supervision. `step` moves it on; it waits for nothing but its start."""

    def __init__(self, state: Path, part: Part, adopted: psutil.Process | None) -> None:
        self.part = part
        self.record = PartRecord()
        self._state = state
        self._process = adopted
        self._child: subprocess.Popen[bytes] | None = None
        self._not_before = 0.0
        if adopted is not None:
            self._become("starting", pid=adopted.pid)

    def step(self, *, grounded: bool) -> None:
        """Move on. `grounded` says that what the part stands on is running."""
        process = self._process
        if process is not None and not self._lives():
            how = f"exit status {self._child.returncode}" if self._child else "it is gone"
            self._process = self._child = None
            self._put_off(f"ended: {how}")
        elif not grounded:
            if process is not None and process.status() != psutil.STATUS_STOPPED:
                process.suspend()
                self._become("starting", f"held until {self.part.stands_on} is back")
        elif process is None:
            if time.monotonic() >= self._not_before:
                self._start()
        elif process.status() == psutil.STATUS_STOPPED:
            process.resume()
        elif self.record.state != "running" and self._serves(process):
            self._become("running")

    def _start(self) -> None:
        try:
            command = self.part.command()
            child = start(self._state, self.part.name, command.arguments, command.environment)
            self._process, self._child = psutil.Process(child.pid), child
        except (PlanloopError, OSError, subprocess.SubprocessError, psutil.Error) as error:
            self._put_off(str(error))
            return
        again = self.record.state == "restarting"
        restarts = self.record.restarts + int(again)
        self._become("restarting" if again else "starting", pid=child.pid, restarts=restarts)

    def _serves(self, process: psutil.Process) -> bool:
        return listens(process, self.part.port) and self.part.ready()

    def _lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._process is not None and alive(self._process)

    def _put_off(self, reason: str) -> None:
        ran_s = time.time() - self.record.since if self.record.state == "running" else 0.0
        failures = 0 if ran_s > _SETTLED_S else self.record.failures
        delay_s = _BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]
        self._not_before = time.monotonic() + delay_s
        self._become("restarting", reason, pid=0, failures=failures + 1)

    def _become(self, state: State, detail: str = "", **changes: float) -> None:
        changes = {"since": time.time(), **changes}
        self.record = msgspec.structs.replace(self.record, state=state, detail=detail, **changes)
        logger.info("%s (port %d): %s", self.part.name, self.part.port, self.record)


def supervise(state: Path, stopped: threading.Event) -> None:
    """Start the parts in order and keep them alive until `stopped`."""
    layout = Layout.load(state)
    if layout is None:
        raise SystemExit(f"no stack.json in {state}: `planloop up` makes it")
    running = living(state)
    watches = {
        part.name: Watch(state, part, running.get(part.name)) for part in parts_of(state, layout)
    }
    pid = psutil.Process().pid
    known: dict[str, PartRecord] = {}
    while not stopped.is_set():
        for watch in watches.values():
            base = watches.get(watch.part.stands_on or "")
            with suppress(psutil.NoSuchProcess):  # it died under the step; the next one sees it
                watch.step(grounded=base is None or base.record.state == "running")
        records = {name: watch.record for name, watch in watches.items()}
        if records != known:
            known = dict(records)
            SupervisorRecord(pid, records).save(state)
        stopped.wait(_TICK_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.supervisor", description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    state: Path = parser.parse_args().state.resolve()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with (state / "supervisor.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{state} has a supervisor already") from None
        supervise(state, stopped)


if __name__ == "__main__":
    main()
