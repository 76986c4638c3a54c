"""Contenders in turns: each run is a process of its own, results are compared before rates."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.stopwatch import Measured, Task, command, parse

Result = tuple[str, int, int]
"""(group_id, regime, successes)."""

REPOSITORY = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Contender:
    """A program under `name`. `prepare` makes ready for a run, `results` reads what the run wrote;
    None: it reports its results itself. `expected` None: the run gives no results."""

    name: str
    module: str
    task: Task
    expected: frozenset[Result] | None
    python: Path = Path(sys.executable)
    prepare: Callable[[], None] | None = None
    results: Callable[[], Iterable[Result]] | None = None


class WrongResultsError(Exception):
    """A contender did other work than the rest: its time means nothing."""


def race(contenders: Sequence[Contender], rounds: int) -> dict[str, list[Measured]]:
    """All runs of each contender. WrongResultsError if one does not give what it should."""
    runs: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            runs[contender.name].append(_run(contender))
    return runs


def _run(contender: Contender) -> Measured:
    if contender.prepare:
        contender.prepare()
    done = subprocess.run(
        [str(contender.python), *command(contender.module, contender.task)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{contender.name} failed: {done.stderr[-4000:]}")
    measured = parse(done.stdout.splitlines()[-1])
    if contender.expected is not None:
        given = list(contender.results() if contender.results else measured.results)
        if len(given) != len(contender.expected) or set(given) != contender.expected:
            missing = len(contender.expected - set(given))
            raise WrongResultsError(
                f"{contender.name} gave {len(given)} groups; {missing} of "
                f"{len(contender.expected)} expected ones are not among them"
            )
    return measured


def rates(contender: Contender, runs: Sequence[Measured]) -> Figure:
    """Events a second of a contender's runs; its bound is Python where that ran most of the time,
    else whatever it waited for: the broker, an object store, or a processor."""
    events = contender.task.events
    python = statistics.median(run.python / run.wall for run in runs)
    return Figure.of(
        contender.name,
        [events / run.wall for run in runs],
        "events/s",
        f"Python, {python:.0%}" if python > 0.5 else f"waiting, {1 - python:.0%}",
        cpu=[events / run.cpu for run in runs],
    )


def ratio(
    contender: Contender, base: Contender, runs: Mapping[str, Sequence[Measured]], target: float
) -> Figure:
    """The contender's rate over that of `base`, by pairs of runs of one round."""
    pairs = list(zip(runs[contender.name], runs[base.name], strict=True))
    events, of_base = contender.task.events, base.task.events
    return Figure.of(
        f"{contender.name} / {base.name}",
        [events / mine.wall / (of_base / theirs.wall) for mine, theirs in pairs],
        "ratio",
        cpu=[events / mine.cpu / (of_base / theirs.cpu) for mine, theirs in pairs],
        target=target,
    )
