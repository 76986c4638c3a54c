"""Trajectory assembly: the events of one episode, in order, add up to a valid or invalid record.

Valid is not successful. An episode that ran as it should and missed its goal is a valid
failure; one whose environment broke, whose events have a hole or that nobody judged is
invalid, whatever it claims.
"""

import re
from collections.abc import Iterator

import msgspec

from schemas.batch import Batch, Run, run_of
from schemas.event_pb2 import Event
from schemas.rollout_pb2 import (
    COST_UNIT_OUTPUT_TOKENS,
    COST_UNIT_TOOL_CALLS,
    FAILURE_ORIGIN_ENVIRONMENT,
    FAILURE_ORIGIN_HARNESS,
    FAILURE_ORIGIN_INFRASTRUCTURE,
    FAILURE_ORIGIN_INPUT,
    FAILURE_ORIGIN_MODEL,
    TERMINATION_ERROR,
    Schedule,
)
from schemas.scoring_pb2 import (
    INVALID_REASON_COST_UNKNOWN,
    INVALID_REASON_ENVIRONMENT,
    INVALID_REASON_HARNESS,
    INVALID_REASON_INFRASTRUCTURE,
    INVALID_REASON_INPUT,
    INVALID_REASON_NO_ACTION,
    INVALID_REASON_NO_VERDICT,
    INVALID_REASON_NOT_STARTED,
    INVALID_REASON_SEQUENCE_GAP,
    INVALID_REASON_UNFINISHED,
    INVALID_REASON_UNSPECIFIED,
    EpisodeAssembled,
    InvalidReason,
)
from schemas.topics import BODIES

_STARTED = BODIES["episode_started"]
_VERIFIED = BODIES["verification_made"]
_ENDED = BODIES["episode_ended"]
_ROUTINE = bytes((BODIES["action_taken"], BODIES["observation_received"]))
_MARKERS = re.compile(b"[^" + re.escape(_ROUTINE) + b"]")

_INVALIDATED_BY: dict[int, InvalidReason] = {
    FAILURE_ORIGIN_HARNESS: INVALID_REASON_HARNESS,
    FAILURE_ORIGIN_ENVIRONMENT: INVALID_REASON_ENVIRONMENT,
    FAILURE_ORIGIN_INFRASTRUCTURE: INVALID_REASON_INFRASTRUCTURE,
    FAILURE_ORIGIN_INPUT: INVALID_REASON_INPUT,
}


class Verdict(msgspec.Struct, array_like=True, frozen=True):
    """The verification that counts: the last one before the end, else the first one after it."""

    event_id: str
    success: bool
    progress: float


class Held(msgspec.Struct, array_like=True, frozen=True):
    """An event that came before its predecessors: its run, and its bytes if it must be read."""

    run: Run
    marker: bytes


class Episode(msgspec.Struct, array_like=True):
    """An episode as far as its events have arrived without a hole (up to `next_seq`)."""

    episode_id: str
    next_seq: int = 0
    task_id: str = ""
    policy_version: str = ""
    started: bool = False
    started_at: int = 0
    ended_at: int = 0
    steps: int = 0
    tool_calls: int = 0
    output_tokens: int = 0
    untold_actions: int = 0
    errors: int = 0
    termination: int = 0
    failed: int = 0
    verdict: Verdict | None = None
    assembled: bool = False
    held: dict[int, Held] = {}

    @property
    def ended(self) -> bool:
        return self.termination != 0


def markers(run: Run) -> Iterator[int]:
    """Positions in the run of the events that must be read: all but actions and observations."""
    return (match.start() for match in _MARKERS.finditer(run.bodies))


def hold(episode: Episode, run: Run, batch: Batch) -> None:
    """Keep events that came too early until what precedes them is here."""
    for position in range(run.start, run.start + len(run.bodies)):
        single = run_of(batch.event(position), position)
        marker = b"" if single.bodies in _ROUTINE else batch.raw(position)
        episode.held.setdefault(single.first_seq, Held(single, marker))


