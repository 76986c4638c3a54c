"""Processes of a state directory, found by the mark in their environment.

Each process of a stack is started with PLANLOOP_PART = "<state directory>#<part>". Who lives is
asked of the system, so no file of process ids can be out of date, no reused id can be taken for
one of ours, and a supervisor that was killed in the middle of a start loses nobody.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_MARK = "PLANLOOP_PART"
_LOG_BYTES = 16 << 20


def start(
    state: Path, name: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a marked process in a session of its own, its output in logs/<name>.log."""
    log = log_path(state, name)
    log.parent.mkdir(mode=0o700, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    log.touch(0o600)
    with log.open("ab") as output:
        child = subprocess.Popen(
            arguments,
            env={**os.environ, **environment, _MARK: f"{state}#{name}"},
            cwd=state,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # A process has no environment to read for a moment after it has begun.
    while child.poll() is None and not _mark_of(psutil.Process(child.pid)):
        time.sleep(0.001)
    return child


def living(state: Path) -> dict[str, psutil.Process]:
    """The processes of a state directory by part. Zombies do not count."""
    found: dict[str, psutil.Process] = {}
    for process in psutil.process_iter():
        of_state, separator, name = _mark_of(process).rpartition("#")
        if not separator or of_state != str(state) or not alive(process):
            continue
        # A child of a part carries its mark too; the part is the older one.
        older = found.get(name)
        if older is None or process.create_time() < older.create_time():
            found[name] = process
    return found


def _mark_of(process: psutil.Process) -> str:
    try:
        return process.environ().get(_MARK, "")
    except psutil.Error:
        return ""


def alive(process: psutil.Process) -> bool:
    """Whether this very process (not another of its id) still runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def listens(process: psutil.Process, port: int) -> bool:
    """Whether it is this process that listens on a port."""
    try:
        connections = process.net_connections("tcp")
    except psutil.Error:
        return False
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in connections
    )


def stop(process: psutil.Process, patience_s: float) -> bool:
    """End a process: SIGTERM, then after `patience_s` SIGKILL. Says whether it went by itself."""
    for number, limit_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            return True
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if not alive(process):
                return number == signal.SIGTERM
            time.sleep(0.02)
    return False


def log_path(state: Path, name: str) -> Path:
    return state / "logs" / f"{name}.log"


def log_tail(state: Path, name: str, lines: int = 12) -> str:
    """The last lines of a part's log, empty where it has none."""
    try:
        with log_path(state, name).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def python(*arguments: str) -> list[str]:
    """A command line for this interpreter that imports what is installed, not what lies around."""
    return [sys.executable, "-P", *arguments]
