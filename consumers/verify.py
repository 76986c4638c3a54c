"""Verify: derive everything again from the raw events and compare it with what was recorded.

Every group, reward, record and competence is recomputed with the records' indexes set aside
and every event validated, and must equal the recorded event byte for byte. Batches must hold
the very advantages of the groups that they cite. What was recorded and cannot be derived is
as much a finding as what is derived and was not recorded.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from consumers.archive import Objects, archived_partitions, read_segment, segments
from consumers.curation import CurationFold
from consumers.difference import bits, first_difference, same_bits
from consumers.replay import Past
from infra.log import Record
from infra.objects import ObjectMissingError
from schemas.batch import Batch
from schemas.errors import CheckFailedError
from schemas.event_pb2 import Event
from schemas.governance_pb2 import CURATION_OUTCOME_RETAINED
from schemas.joined import Indexed
from schemas.rollout_pb2 import DATA_SPLIT_DEV, DATA_SPLIT_TEST
from schemas.runs import Run, append_run
from schemas.topics import (
    CATALOGUE,
    COMPETENCE,
    CURATION,
    DEAD_LETTERS,
    GROUPS,
    ROLLOUTS,
    TRAINING,
    Topic,
)
from schemas.training_pb2 import BatchRow
from streams.batches import batch_digest
from streams.competence import CompetenceFold
from streams.fold import Fold, Output
from streams.groups import GroupFold
from streams.host import Host

RECOMPUTED: tuple[tuple[Topic, tuple[Callable[[], Fold[Any]], ...]], ...] = (
    (ROLLOUTS, (GroupFold, CurationFold)),
    (GROUPS, (CompetenceFold,)),
)
RECORDED = (GROUPS, CURATION, COMPETENCE, TRAINING, DEAD_LETTERS)

_FOLD_VERSIONS = {
    "planloop.groups": str(GroupFold.version),
    "planloop.curation": str(CurationFold.version),
    "planloop.competence": str(CompetenceFold.version),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold. `where` is an event id, a segment or topic/partition/offset.

    `kind`: segment, index, conflict, differs, missing, surplus, object, batch.
    """

    kind: str
    where: str
    detail: str


@dataclass(slots=True)
class VerifyReport:
    """What was checked, by kind of event, and what was found, in the order of the log."""

    checked: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.findings


@dataclass(slots=True)
class _Recorded:
    """Derived events as the log has them: raw bytes by event id."""

    events: dict[str, bytes] = field(default_factory=dict)
    batches: list[str] = field(default_factory=list)


def verify(
    past: Past, store: Objects, *, on_progress: Callable[[Counter[str]], None] | None = None
) -> VerifyReport:
    """Check the archive and the tail of the log. Reads all of it; changes nothing.

    The folds must have reached the end of the log: what they have yet to derive is missing.
    """
    report = VerifyReport()
    _check_segments(store, report)
    if report.findings:
        return report
    try:
        recorded = _read_recorded(past, report)
        _check_batches(recorded, report)
        _recompute(past, store, recorded, report, on_progress)
    except CheckFailedError as error:
        report.findings.append(Finding("segment", "archive", str(error)))
    return report


def _check_segments(store: Objects, report: VerifyReport) -> None:
    """Every segment, also those that another one covers."""
    for topic in CATALOGUE:
        for partition in archived_partitions(store, topic.name):
            end = 0
            for segment in segments(store, topic.name, partition):
                try:
                    read_segment(store, segment)
                except CheckFailedError as error:
                    report.findings.append(Finding("segment", segment.key, str(error)))
                report.checked["segments"] += 1
                report.checked["overlapping segments"] += segment.first < end
                end = max(end, segment.last + 1)


def _each(past: Past, topic: Topic) -> Iterator[Record]:
    for partition in past.partitions(topic.name):
        for batch in past.records(topic.name, partition):
            yield from batch


def _read_recorded(past: Past, report: VerifyReport) -> _Recorded:
    recorded = _Recorded()
    for topic in RECORDED:
        for record in _each(past, topic):
            batch = Batch(record.value, record.key, topic, trust=False)
            for run in batch.runs:
                for position in range(run.start, run.start + len(run.bodies)):
                    _keep(recorded, batch.event(position), report)
            _check_index(record, topic, batch.runs, report)
    return recorded


def _keep(recorded: _Recorded, event: Event, report: VerifyReport) -> None:
    raw = event.SerializeToString(deterministic=True)
    first = recorded.events.setdefault(event.event_id, raw)
    if first is raw:
        if event.HasField("batch_ready"):
            recorded.batches.append(event.event_id)
    elif first != raw:
        detail = f"recorded twice, differently: {first_difference(Event.FromString(first), event)}"
        report.findings.append(Finding("conflict", event.event_id, detail))


