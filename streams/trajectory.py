"""Trajectory assembly: the events of one episode, in order, add up to a valid or invalid record.

Valid is not successful. An episode that ran as it should and missed its goal is a valid
failure; one whose environment broke, whose events have a hole or that nobody judged is
invalid, whatever it claims.
"""

import msgspec

from schemas.batch import ACTION, OBSERVATION, Run, event_of, run_of
from schemas.event_pb2 import Event
from schemas.events import event_id
from schemas.joined import Indexed
from schemas.rollout_pb2 import (
    COST_UNIT_OUTPUT_TOKENS,
    COST_UNIT_TOOL_CALLS,
    FAILURE_ORIGIN_ENVIRONMENT,
    FAILURE_ORIGIN_HARNESS,
    FAILURE_ORIGIN_INFRASTRUCTURE,
    FAILURE_ORIGIN_INPUT,
    FAILURE_ORIGIN_MODEL,
    TERMINATION_ERROR,
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
    InvalidReason,
)
from schemas.topics import BODIES
from streams.care import Phi

_STARTED = BODIES["episode_started"]
_VERIFIED = BODIES["verification_made"]
_ENDED = BODIES["episode_ended"]
_READ = frozenset((_STARTED, _VERIFIED, _ENDED))
_ROUTINE = bytes((ACTION, OBSERVATION))

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
    """An episode as far as its events have arrived without a hole (up to `next_seq`).

    `last_seq` is the end's position once it has ended, `complete_at` the time of the event
    that made the record complete: its end, or the verdict that came after it.
    """

    episode_id: str
    next_seq: int = 0
    task_id: str = ""
    policy_version: str = ""
    started: bool = False
    started_at: int = 0
    ended_at: int = 0
    last_seq: int = 0
    complete_at: int = 0
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


class Member(msgspec.Struct, array_like=True, frozen=True):
    """An assembled episode, as far as the score needs it. `output_tokens` None: not stated."""

    episode_id: str
    event_id: str
    policy_version: str
    valid: bool
    invalid_reason: int
    success: bool
    progress: float
    cost: float
    output_tokens: int | None
    tool_calls: int
    steps: int


def hold(episode: Episode, run: Run, batch: Indexed) -> None:
    """Keep events that came too early until what precedes them is here."""
    for position in range(run.start, run.start + len(run.bodies)):
        single = run_of(batch.event(position), position)
        marker = batch.raw(position) if single.bodies[0] in _READ else b""
        episode.held.setdefault(single.first_seq, Held(single, marker))


def take(episode: Episode, run: Run, batch: Indexed) -> None:
    """Advance the episode by a run that starts at its `next_seq`."""
    if episode.next_seq == 0:
        episode.started_at = run.earliest
    _add(episode, run)
    bodies = run.bodies
    position = -1
    for number in bodies.translate(None, _ROUTINE):
        position = bodies.index(number, position + 1)
        if number in _READ:
            _read(episode, number, batch.event(run.start + position))


def _add(episode: Episode, run: Run) -> None:
    bodies = run.bodies
    episode.next_seq = run.first_seq + len(bodies)
    episode.steps += bodies.count(ACTION)
    episode.tool_calls += run.tool_calls
    episode.output_tokens += run.output_tokens
    episode.untold_actions += run.untold_actions
    episode.errors += run.errors


def _read(episode: Episode, number: int, event: Event) -> None:
    """Take in what a marker event says; a verification after the end counts if none came before."""
    if number == _STARTED:
        if event.seq == 0:
            episode.started = True
            episode.task_id = event.episode_started.task_id
            episode.policy_version = event.policy_version
    elif number == _VERIFIED:
        if not (episode.ended and episode.verdict):
            made = event.verification_made
            episode.verdict = Verdict(event.event_id, made.success, made.progress)
            episode.complete_at = event.occurred_at
    else:
        ended = event.episode_ended
        episode.termination = ended.termination
        episode.failed = ended.failed
        episode.last_seq = event.seq
        episode.ended_at = episode.complete_at = event.occurred_at


def release(episode: Episode) -> None:
    """Take every held event whose predecessors have arrived; drop those that came again since."""
    while held := episode.held.pop(episode.next_seq, None):
        if episode.next_seq == 0:
            episode.started_at = held.run.earliest
        _add(episode, held.run)
        if held.marker:
            _read(episode, held.run.bodies[0], event_of(held.marker))
    for seq in [seq for seq in episode.held if seq < episode.next_seq]:
        del episode.held[seq]


def holds_end(episode: Episode) -> bool:
    """Whether the end of the stream is among the runs that wait for a hole to be filled."""
    return any(_ENDED in held.run.bodies for held in episode.held.values())


def judged(episode: Episode) -> bool:
    """Whether nothing is missing for a verdict: a broken execution needs none."""
    return episode.verdict is not None or episode.termination == TERMINATION_ERROR


def assemble(episode: Episode, phi: Phi, into: Event) -> Member:
    """Write what the episode adds up to now into the body of an event that is numbered: valid,
    or invalid with the reason. Returns what a score needs of it."""
    reason = _invalid_reason(episode, phi)
    verdict = episode.verdict
    member = Member(
        episode.episode_id,
        into.event_id,
        episode.policy_version,
        reason == INVALID_REASON_UNSPECIFIED,
        reason,
        verdict is not None and verdict.success,
        verdict.progress if verdict else 0.0,
        _cost(episode, phi),
        None if episode.untold_actions else episode.output_tokens,
        episode.tool_calls,
        episode.steps,
    )
    last_seq = episode.last_seq if episode.ended else max(episode.next_seq - 1, 0)
    into.policy_version = member.policy_version
    into.causation_id = event_id(member.episode_id, last_seq)
    body = into.episode_assembled
    body.episode_id = member.episode_id
    body.task_id = episode.task_id
    body.valid = member.valid
    body.invalid_reason = reason
    body.cost = member.cost
    body.steps = member.steps
    body.tool_calls = member.tool_calls
    body.errors = episode.errors
    body.termination = episode.termination  # pyright: ignore[reportAttributeAccessIssue]
    body.started_at = episode.started_at
    body.ended_at = episode.ended_at
    body.last_seq = last_seq
    if member.output_tokens is not None:
        body.output_tokens = member.output_tokens
    if verdict:
        body.success = verdict.success
        body.progress = verdict.progress
        body.verification_id = verdict.event_id
    return member


def _invalid_reason(episode: Episode, phi: Phi) -> InvalidReason:
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
    if episode.untold_actions and phi.cost_unit == COST_UNIT_OUTPUT_TOKENS:
        return INVALID_REASON_COST_UNKNOWN
    return INVALID_REASON_UNSPECIFIED


def _cost(episode: Episode, phi: Phi) -> float:
    """e = min(1, spent / budget) on the schedule's absolute scale (equation 5)."""
    if phi.cost_unit == COST_UNIT_OUTPUT_TOKENS:
        spent = episode.output_tokens
    elif phi.cost_unit == COST_UNIT_TOOL_CALLS:
        spent = episode.tool_calls
    else:
        spent = episode.steps
    return min(1.0, spent / phi.cost_budget)
