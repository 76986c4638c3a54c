"""`planloop process`: all workers, to the end of the log or for ever."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planloop.workers import WORKERS, Report, Site, run_worker

ReportOf = Callable[[str], Report]
"""The report of a worker, by its name."""

RESTART_AFTER_S = 1.0


def process_to_end(site: Site, report_of: ReportOf) -> dict[str, str]:
    """Run every worker to the end of the log; returns what each says of its run."""
    return {
        name: run_worker(name, site, until_end=True, report=report_of(name)) for name in WORKERS
    }


def follow(site: Site, say: Callable[[str], None]) -> None:
    """Keep a process for each worker until SIGINT or SIGTERM; one that ends is started again."""
    command = [sys.executable, "-m", "planloop", "process", "--follow"]
    state = ["--state", str(site.settings.state)]
    children: dict[str, subprocess.Popen[bytes]] = {}
    ended_at: dict[str, float] = {}
    with _asked_to_stop() as stopping:
        while not stopping():
            for name in WORKERS:
                child = children.get(name)
                if child is not None and child.poll() is None:
                    continue
                if child is not None and name not in ended_at:
                    say(f"{name} ended with status {child.returncode}; starting it again")
                    ended_at[name] = time.monotonic()
                if time.monotonic() - ended_at.get(name, 0.0) >= RESTART_AFTER_S:
                    ended_at.pop(name, None)
                    children[name] = subprocess.Popen([*command, "--worker", name, *state])
            time.sleep(0.2)
        for child in children.values():
            child.terminate()
        for child in children.values():
            child.wait()


def follow_one(name: str, site: Site, report: Report) -> str:
    """One worker until SIGINT or SIGTERM; ends with a checkpoint."""
    with _asked_to_stop() as stopping:
        return run_worker(name, site, until_end=False, report=report, stop=stopping)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether SIGINT or SIGTERM has come."""
    asked = False

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