def take(episode: Episode, run: Run, read: Iterator[Event]) -> None:
    """Advance the episode by a run that starts at its `next_seq`.

    `read` yields the run's marker events in order. A verification after the end counts
    only if there was none before.
    """
    if episode.next_seq == 0:
        episode.started_at = run.earliest
    episode.next_seq = run.next_seq
    episode.steps += run.steps
    episode.tool_calls += run.tool_calls
    episode.output_tokens += run.output_tokens
    episode.untold_actions += run.untold_actions
    episode.errors += run.errors
    for event in read:
        body = BODIES[event.WhichOneof("body") or ""]
        if body == _STARTED and event.seq == 0:
            episode.started = True
            episode.task_id = event.episode_started.task_id
            episode.policy_version = event.policy_version
        elif body == _VERIFIED:
            if not (episode.ended and episode.verdict):
                made = event.verification_made
                episode.verdict = Verdict(event.event_id, made.success, made.progress)
        elif body == _ENDED:
            episode.termination = event.episode_ended.termination
            episode.failed = event.episode_ended.failed
            episode.ended_at = event.occurred_at


def release(episode: Episode) -> None:
    """Take every held event whose predecessors have arrived; drop those that came again since."""
    while held := episode.held.pop(episode.next_seq, None):
        take(episode, held.run, iter([Event.FromString(held.marker)] if held.marker else []))
    for seq in [seq for seq in episode.held if seq < episode.next_seq]:
        del episode.held[seq]


def holds_end(episode: Episode) -> bool:
    """Whether the end of the stream is among the runs that wait for a hole to be filled."""
    return any(_ENDED in held.run.bodies for held in episode.held.values())


def judged(episode: Episode) -> bool:
    """Whether nothing is missing for a verdict: a broken execution needs none."""
    return episode.verdict is not None or episode.termination == TERMINATION_ERROR


def assemble(episode: Episode, schedule: Schedule) -> EpisodeAssembled:
    """What the episode adds up to now, valid or invalid with the reason."""
    reason = _invalid_reason(episode, schedule)
    verdict = episode.verdict
    assembled = EpisodeAssembled(
        episode_id=episode.episode_id,
        task_id=episode.task_id,
        valid=reason == INVALID_REASON_UNSPECIFIED,
        invalid_reason=reason,
        success=verdict is not None and verdict.success,
        progress=verdict.progress if verdict else 0.0,
        cost=_cost(episode, schedule),
        steps=episode.steps,
        tool_calls=episode.tool_calls,
        errors=episode.errors,
        termination=episode.termination,  # pyright: ignore[reportArgumentType]  # kept as a number
        started_at=episode.started_at,
        ended_at=episode.ended_at,
        last_seq=max(episode.next_seq - 1, 0),
        verification_id=verdict.event_id if verdict else "",
    )
    if not episode.untold_actions:
        assembled.output_tokens = episode.output_tokens
    return assembled


def _invalid_reason(episode: Episode, schedule: Schedule) -> InvalidReason:
    if episode.held:
        return INVALID_REASON_SEQUENCE_GAP
    if not episode.started:
        return INVALID_REASON_NOT_STARTED
    if not episode.ended:
        return INVALID_REASON_UNFINISHED
    if episode.termination == TERMINATION_ERROR and episode.failed != FAILURE_ORIGIN_MODEL:
        return _INVALIDATED_BY.get(episode.failed, INVALID_REASON_INFRASTRUCTURE)
    if not judged(episode):
        return INVALID_REASON_NO_VERDICT
    if episode.steps == 0:
        return INVALID_REASON_NO_ACTION
    if episode.untold_actions and schedule.cost_unit == COST_UNIT_OUTPUT_TOKENS:
        return INVALID_REASON_COST_UNKNOWN
    return INVALID_REASON_UNSPECIFIED


def _cost(episode: Episode, schedule: Schedule) -> float:
    """e = min(1, spent / budget) on the schedule's absolute scale (equation 5)."""
    if schedule.cost_unit == COST_UNIT_OUTPUT_TOKENS:
        spent = episode.output_tokens
    elif schedule.cost_unit == COST_UNIT_TOOL_CALLS:
        spent = episode.tool_calls
    else:
        spent = episode.steps
    return min(1.0, spent / schedule.cost_budget)
