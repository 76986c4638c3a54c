"""The embedded stack of a state directory: up, down, and how it is.

`up` writes the layout, leaves a supervisor behind and waits until every part answers. What is
set by hand (a Kafka, an S3 store, a warehouse elsewhere) is not started.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from infra.layout import Layout
from infra.log.topics import ensure_topics
from infra.parts import Part, parts_of
from infra.parts.part import private_folder
from infra.plan import plan
from infra.processes import living, log_path, log_tail, python, start, stop
from infra.settings import Endpoints, Settings
from infra.supervisor import PartRecord, SupervisorRecord
from schemas.errors import InfrastructureAwayError, InputError

READY_S = 90.0
"""How long one part may take to answer."""

_TRIES = 3
"""A part that has died this often without ever answering will not come up by itself."""

OnEvent = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One line of `planloop status`; `detail` is for people: uptime, restarts, what went wrong."""

    name: str
    state: Literal["running", "starting", "restarting", "down"]
    pid: int | None
    port: int | None
    detail: str
    uptime_s: float | None


def up(settings: Settings, on_event: OnEvent | None = None) -> Endpoints:
    """Start what is not running and wait until all of it answers; the topics exist then.

    `on_event` is told (part, what happened). InfrastructureAwayError names the part that did
    not come up and shows the end of its log; nothing is left running then. InputError where
    the settings contradict what the state directory was made for.
    """
    tell = on_event or _tell_nobody
    with _held(settings.state) as state:
        known = Layout.load(state)
        layout = plan(settings, known)
        supervised = "supervisor" in living(state)
        if supervised and layout != known:
            raise InputError(f"{state} runs with other settings", "`planloop down` it first")
        layout.save(state)
        parts = parts_of(state, layout)
        try:
            if parts and not supervised:
                start(state, "supervisor", python("-m", "infra.supervisor", f"--state={state}"), {})
            for part in parts:
                _await(state, part, tell)
        except InfrastructureAwayError:
            _stop_all(state, parts, tell)
            raise
        endpoints = settings.endpoints()
        ensure_topics(endpoints.kafka)
        return endpoints


def down(settings: Settings, on_event: OnEvent | None = None) -> None:
    """Stop everything in the reverse order of its start; what does not stop in time is killed."""
    if not (settings.state / "stack.json").exists():
        return
    with _held(settings.state) as state:
        layout = Layout.load(state)
        if layout is not None:
            _stop_all(state, parts_of(state, layout), on_event or _tell_nobody)


def status(settings: Settings) -> list[PartStatus]:
    """How each embedded part is, in the order of their start; empty where `up` never ran."""
    state = settings.state.resolve()
    layout = Layout.load(state)
    if layout is None:
        return []
    running = living(state)
    records = _records(state, running)
    return [
        _status(
            part,
            running.get(part.name),
            None if records is None else records.get(part.name, PartRecord()),
        )
        for part in parts_of(state, layout)
    ]


def _status(part: Part, process: psutil.Process | None, record: PartRecord | None) -> PartStatus:
    """`record` is None where no supervisor watches."""
    if process is None:
        restarting = record is not None and record.state == "restarting"
        state = "restarting" if restarting else "down"
        return PartStatus(part.name, state, None, part.port, record.detail if record else "", None)
    uptime_s = time.time() - process.create_time()
    if record is None:
        detail = "nobody restarts it: `planloop up` starts a supervisor"
        return PartStatus(part.name, "running", process.pid, part.port, detail, uptime_s)
    state = "starting" if record.state == "waiting" else record.state
    detail = record.detail or (f"restarted {record.restarts} times" if record.restarts else "")
    return PartStatus(part.name, state, process.pid, part.port, detail, uptime_s)


def _records(state: Path, running: dict[str, psutil.Process]) -> dict[str, PartRecord] | None:
    """What the living supervisor wrote; None where there is no supervisor."""
    if "supervisor" not in running:
        return None
    record = SupervisorRecord.load(state)
    return record.parts if record and record.pid == running["supervisor"].pid else {}


def _await(state: Path, part: Part, tell: OnEvent) -> None:
    tell(part.name, "starting")
    deadline = time.monotonic() + READY_S
    before = None
    while True:
        records = _records(state, living(state))
        if records is None:
            tail = log_tail(state, "supervisor")
            raise InfrastructureAwayError("supervisor", f"it ended\n{tail}")
        record = records.get(part.name, PartRecord())
        if record.state == "running" and part.ready():
            tell(part.name, f"ready on port {part.port}")
            return
        before = record.failures if before is None else min(before, record.failures)
        if record.failures - before >= _TRIES or time.monotonic() > deadline:
            why = record.detail or f"no answer on port {part.port} for {READY_S:g} s"
            log = log_path(state, part.name)
            tail = log_tail(state, part.name)
            raise InfrastructureAwayError(part.name, f"did not start ({why})\n{tail}", f"see {log}")
        time.sleep(0.05)


def _stop_all(state: Path, parts: list[Part], tell: OnEvent) -> None:
    """The supervisor first, so that nothing comes back; then the parts; then any straggler."""
    supervisor = living(state).get("supervisor")
    if supervisor is not None:
        stop(supervisor, 5.0)
    running = living(state)
    for part in reversed(parts):
        process = running.get(part.name)
        if process is not None:
            gently = stop(process, part.stop_s)
            tell(part.name, "stopped" if gently else "killed")
    for process in living(state).values():
        stop(process, 1.0)


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """The state directory, absolute, with no other `up` or `down` at work on it."""
    state = private_folder(folder.resolve())
    with (state / "stack.lock").open("w") as lock:
        deadline = time.monotonic() + 2 * READY_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InfrastructureAwayError(
                        "stack", f"another up or down has been at work on {state} for too long"
                    ) from None
                time.sleep(0.1)
        yield state


def _tell_nobody(part: str, event: str) -> None:
    pass
