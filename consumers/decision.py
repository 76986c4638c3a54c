"""Deciding about one episode (section 2.3.3): what may be learned from it, whatever its verdict.

    removed     it is invalid or malformed, held out (dev and test splits), or a duplicate of
                another member of its group
    for review  the verdict lacks support (no evidence in the episode, low confidence,
                verdicts or duplicates that contradict each other), the failure was not the
                model's, the split is not known, or a success has no turn to learn from
    retained    everything else, failures too: supervised fine-tuning takes the successes,
                the CARE update takes all

Records that were kept, are for review or are duplicates exist as records (a duplicate is
still a member of its group, with an advantage); what is invalid, malformed or held out has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from consumers.record import Trajectory, add_turns, capabilities, content_digest, erroneous
from schemas.event_pb2 import Event
from schemas.governance_pb2 import (
    CURATION_OUTCOME_FOR_REVIEW,
    CURATION_OUTCOME_REMOVED,
    CURATION_OUTCOME_RETAINED,
    RecordCurated,
)
from schemas.rollout_pb2 import (
    DATA_SPLIT_TRAIN,
    DATA_SPLIT_UNSPECIFIED,
    FAILURE_ORIGIN_MODEL,
    FAILURE_ORIGIN_UNSPECIFIED,
    EpisodeStarted,
    FailureDiagnosed,
    VerificationMade,
)
from schemas.scoring_pb2 import EpisodeAssembled, GroupScored, InvalidReason
from schemas.training_pb2 import TrainingRecord

MIN_CONFIDENCE = 0.8
"""Verdicts and diagnoses below this confidence go to a reviewer."""


@dataclass(slots=True)
class Curated:
    """The decision about one episode, and the record where there is one.

    `policy_version` generated it; `confidence` in [0, 1] is the verdict's.
    """

    body: RecordCurated
    policy_version: str = ""
    confidence: float = 0.0
    record: TrainingRecord | None = None


@dataclass(slots=True)
class _Told:
    """The events of an episode, sorted by what they say."""

    started: EpisodeStarted = field(default_factory=EpisodeStarted)
    first: Event = field(default_factory=Event)
    last: Event = field(default_factory=Event)
    ended: bool = False
    # Each verification with the number of turns that it had seen.
    verifications: list[tuple[int, str, VerificationMade]] = field(default_factory=list)
    diagnoses: list[FailureDiagnosed] = field(default_factory=list)


def curate(events: Sequence[Event], assembled: EpisodeAssembled, group: GroupScored) -> Curated:
    """Decide about one episode of a scored group.

    `events` are the episode's accepted events in order of seq, without a hole. Duplicates are
    not looked for here; `remove_duplicates` does that over the whole group.
    """
    trajectory = Trajectory(events)
    told = _tell(events, trajectory)
    cited = next((v for v in told.verifications if v[1] == assembled.verification_id), None)
    verification = cited[2] if cited else VerificationMade()
    body = RecordCurated(
        record_id=f"record:{assembled.episode_id}",
        episode_id=assembled.episode_id,
        task_id=assembled.task_id or group.task_id,
        capabilities=capabilities(trajectory, group.capabilities),
        success=assembled.success,
        backend=told.started.backend,
        fidelity=told.started.fidelity,
        first_event_id=told.first.event_id,
        last_event_id=told.last.event_id,
        evidence=[assembled.verification_id, *verification.evidence] if cited else [],
        failure_kind=_failure_kind(assembled, told.diagnoses),
        split=group.split,
    )
    curated = Curated(body, told.first.policy_version, verification.confidence)
    if faults := _faults(assembled, told, trajectory, group):
        body.outcome = CURATION_OUTCOME_REMOVED
        body.reasons.extend(faults)
        return curated
    masked = erroneous(trajectory, told.diagnoses)
    body.masked_seqs.extend(sorted(masked))
    body.supervised_turns = len(trajectory.policy) - len(masked)
    body.content_digest = content_digest(told.started, trajectory)
    supported = {event.event_id for event in events}.issuperset(verification.evidence)
    doubts = _doubts(body, told, verification, supported and bool(verification.evidence))
    body.outcome = CURATION_OUTCOME_FOR_REVIEW if doubts else CURATION_OUTCOME_RETAINED
    body.reasons.extend(doubts)
    curated.record = _record(body, assembled, told, trajectory, masked)
    return curated


def remove_duplicates(group: Sequence[Curated]) -> None:
    """Keep the earliest episode id of each content; equal content with two verdicts is in doubt."""
    kept: dict[str, Curated] = {}
    for one in sorted(group, key=lambda one: one.body.episode_id):
        body = one.body
        if not body.content_digest:
            continue
        original = kept.setdefault(body.content_digest, one)
        if original is one:
            continue
        body.outcome = CURATION_OUTCOME_REMOVED
        body.reasons.insert(0, f"duplicate:{original.body.episode_id}")
        if original.body.success != body.success:
            original.body.outcome = CURATION_OUTCOME_FOR_REVIEW
            if "conflicting_duplicate" not in original.body.reasons:
                original.body.reasons.append("conflicting_duplicate")


def _tell(events: Sequence[Event], trajectory: Trajectory) -> _Told:
    told = _Told()
    if events:
        told.first, told.last = events[0], events[-1]
    for turns, body, event in trajectory.markers:
        if body == "episode_started":
            told.started = event.episode_started
        elif body == "verification_made":
            told.verifications.append((turns, event.event_id, event.verification_made))
        elif body == "failure_diagnosed":
            told.diagnoses.append(event.failure_diagnosed)
        elif body == "episode_ended":
            told.ended = True
    return told


def _faults(
    assembled: EpisodeAssembled, told: _Told, trajectory: Trajectory, group: GroupScored
) -> list[str]:
    """Why nothing may be learned from an episode; empty where something may."""
    faults: list[str] = []
    if group.split not in (DATA_SPLIT_TRAIN, DATA_SPLIT_UNSPECIFIED):
        faults.append("held_out")
    if not assembled.valid:
        name = InvalidReason.Name(assembled.invalid_reason)
        faults.append("invalid:" + name.removeprefix("INVALID_REASON_").lower())
    if not trajectory.policy:
        faults.append("no_action")
    if not told.ended:
        faults.append("unfinished")
    if trajectory.unanswered():
        faults.append("observation_missing")
    return faults


def _doubts(
    body: RecordCurated, told: _Told, verification: VerificationMade, supported: bool
) -> list[str]:
    """Why a person should look at a well-formed episode; empty where none need to."""
    doubts: list[str] = []
    if body.success and not supported:
        doubts.append("unsupported_success")
    if verification.confidence < MIN_CONFIDENCE:
        doubts.append("low_confidence")
    if _contradicted(told):
        doubts.append("conflicting_verdicts")
    if any(d.confidence < MIN_CONFIDENCE for d in told.diagnoses):
        doubts.append("low_confidence_diagnosis")
    if not body.success and any(
        d.origin not in (FAILURE_ORIGIN_MODEL, FAILURE_ORIGIN_UNSPECIFIED) for d in told.diagnoses
    ):
        doubts.append("failure_not_of_the_model")
    if body.split == DATA_SPLIT_UNSPECIFIED:
        doubts.append("split_unknown")
    if body.success and body.supervised_turns == 0:
        doubts.append("no_supervised_turn")
    return doubts


def _contradicted(told: _Told) -> bool:
    """Whether verdicts over the same turns differ; a verdict on the way to the end is no rival."""
    final = max((seen for seen, _, _ in told.verifications), default=0)
    return len({made.success for seen, _, made in told.verifications if seen == final}) > 1


def _failure_kind(assembled: EpisodeAssembled, diagnoses: Sequence[FailureDiagnosed]) -> str:
    """What the latest diagnosis says; "undiagnosed" for a failure that none explains."""
    if diagnoses:
        return diagnoses[-1].kind
    return "undiagnosed" if assembled.valid and not assembled.success else ""


def _record(
    body: RecordCurated,
    assembled: EpisodeAssembled,
    told: _Told,
    trajectory: Trajectory,
    masked: set[int],
) -> TrainingRecord:
    envelope, started = told.first, told.started
    record = TrainingRecord(
        record_id=body.record_id,
        episode_id=body.episode_id,
        group_id=envelope.group_id,
        task_id=body.task_id,
        tenant=envelope.tenant,
        policy_version=envelope.policy_version,
        harness_version=envelope.harness_version,
        schedule_version=envelope.schedule_version,
        instructions=started.instructions,
        request=started.request,
        capabilities=body.capabilities,
        success=assembled.success,
        progress=assembled.progress,
        backend=started.backend,
        fidelity=started.fidelity,
        split=body.split,
        context_token_ids=started.context_token_ids,
    )
    add_turns(record, trajectory, masked)
    return record