def _recompute(
    past: Past,
    store: Objects,
    recorded: _Recorded,
    report: VerifyReport,
    on_progress: Callable[[Counter[str]], None] | None,
) -> None:
    left = dict(recorded.events)
    for topic, folds in RECOMPUTED:
        seen = _SeenRuns(topic)
        for partition in past.partitions(topic.name):
            host = Host(topic, [seen, *(fold() for fold in folds)], trust=False)
            for records in past.records(topic.name, partition):
                for record in records:
                    seen.runs = []
                    output = host.apply((record,))
                    report.checked["events"] += sum(len(run.bodies) for run in seen.runs)
                    if topic is ROLLOUTS:
                        _check_index(record, topic, seen.runs, report)
                    if output.events:
                        _compare(output, left, recorded, report)
                        _check_objects(output, store, report)
                report.checked["records"] += len(records)
                if on_progress:
                    on_progress(report.checked)
    _check_surplus(left, report)


class _SeenRuns:
    """A fold that derives nothing and shows the runs of the record just applied."""

    name = "runs"
    version = 1
    state_type = bool

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.runs: list[Run] = []

    def key(self, record_key: str) -> str:
        return ""

    def initial(self, key: str) -> bool:
        return True

    def closed(self, state: bool) -> bool:
        return False

    def apply(self, state: bool, batch: Indexed, output: Output) -> None:
        self.runs = batch.runs


def _compare(
    output: Output, left: dict[str, bytes], recorded: _Recorded, report: VerifyReport
) -> None:
    for event in output.events:
        body = event.WhichOneof("body") or ""
        there = recorded.events.get(event.event_id)
        left.pop(event.event_id, None)
        report.checked[body] += 1
        if there is None:
            detail = f"{body} follows from the log and was not recorded"
            report.findings.append(Finding("missing", event.event_id, detail))
        elif there != event.SerializeToString(deterministic=True):
            detail = first_difference(Event.FromString(there), event)
            report.findings.append(Finding("differs", event.event_id, detail))


def _check_objects(output: Output, store: Objects, report: VerifyReport) -> None:
    for key, content in output.objects:
        report.checked["objects"] += 1
        try:
            stored = store.get(key)
        except ObjectMissingError:
            report.findings.append(Finding("object", key, "the object is not in the store"))
            continue
        if stored != content:
            digest = hashlib.sha256(stored).hexdigest()
            detail = f"its {len(stored)} bytes have the digest {digest}"
            report.findings.append(Finding("object", key, detail))


def _check_surplus(left: dict[str, bytes], report: VerifyReport) -> None:
    """What no fold derives although it says that it came from one, in this very version."""
    for name, raw in left.items():
        event = Event.FromString(raw)
        version = _FOLD_VERSIONS.get(event.producer)
        if version is None:
            continue
        if version == event.producer_version:
            detail = f"{event.WhichOneof('body')} is recorded and does not follow from the log"
            report.findings.append(Finding("surplus", name, detail))
        else:
            report.checked["of another fold version"] += 1


def _check_index(record: Record, topic: Topic, found: list[Run], report: VerifyReport) -> None:
    """What a fold believes of the record, where it believes its index, against its events."""
    believed: list[Run] = []
    for run in Batch(record.value, record.key, topic).runs:
        append_run(believed, run)
    report.checked["indexes"] += 1
    if believed != found:
        wrong = next((b for b, f in zip(believed, found, strict=False) if b != f), believed)
        detail = f"the index says {wrong}, its events say otherwise"
        report.findings.append(Finding("index", _place(record), detail))


def _check_batches(recorded: _Recorded, report: VerifyReport) -> None:
    for name in recorded.batches:
        ready = Event.FromString(recorded.events[name]).batch_ready
        report.checked["batch_ready"] += 1
        digest = batch_digest(ready.rows)
        if digest != ready.digest:
            detail = f"digest: recorded {ready.digest}, its rows have {digest}"
            report.findings.append(Finding("batch", name, detail))
        for index, row in enumerate(ready.rows):
            report.checked["batch rows"] += 1
            if fault := _row_fault(row, recorded):
                report.findings.append(Finding("batch", name, f"rows[{index}]: {fault}"))


def _row_fault(row: BatchRow, recorded: _Recorded) -> str:
    raw = recorded.events.get(row.source_event_id)
    if raw is None:
        return f"its source {row.source_event_id} is not on the log"
    source = Event.FromString(raw)
    if source.HasField("group_scored"):
        if source.group_scored.split in (DATA_SPLIT_DEV, DATA_SPLIT_TEST):
            return f"{row.episode_id} is held out"
        for member in source.group_scored.members:
            if member.episode_id == row.episode_id:
                if same_bits(member.advantage, row.advantage):
                    return ""
                theirs, ours = bits(member.advantage), bits(row.advantage)
                return f"advantage: recorded {ours}, {row.source_event_id} has {theirs}"
        return f"{row.episode_id} is no member of {row.source_event_id}"
    if not source.HasField("record_curated"):
        return f"its source {row.source_event_id} is neither a score nor a record"
    if source.record_curated.episode_id != row.episode_id:
        return f"{row.source_event_id} is the record of another episode"
    if source.record_curated.outcome != CURATION_OUTCOME_RETAINED:
        return f"{row.episode_id} was not retained"
    return ""


def _place(record: Record) -> str:
    return f"{record.topic}/{record.partition}/{record.offset}"
