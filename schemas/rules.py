"""What the edge asks of a body, field by field, as tables.

Some things hold for every field and are not listed: an enum has a value that the schema
knows, a float is a finite number, an unsigned integer fits a signed column (2^63 would
wrap in the warehouse), and an identity (`*_id`, `*_ids`) is short and without control
characters. What an agent wrote (tool names, arguments, text) is data and goes unread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from schemas.event_pb2 import Event
from schemas.refusal_pb2 import (
    REASON_CLOCK_OUT_OF_RANGE,
    REASON_IDENTITY_CONFLICT,
    REASON_INCONSISTENT,
    REASON_MISSING_FIELD,
    REASON_NOT_A_NUMBER,
    REASON_NUMBER_OUT_OF_RANGE,
    Reason,
)
from schemas.rollout_pb2 import (
    FAILURE_ORIGIN_UNSPECIFIED,
    TERMINATION_ERROR,
    ActionTaken,
    EpisodeEnded,
    PolicySpan,
    Schedule,
)
from schemas.scoring_pb2 import (
    INVALID_REASON_UNSPECIFIED,
    CompetenceMeasured,
    EpisodeAssembled,
    GroupScored,
    MemberScored,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event or a record may not pass, for people (`detail`) and programs (`reason`)."""

    reason: Reason
    detail: str


CLOCK_FROM = 1_262_304_000_000_000
"""2010-01-01, UTC microseconds: no event of planloop is older, imports included."""

CLOCK_UNTIL = 4_102_444_800_000_000
"""2100-01-01, UTC microseconds."""

CLOCK_AHEAD = 24 * 3600 * 1_000_000
"""How far a producer's clock may be ahead of the edge's. Behind is fine: devices go offline."""

CONTENT_IDS = frozenset({"ActionTaken.call_id", "ObservationReceived.call_id"})
"""Fields named as identities that the agent writes, and that are therefore data."""

IDENTITIES = frozenset({"ObjectRef.bucket", "ObjectRef.key", "ObjectRef.sha256"})
"""Identities that are not named `*_id`."""

_REQUIRED = """
    TaskSpecified.task_id
    GroupOpened.task_id GroupOpened.schedule Schedule.cost_unit
    EpisodeStarted.episode_id EpisodeStarted.task_id
    EpisodeStarted.backend EpisodeStarted.fidelity EpisodeStarted.clock
    ActionTaken.kind ObservationReceived.kind VerificationMade.verifier
    EpisodeEnded.termination FailureDiagnosed.origin ClockAdvanced.now
    EpisodeAssembled.episode_id
    GroupScored.regime GroupScored.schedule GroupScored.closed_by GroupScored.closed_at
    MemberScored.episode_id
    RefillRequested.replaces_episode_id RefillRequested.reason
    SequenceGapFound.gapped_stream_id VerdictCameLate.episode_id VerdictCameLate.late_event_id
    CompetenceMeasured.scope CompetenceMeasured.name
    RecordCurated.record_id RecordCurated.episode_id RecordCurated.outcome
    ReviewRequested.review_id ReviewRequested.subject_id
    ReviewDecided.review_id ReviewDecided.decision ReviewDecided.reviewer
    ReleaseProposed.release_id ReleaseFrozen.release_id ReleaseFrozen.approved_by_event_id
    ScheduleSet.schedule
    BatchReady.batch_id BatchReady.kind BatchRow.episode_id BatchRow.source_event_id
    BatchTrained.batch_id BatchTrained.kind BatchTrained.to_policy_version
    PolicyPublished.policy_version HarnessPublished.harness_version
    MemoryWritten.unit_id MemoryWritten.scope MemoryWritten.kind
    MemorySuperseded.unit_id MemorySuperseded.by_unit_id MemorySuperseded.scope
    MemoryDeleted.unit_id MemoryDeleted.scope MemoryReviewed.unit_id MemoryReviewed.scope
    MemoryRecalled.scope SubjectErased.scope SubjectErased.subject
    MemoryScope.workspace MemoryScope.user MemoryScope.agent
    DeadLetter.reason
"""

REQUIRED = frozenset(_REQUIRED.split())
"""Fields that must be set: an enum to something, a string to a text, a message at all."""

_SHARE = "0 <= {} <= 1"
_BELOW_ONE = "0 <= {} < 1"
_NOT_NEGATIVE = "0 <= {} < inf"
_POSITIVE = "0 < {} < inf"
_TIME = f"{CLOCK_FROM} <= {{}} < {CLOCK_UNTIL}"
_TIME_OR_NONE = f"{{}} == 0 or {_TIME}"

NUMBERS: dict[str, str] = {
    "Schedule.p_low": _BELOW_ONE,
    "Schedule.p_high": _BELOW_ONE,
    "Schedule.lambda_prog": _NOT_NEGATIVE,
    # Costs go up to 1, and lambda_eff times the cost must stay below the 1 of a success.
    "Schedule.lambda_eff": _BELOW_ONE,
    "Schedule.cost_budget": _POSITIVE,
    "GroupOpened.size": "{} >= 2",
    "VerificationMade.progress": _SHARE,
    "VerificationMade.confidence": _SHARE,
    "FailureDiagnosed.confidence": _SHARE,
    "EpisodeAssembled.progress": _SHARE,
    "EpisodeAssembled.cost": _SHARE,
    "GroupScored.size": "{} >= 2",
    "GroupScored.success_rate": _SHARE,
    "GroupScored.reward_std": _NOT_NEGATIVE,
    "GroupScored.anchor": _SHARE,
    "GroupScored.epsilon": _NOT_NEGATIVE,
    "GroupScored.progress_std": _SHARE,
    "MemberScored.progress": _SHARE,
    "MemberScored.cost": _SHARE,
    "VerdictCameLate.progress": _SHARE,
    "CompetenceMeasured.success_rate": _SHARE,
    "ReviewRequested.confidence": _SHARE,
    "SamplingWeight.weight": _NOT_NEGATIVE,
    "BatchRow.weight": _SHARE,
    "BatchTrained.gradient_norm": _NOT_NEGATIVE,
    "BatchTrained.clipped_share": _SHARE,
    "MemoryWritten.trust": _SHARE,
}
"""Where a number must lie. `inf` is infinity, so that a bound without one keeps it out."""

