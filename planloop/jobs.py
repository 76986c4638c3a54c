"""Commands that move the loop: run, import, process, train."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from planloop import pipeline
from planloop.options import Json, State, exit_statuses, print_json, say, settings_for
from planloop.process import follow, follow_one
from planloop.stages import Stages
from planloop.summary import show_summary, summary
from planloop.workers import WORKERS, Site, run_worker, warehouse_of
from producers.importers import FORMATS
from schemas.errors import InputError


def run(
    log: Annotated[
        Path | None, typer.Option("--log", help="A log to import; its format is recognised.")
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """The main job: up, import (or make a small log), fold, sink, curate, train, sum up."""
    with exit_statuses(as_json):
        settings = settings_for(state)
        if log is not None:
            _must_exist(log)
        with Stages(hidden=as_json).shown() as stages:
            site, ran = pipeline.run_log(log, settings, stages)
        with warehouse_of(site) as warehouse:
            if as_json:
                document = summary(warehouse)
                document["imported"] = asdict(ran.imported)
                document["processed"] = dict(ran.processed)
                document["trained"] = asdict(ran.trained)
                print_json(document)
            else:
                show_summary(warehouse)
        if not as_json:
            option = "" if state is None else f" --state {state}"
            say(
                f"the stack goes on running: try `planloop verify{option}` or "
                f"`planloop status{option}`, end it with `planloop down{option}`"
            )


def import_(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help=" or ".join(FORMATS))],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...")],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Import other systems' result files. A file that contradicts itself is refused whole."""
    with exit_statuses(as_json):
        if format_name not in FORMATS:
            raise InputError(f"no format {format_name}", f"known: {', '.join(FORMATS)}")
        settings = settings_for(state)
        for path in paths:
            _must_exist(path)
        logs = [(path, pipeline.read_log(path, format_name, settings.tenant)) for path in paths]
        site = Site(settings, settings.endpoints())
        reports = {}
        with Stages(hidden=as_json).shown() as stages:
            for path, log in logs:
                reports[str(path)] = pipeline.send(log, site, stages.begin(path.name, log.groups))
                stages.end(path.name, f"{reports[str(path)].new:,} new events")
        if as_json:
            print_json({path: asdict(report) for path, report in reports.items()})
        else:
            for path, report in reports.items():
                say(
                    f"{path}: {report.groups} groups, {report.episodes} episodes, "
                    f"{report.new:,} new events, {report.known:,} known"
                )


def process(
    following: Annotated[
        bool, typer.Option("--follow", help="Go on for ever instead of to the end of the log.")
    ] = False,
    worker: Annotated[str | None, typer.Option(help=f"Only one of {', '.join(WORKERS)}.")] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Folds, curation, warehouse and archive, up to the end of the log."""
    with exit_statuses(as_json):
        if worker is not None and worker not in WORKERS:
            raise InputError(f"no worker {worker}", f"known: {', '.join(WORKERS)}")
        settings = settings_for(state)
        site = Site(settings, settings.endpoints())
        if following and worker is None:
            follow(site, lambda words: say(words))
            return
        if following and worker is not None:
            follow_one(worker, site, lambda done, said: None)
            return
        with Stages(hidden=as_json).shown() as stages:
            if worker is not None:
                report = stages.begin(worker)
                said = {worker: run_worker(worker, site, until_end=True, report=report)}
                stages.end(worker, said[worker])
            else:
                said = pipeline.process_with_bars(site, stages)
        if as_json:
            print_json(said)


def train(state: State = None, as_json: Json = False) -> None:
    """Train on what the log holds that has not been trained on, and publish the policy."""
    with exit_statuses(as_json):
        settings = settings_for(state)
        site = Site(settings, settings.endpoints())
        with Stages(hidden=as_json).shown() as stages:
            report = pipeline.train_once(site, stages.begin("train"))
            stages.end("train", pipeline.said_of(report))
        if as_json:
            print_json(asdict(report))


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"no file {path}")
