"""Commands of analysts and auditors: sql, replay, verify, dead-letters."""

import sys
from collections import Counter
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from google.protobuf import json_format

from consumers import dead_letters as letters
from consumers.rebuild import rebuild as rebuild_tables
from consumers.replay import Past, Span
from consumers.replay import replay as replay_folds
from consumers.verify import verify as verify_log
from infra.log import Producer
from infra.objects import ObjectStore
from planloop.options import (
    Json,
    State,
    exit_statuses,
    print_json,
    print_table,
    say,
    settings_for,
)
from planloop.stages import Stages
from planloop.workers import Site, warehouse_of
from schemas.errors import CheckFailedError, InputError
from schemas.events import microseconds
from schemas.topics import ROLLOUTS
from streams.groups import GroupFold

dead_letters = typer.Typer(help="What was refused, why, and again.", no_args_is_help=True)


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, without FORMAT.")],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Ask the warehouse. With --json a JSON object for each row."""
    with exit_statuses(as_json), warehouse_of(_site(state)) as warehouse:
        form = "JSONEachRow" if as_json else "PrettyCompactMonoBlock"
        sys.stdout.write(warehouse.raw(query, form).decode())


def replay(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Fill the warehouse's tables anew and compare.")
    ] = False,
    group: Annotated[
        list[str] | None, typer.Option(help="Only these groups (may be repeated).")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only from this broker time on, ISO.")] = None,
    until: Annotated[str | None, typer.Option(help="Only before this broker time, ISO.")] = None,
    first: Annotated[int, typer.Option(help="From this offset on.")] = 0,
    last: Annotated[int | None, typer.Option(help="To this offset.")] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Derive groups again from the log, without any effect; or rebuild the warehouse from it."""
    with exit_statuses(as_json):
        site = _site(state)
        past = Past(ObjectStore(site.endpoints), site.endpoints.kafka)
        if rebuild:
            _rebuild(site, past, as_json)
            return
        keys = frozenset(name.encode() for name in group) if group else None
        span = Span(first, last, _time(since), _time(until), keys)
        counts: Counter[str] = Counter()
        for output in replay_folds(past, ROLLOUTS, [GroupFold()], span):
            for event in output.events:
                counts[event.WhichOneof("body") or ""] += 1
                if group and event.WhichOneof("body") == "group_scored":
                    sys.stdout.write(json_format.MessageToJson(event, indent=None) + "\n")
        if as_json and not group:
            print_json(counts)
        elif not as_json:
            print_table("derived", ["body", "events"], sorted(counts.items()))


def _rebuild(site: Site, past: Past, as_json: bool) -> None:
    with Stages(hidden=as_json).shown() as stages, warehouse_of(site) as warehouse:
        report = stages.begin("rebuild")
        rebuilt = rebuild_tables(past, warehouse, on_progress=lambda records: report(records, ""))
        stages.end("rebuild", f"{len(rebuilt)} tables")
    if as_json:
        print_json(
            [
                {
                    "table": table.table,
                    "before": table.before._asdict(),
                    "after": table.after._asdict(),
                    "equal": table.equal,
                }
                for table in rebuilt
            ]
        )
    else:
        print_table(
            "rebuilt from the log",
            ["table", "rows before", "rows after", "digest before", "digest after", "equal"],
            [
                [t.table, t.before.rows, t.after.rows, t.before.digest, t.after.digest, t.equal]
                for t in rebuilt
            ],
        )


def verify(state: State = None, as_json: Json = False) -> None:
    """Prove every group, reward, record and batch bit by bit against the raw events."""
    with exit_statuses(as_json):
        site = _site(state)
        store = ObjectStore(site.endpoints)
        with Stages(hidden=as_json).shown() as stages:
            report = stages.begin("verify")
            result = verify_log(
                Past(store, site.endpoints.kafka),
                store,
                on_progress=lambda checked: report(checked["events"], ""),
            )
            stages.end("verify", f"{len(result.findings)} findings")
        if as_json:
            findings = [asdict(finding) for finding in result.findings]
            print_json({"ok": result.ok, "checked": result.checked, "findings": findings})
        else:
            print_table("checked", ["what", "count"], sorted(result.checked.items()))
            for finding in result.findings:
                say(f"{finding.kind} {finding.where}: {finding.detail}")
        if not result.ok:
            raise typer.Exit(CheckFailedError.exit_status)


@dead_letters.command(name="list")
def list_(state: State = None, as_json: Json = False) -> None:
    """Every dead letter on the log."""
    with exit_statuses(as_json):
        rows = [
            [one.letter_id, one.reason, one.body.raw_bytes, one.body.detail]
            for one in letters.dead_letters(_site(state).endpoints.kafka)
        ]
        if as_json:
            for row in rows:
                print_json(dict(zip(("id", "reason", "bytes", "detail"), row, strict=True)))
        else:
            print_table("dead letters", ["id", "reason", "bytes", "detail"], rows)


@dead_letters.command()
def show(letter: str, state: State = None, as_json: Json = False) -> None:
    """One dead letter: where it was, why it was refused, and what can be read of it."""
    with exit_statuses(as_json):
        site = _site(state)
        (one,) = letters.find(site.endpoints.kafka, [letter])
        raw = letters.raw_of(one, ObjectStore(site.endpoints))
        events = [json_format.MessageToDict(event) for event in letters.contents(one, raw)]
        document = {
            "id": one.letter_id,
            "reason": one.reason,
            "detail": one.body.detail,
            "topic": one.body.topic,
            "partition": one.body.partition,
            "offset": one.body.offset,
            "key": one.body.key.decode(errors="backslashreplace"),
            "refused_by": one.body.refused_by,
            "bytes": len(raw),
            "start": raw[:64].hex(" "),
            "events": events,
        }
        if as_json:
            print_json(document)
        else:
            print_table(one.letter_id, ["", ""], [[k, str(v)] for k, v in document.items()])


@dead_letters.command()
def requeue(letter: list[str], state: State = None, as_json: Json = False) -> None:
    """Write dead letters back to where they came from, as they were."""
    with exit_statuses(as_json):
        site = _site(state)
        found = letters.find(site.endpoints.kafka, letter)
        producer = Producer(site.endpoints.kafka)
        try:
            written = letters.requeue(producer, ObjectStore(site.endpoints), found)
        finally:
            producer.close()
        if as_json:
            print_json({"requeued": written})
        else:
            say(f"{written} written back; `planloop process` takes them up")


def _site(state: State) -> Site:
    settings = settings_for(state)
    return Site(settings, settings.endpoints())


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return microseconds(moment if moment.tzinfo else moment.astimezone())
    except ValueError:
        raise InputError(f"{text!r} is no ISO time", "such as 2026-11-30T12:00:00+00:00") from None
