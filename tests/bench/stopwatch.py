"""The clock of a measured process. Standard library only: it also runs in the peers' interpreters.

The task comes as JSON in the first argument, what was measured goes out as the last line of
standard output.
"""

import gc
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """Fold all of `topic`, which holds so many records and events. `output` names
    what the run writes: a peer's topic of scored groups, planloop's checkpoints. `state` is the
    directory of planloop's stack, `mode` a choice of the program."""

    bootstrap: str
    topic: str
    records: int
    events: int
    output: str
    state: str
    mode: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds from start to stop: by the wall, of the process on all its threads (`cpu`), and of
    the thread that runs Python (`python`). `peak` is the largest resident size in bytes."""

    wall: float
    cpu: float
    python: float
    peak: int
    results: list[tuple[str, int, int]]


def task() -> Task:
    return Task(**json.loads(sys.argv[1]))


def parse(line: str) -> Measured:
    """What `Stopwatch.report` printed."""
    given = json.loads(line)
    return Measured(**given | {"results": [(g, r, s) for g, r, s in given["results"]]})


def command(module: str, given: Task) -> list[str]:
    """Arguments of an interpreter that runs `module` on a task."""
    return ["-m", module, json.dumps(asdict(given))]


class Stopwatch:
    """Start and stop in the thread that does the work."""

    def __init__(self) -> None:
        gc.collect()
        self._from = (0.0, 0.0, 0.0)
        self._to = (0.0, 0.0, 0.0)

    def start(self) -> None:
        self._from = _now()

    def stop(self) -> None:
        self._to = _now()

    def report(self, results: list[tuple[str, int, int]] | None = None) -> None:
        """Print what was measured. `results` are (group_id, regime, successes) of a program that
        keeps them to itself."""
        wall, cpu, python = (
            after - before for before, after in zip(self._from, self._to, strict=True)
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        measured = Measured(wall, cpu, python, peak, results or [])
        sys.stdout.write(json.dumps(asdict(measured)) + "\n")
        sys.stdout.flush()


def _now() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), time.thread_time()