TIMES: dict[str, str] = {
    "ClockAdvanced.now": _TIME,
    "GroupOpened.deadline": _TIME_OR_NONE,
    "EpisodeAssembled.started_at": _TIME_OR_NONE,
    "EpisodeAssembled.ended_at": _TIME_OR_NONE,
    "GroupScored.closed_at": _TIME,
}
"""The same for points in time, UTC microseconds."""


def _inconsistent(detail: str) -> Refusal:
    return Refusal(REASON_INCONSISTENT, detail)


def _schedule(schedule: Schedule) -> Refusal | None:
    if schedule.p_low < schedule.p_high:
        return None
    detail = f"p_low {schedule.p_low} is not below p_high {schedule.p_high}"
    return Refusal(REASON_NUMBER_OUT_OF_RANGE, detail)


def _action(action: ActionTaken) -> Refusal | None:
    """Sampled tokens come with one log-probability each; a foreign policy gives neither."""
    logprobs = action.logprobs[:]
    tokens = len(action.token_ids)
    if len(logprobs) != tokens:
        return _inconsistent(f"{tokens} token_ids but {len(logprobs)} logprobs")
    # A finite sum of 32-bit floats in 64 bits has finite terms only.
    if tokens and not isfinite(sum(logprobs)):
        return Refusal(REASON_NOT_A_NUMBER, "ActionTaken.logprobs holds a NaN or an infinity")
    spans = action.policy_spans
    return _cover(spans[:], tokens) if spans else None


def _cover(spans: Sequence[PolicySpan], tokens: int) -> Refusal | None:
    """Spans lie one behind the other and cover all tokens."""
    covered = 0
    for span in spans:
        start, end = span.start, span.end
        if start != covered or end <= start:
            return _inconsistent(f"policy_spans: [{start}, {end}) after {covered}")
        covered = end
    if covered != tokens:
        return _inconsistent(f"policy_spans cover {covered} of {tokens} tokens")
    return None


def _ended(ended: EpisodeEnded) -> Refusal | None:
    if ended.termination == TERMINATION_ERROR and ended.failed == FAILURE_ORIGIN_UNSPECIFIED:
        return Refusal(REASON_MISSING_FIELD, "an episode that ended in an error says who `failed`")
    return None


def _validity(member: EpisodeAssembled | MemberScored) -> Refusal | None:
    if member.valid == (member.invalid_reason == INVALID_REASON_UNSPECIFIED):
        return None
    return _inconsistent("`valid` and `invalid_reason` contradict each other")


def _scored(group: GroupScored) -> Refusal | None:
    if group.successes <= group.valid <= len(group.members):
        return None
    detail = f"{group.successes} successes, {group.valid} valid, {len(group.members)} members"
    return _inconsistent(detail)


def _competence(measured: CompetenceMeasured) -> Refusal | None:
    if measured.successes <= measured.episodes:
        return None
    return _inconsistent(f"{measured.successes} successes in {measured.episodes} episodes")


ACROSS_FIELDS: dict[str, Callable[..., Refusal | None]] = {
    "Schedule": _schedule,
    "ActionTaken": _action,
    "EpisodeEnded": _ended,
    "EpisodeAssembled": _validity,
    "MemberScored": _validity,
    "GroupScored": _scored,
    "CompetenceMeasured": _competence,
}
"""What several fields of a message must satisfy together."""

FINITE_ACROSS_FIELDS = frozenset({"ActionTaken.logprobs"})
"""Repeated floats that a check above tests, so that they are read once."""


def _opens_group(event: Event) -> Refusal | None:
    if event.seq == 0 and event.stream_id == event.group_id:
        return None
    detail = "a group is opened by event 0 of the stream that bears its id"
    return Refusal(REASON_IDENTITY_CONFLICT, detail)


def _starts_episode(event: Event) -> Refusal | None:
    if event.seq == 0 and event.stream_id == event.episode_started.episode_id:
        return None
    detail = "an episode is started by event 0 of the stream that bears its id"
    return Refusal(REASON_IDENTITY_CONFLICT, detail)


def _advances_clock(event: Event) -> Refusal | None:
    now = event.clock_advanced.now
    if now <= event.recorded_at + CLOCK_AHEAD:
        return None
    detail = f"clock_advanced.now {now} is more than a day after recorded_at {event.recorded_at}"
    return Refusal(REASON_CLOCK_OUT_OF_RANGE, detail)


IN_ENVELOPE: dict[str, Callable[[Event], Refusal | None]] = {
    "group_opened": _opens_group,
    "episode_started": _starts_episode,
    "clock_advanced": _advances_clock,
}
"""What a body and its envelope must satisfy together, by body."""
