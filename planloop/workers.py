"""The workers behind `planloop process`: each reads the log and goes on where it stopped.

`folds` assembles trajectories, scores groups and curates; `competence` counts; `warehouse`
fills the tables; `archive` keeps the log as objects. One process owns a worker at a time.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from consumers.archiver import Archiver
from consumers.curation import CurationFold
from consumers.sink import WarehouseSink
from infra.checkpoints import FileCheckpoints
from infra.log import Producer, Reader, partitions_of
from infra.objects import ObjectStore
from infra.settings import Endpoints, Settings
from infra.warehouse import Warehouse, migrate, open_warehouse
from planloop.clock import close_overdue
from schemas.events import microseconds
from schemas.topics import GROUPS, ROLLOUTS, Topic
from streams.competence import CompetenceFold
from streams.engine import LocalEngine, Progress
from streams.fold import Fold
from streams.groups import GroupFold

Report = Callable[[int, str], None]
"""Told how many records or events a worker has taken in this run, and in words what came of it."""

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a worker works: addresses, and the directory of its checkpoints."""

    settings: Settings
    endpoints: Endpoints


def never() -> bool:
    return False


def run_worker(
    name: str, site: Site, *, until_end: bool, report: Report, stop: Stop = never
) -> str:
    """Run one of WORKERS to the end of the log, or until `stop`; says in words what it did.

    Raises InfrastructureAwayError when a part stays away, InputError when another process
    owns the worker; the next run goes on from the last checkpoint in either case.
    """
    return WORKERS[name](site, until_end, report, stop)


def _folds(site: Site, until_end: bool, report: Report, stop: Stop) -> str:
    """Trajectories, groups and curation; closes groups that are overdue at the end of the log."""
    clock = Producer(site.endpoints.kafka)
    folds = [GroupFold(), CurationFold()]
    try:
        with engine(site, "folds", ROLLOUTS, folds) as running:

            def tick() -> int:
                now = microseconds(datetime.now(UTC))
                return close_overdue(running.states(GroupFold.name), clock, now)

            def told(progress: Progress) -> None:
                _tell(report, progress)
                if not until_end and running.at_end:
                    tick()

            while True:
                progress = running.run(until_end=until_end, on_progress=told, stop=stop)
                if not until_end or not tick():
                    return _said(progress)
    finally:
        clock.close()


def _competence(site: Site, until_end: bool, report: Report, stop: Stop) -> str:
    with engine(site, "competence", GROUPS, [CompetenceFold()]) as running:
        return _said(
            running.run(
                until_end=until_end,
                on_progress=lambda progress: _tell(report, progress),
                stop=stop,
            )
        )


def _tell(report: Report, progress: Progress) -> None:
    report(progress.records, f"{progress.derived:,} derived, {progress.refused:,} refused so far")


def _said(progress: Progress) -> str:
    return f"{progress.records:,} records, {progress.derived:,} events derived"


@contextmanager
def engine(
    site: Site, name: str, topic: Topic, folds: Sequence[Fold[Any]]
) -> Iterator[LocalEngine]:
    """The local engine of a worker on the stack; checkpoints under <state>/checkpoints/<name>."""
    log = site.endpoints.kafka
    with ExitStack() as closing:
        closing.enter_context(_rare_collection())
        checkpoints = FileCheckpoints(site.settings.state / "checkpoints" / name)
        closing.callback(checkpoints.close)
        producer = Producer(log)
        closing.callback(producer.close)

        def open_source(positions: Mapping[tuple[str, int], int]) -> Reader:
            reader = Reader(log, positions, group=f"planloop-{name}")
            closing.callback(reader.close)
            return reader

        yield LocalEngine(
            topic,
            folds,
            partitions=partitions_of(log, topic.name),
            open_source=open_source,
            sink=producer,
            objects=ObjectStore(site.endpoints),
            checkpoints=checkpoints,
        )


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Let Python look for cycles less often: folds make none, and searching their states for
    some takes a twentieth of the time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def warehouse_of(site: Site) -> Iterator[Warehouse]:
    """The warehouse with all its tables and views."""
    warehouse = open_warehouse(site.endpoints.warehouse_url)
    try:
        migrate(warehouse)
        yield warehouse
    finally:
        warehouse.close()


def _warehouse(site: Site, until_end: bool, report: Report, stop: Stop) -> str:
    with warehouse_of(site) as warehouse:
        sink = WarehouseSink(site.endpoints.kafka, warehouse, ObjectStore(site.endpoints).put)
        done = sink.run(until_end, lambda so_far: report(so_far.events, ""), stop)
        return f"{done.events:,} events written"


def _archive(site: Site, until_end: bool, report: Report, stop: Stop) -> str:
    archiver = Archiver(site.endpoints.kafka, ObjectStore(site.endpoints))
    done = archiver.run(until_end, lambda so_far: report(so_far.records, ""), stop=stop)
    return f"{done.records:,} records in {done.segments:,} new segments"


WORKERS: dict[str, Callable[[Site, bool, Report, Stop], str]] = {
    "folds": _folds,
    "competence": _competence,
    "warehouse": _warehouse,
    "archive": _archive,
}
"""In the order in which one needs what the other wrote."""
