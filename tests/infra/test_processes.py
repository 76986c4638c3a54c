"""Finding and ending the processes of a state directory."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from infra.processes import alive, listens, living, log_tail, start, stop

SLEEPER = "import time; print('awake', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}])"


def run(state: Path, name: str, code: str) -> psutil.Process:
    child = start(state, name, [sys.executable, "-c", code], {})
    deadline = time.monotonic() + 20
    while "awake" not in log_tail(state, name):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return psutil.Process(child.pid)


def test_living_are_the_marked_ones_of_this_directory(tmp_path: Path) -> None:
    here, there = tmp_path / "a", tmp_path / "ab"  # one path is the other's beginning
    here.mkdir()
    there.mkdir()
    log, other = run(here, "log", SLEEPER), run(there, "log", SLEEPER)
    try:
        assert living(here) == {"log": log}
        assert living(there) == {"log": other}
    finally:
        assert stop(log, 5)
        assert stop(other, 5)
    assert living(here) == {}


def test_the_dead_do_not_count_even_before_they_are_reaped(tmp_path: Path) -> None:
    process = run(tmp_path, "log", SLEEPER)
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive(process):
        assert time.monotonic() < deadline
    assert living(tmp_path) == {}


def test_a_part_is_the_oldest_of_its_mark(tmp_path: Path) -> None:
    part = run(tmp_path, "log", PARENT)
    [child] = part.children()
    try:
        assert living(tmp_path) == {"log": part}
        stop(part, 5)
        assert living(tmp_path) == {"log": child}
    finally:
        stop(child, 5)


def test_who_does_not_stop_is_killed(tmp_path: Path) -> None:
    process = run(tmp_path, "log", STUBBORN)
    began = time.monotonic()
    assert not stop(process, 0.3)
    assert time.monotonic() - began < 5
    assert not alive(process)


def test_who_is_held_still_is_ended_too(tmp_path: Path) -> None:
    process = run(tmp_path, "log", SLEEPER)
    process.suspend()
    stop(process, 0.3)
    assert not alive(process)


def test_stopping_the_gone_is_no_error(tmp_path: Path) -> None:
    process = run(tmp_path, "log", SLEEPER)
    stop(process, 5)
    assert stop(process, 5)


def test_listens_is_about_one_process(tmp_path: Path) -> None:
    code = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        f"print('port', s.getsockname()[1]); {SLEEPER}"
    )
    server, other = run(tmp_path, "log", code), run(tmp_path, "other", SLEEPER)
    port = int(log_tail(tmp_path, "log").split()[1])
    try:
        assert listens(server, port)
        assert not listens(other, port)
    finally:
        stop(server, 5)
        stop(other, 5)
    assert not listens(server, port)


def test_a_log_is_private_bounded_and_shown_from_its_end(tmp_path: Path) -> None:
    code = "print('x' * 100, *range(30), sep='\\n', flush=True)"
    for _ in range(2):
        start(tmp_path, "log", [sys.executable, "-c", code], {}).wait()
    log = tmp_path / "logs" / "log.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text().count("x" * 100) == 2
    assert log_tail(tmp_path, "log", lines=3) == "27\n28\n29"
    with log.open("ab") as file:
        file.truncate(17 << 20)
    start(tmp_path, "log", [sys.executable, "-c", code], {}).wait()
    assert log.stat().st_size < 1000
    assert log_tail(tmp_path, "nothing") == ""


def test_nobody_is_an_unmarked_process(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.DEVNULL)
    assert living(tmp_path) == {}
    process.kill()
    process.wait()
