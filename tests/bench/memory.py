"""Resident memory of the engine over millions of events: it keeps open groups, not history.

The engine runs as a process of its own over a filled topic. Its size is read from outside, how
far it is and what it keeps from its checkpoints.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from planloop.workers import Site
from tests.bench.brokers import Broker, filled, running
from tests.bench.engine import planloop
from tests.bench.figures import Figure, Section
from tests.bench.race import REPOSITORY
from tests.bench.stopwatch import command

EVENTS = 5_000_000
PER_RECORD = 25
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Parts of the log after which memory is looked at."""

_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    """`resident` bytes when `events` had been taken; states of groups, `open` and all `kept`."""

    events: int
    resident: int
    open: int
    kept: int


def run(brokers: Sequence[Broker], rounds: int, scale: float) -> Iterator[Section]:
    """One run on each broker: memory is not a matter of repetitions."""
    for broker in brokers:
        with running(broker) as site:
            samples = watch(site, int(EVENTS * scale))
            total = samples[-1].events
            section = Section(f"memory on {broker}, {total:,} events, {PER_RECORD} a record")
            for share in SHARES:
                sample = min(samples, key=lambda s: abs(s.events - share * total))
                section.figures.append(
                    Figure(
                        f"at {share:.0%}: {sample.events:,} events",
                        sample.resident / 2**20,
                        "MiB",
                        bound=f"{sample.open:,} open groups, {sample.kept:,} kept",
                    )
                )
            yield section


def watch(site: Site, events: int) -> list[Sample]:
    """Samples of an engine that folds so many events, in order."""
    contender = planloop(site, "memory", filled(site, events, PER_RECORD), "groups")
    assert contender.prepare
    contender.prepare()
    folder = site.settings.state / "checkpoints" / contender.task.output
    engine = subprocess.Popen(
        [sys.executable, *command(contender.module, contender.task)],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    samples: list[Sample] = []
    try:
        process = psutil.Process(engine.pid)
        while engine.poll() is None:
            if folder.exists():
                samples.append(_sample(process.memory_info().rss, folder))
            time.sleep(_EVERY_S)
    finally:
        engine.kill()
        engine.wait()
    if engine.returncode != 0:
        raise RuntimeError(f"the engine ended with status {engine.returncode}")
    samples.append(_sample(samples[-1].resident, folder))
    return samples


def _sample(resident: int, folder: Path) -> Sample:
    events = kept = closed = 0
    for path in folder.glob("*.snapshot"):
        _, taken, _, folds = msgspec.msgpack.decode(path.read_bytes())
        events += taken
        for _, states, ended in folds.values():
            kept += len(states)
            closed += len(ended)
    return Sample(events, resident, kept - closed, kept)
