"""`planloop process`: all workers, to the end of the log or for ever."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime

from infra.log import Producer
from planloop.clock import close_overdue
from planloop.workers import WORKERS, Report, Site, run_worker, warehouse_of
from schemas.errors import PlanloopError
from schemas.events import microseconds

ReportOf = Callable[[str], Report]
"""The report of a worker, by its name."""

CLOCK_INTERVAL_S = 10.0
RESTART_AFTER_S = 1.0


def process_to_end(site: Site, report_of: ReportOf) -> dict[str, str]:
    """Run every worker to the end of the log, and again where overdue groups were closed.

    Returns what each worker says of its (last) run.
    """
    said: dict[str, str] = {}
    while True:
        for name in WORKERS:
            said[name] = run_worker(name, site, until_end=True, report=report_of(name))
        if not tick(site):
            return said


def tick(site: Site) -> int:
    """Close what is overdue by now; how many groups."""
    with warehouse_of(site) as warehouse:
        producer = Producer(site.endpoints.kafka)
        try:
            return close_overdue(warehouse, producer, microseconds(datetime.now(UTC)))
        finally:
            producer.close()


def follow(site: Site, say: Callable[[str], None]) -> None:
    """Keep a process for each worker until SIGINT or SIGTERM; one that ends is started again."""
    command = [sys.executable, "-m", "planloop", "process", "--follow"]
    state = ["--state", str(site.settings.state)]
    children: dict[str, subprocess.Popen[bytes]] = {}
    ended_at: dict[str, float] = {}
    ticked = time.monotonic()
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
            if time.monotonic() - ticked >= CLOCK_INTERVAL_S:
                ticked = time.monotonic()
                try:
                    tick(site)
                except PlanloopError as error:
                    say(str(error))
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
def _asked_to_stop():
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
