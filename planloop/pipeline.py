"""The main job from an imported or generated log: up, import, fold, sink, curate, train."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.log import Producer, end_offsets
from infra.objects import ObjectStore
from infra.settings import Settings
from infra.stack import up
from infra.warehouse import Warehouse
from planloop.process import process_to_end
from planloop.stages import Stages
from planloop.workers import Report, Site, run_worker, warehouse_of
from producers.generator import generate
from producers.importers import FORMATS, recognise
from producers.importers.imported import ImportedLog, ImportReport, import_log
from schemas.topics import CATALOGUE

if TYPE_CHECKING:
    from trainer.learner import Progress
    from trainer.run import TrainReport

GENERATED_SEED, GENERATED_GROUPS, GENERATED_SIZE = 7, 60, 4
"""The small log that `planloop run` makes when it is given none."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What the stages of a run said."""

    imported: ImportReport
    processed: Mapping[str, str]
    trained: "TrainReport"


def read_log(path: Path, format_name: str | None, tenant: str) -> ImportedLog:
    """A result file of a known format; InputError for anything else, with a report."""
    return FORMATS[format_name or recognise(path)](path, tenant=tenant)


def send(log: ImportedLog, site: Site, report: Report) -> ImportReport:
    """Put a log's events onto the log, those that are not there yet."""
    with warehouse_of(site) as warehouse:
        producer = Producer(site.endpoints.kafka)
        try:
            return import_log(
                log,
                producer,
                lambda streams: _next_seqs(warehouse, streams),
                lambda done, total: report(done, f"{done} of {total} groups"),
            )
        finally:
            producer.close()


def _next_seqs(warehouse: Warehouse, streams: Sequence[str]) -> dict[str, int]:
    """How far streams are known, as far as the warehouse has come. What it has not seen yet is
    sent again, which the folds know for what it is."""
    found = warehouse.rows(
        "SELECT stream_id, max(seq) + 1 FROM events"
        " WHERE stream_id IN {streams:Array(String)} GROUP BY stream_id",
        {"streams": list(streams)},
    )
    return dict(found)


def train_once(site: Site, report: Report) -> "TrainReport":
    """Train on what is new on the log."""
    # PyTorch takes seconds to import: only who trains pays for it.
    from trainer.config import TrainConfig
    from trainer.log import KafkaLog
    from trainer.run import train

    def told(progress: "Progress") -> None:
        report(progress.step, progress.said())

    with KafkaLog(site.endpoints.kafka) as log:
        return train(
            log,
            ObjectStore(site.endpoints),
            site.settings.state / "trainer",
            TrainConfig(tenant=site.settings.tenant),
            told,
        )


def run_log(path: Path | None, settings: Settings, stages: Stages) -> tuple[Site, Ran]:
    """The whole job on one log, or on a generated one where `path` is None."""
    report = stages.begin("up")
    site = Site(settings, up(settings, lambda part, what: report(0, f"{part} {what}")))
    stages.end("up", "log, objects, warehouse")

    if path is None:
        log = generate(GENERATED_SEED, GENERATED_GROUPS, GENERATED_SIZE, tenant=settings.tenant)
    else:
        log = read_log(path, None, settings.tenant)
    imported = send(log, site, stages.begin("import", log.groups))
    stages.end("import", f"{imported.new:,} new events, {imported.known:,} known")

    processed = process_with_bars(site, stages)
    trained = train_once(site, stages.begin("train"))
    stages.end("train", said_of(trained))
    if trained.batches or trained.told_again:
        report = stages.begin("publish")
        for name in ("warehouse", "archive"):
            run_worker(name, site, until_end=True, report=report)
        stages.end("publish", "tables and archive hold the new policy")
    return site, Ran(imported, processed, trained)


def process_with_bars(site: Site, stages: Stages) -> dict[str, str]:
    """Every worker to the end of the log, a bar each."""
    total = sum(sum(end_offsets(site.endpoints.kafka, t.name).values()) for t in CATALOGUE)
    said = process_to_end(site, lambda name: stages.begin(name, total))
    for name, words in said.items():
        stages.end(name, words)
    return said


def said_of(report: "TrainReport") -> str:
    """A training run in a few words."""
    if report.nothing_new:
        return "nothing new to train on"
    kinds = ", ".join(f"{batch.kind} on {batch.episodes} episodes" for batch in report.batches)
    aside = report.left_out | report.waiting
    words = "".join(f"; {count} {reason}" for reason, count in sorted(aside.items()))
    return f"{kinds}: {report.policy_version}{words}"
