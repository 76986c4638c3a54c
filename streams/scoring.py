"""From a group's members to the GroupScored event, which records everything that went in."""

from collections.abc import Sequence

import msgspec

from schemas.event_pb2 import Event
from schemas.scoring_pb2 import (
    ClosedBy,
    GroupScored,
    MemberScored,
    VerdictCameLate,
)
from streams import care
from streams.trajectory import Member


class Opened(msgspec.Struct, array_like=True, frozen=True):
    """What a GroupOpened event fixes for the life of its group. `schedule` is phi as the event
    has it, encoded; `envelope` an encoded Event that holds what all derived events share."""

    task_id: str
    size: int
    deadline: int
    phi: care.Phi
    schedule: bytes
    capabilities: list[str]
    split: int
    tenant: str
    envelope: bytes


def opened_by(event: Event, fold_version: int) -> Opened:
    """Read a GroupOpened event. The derived stream bears the fold's version from 2 on, so that
    another version's results stand beside the first ones instead of being taken for them."""
    body = event.group_opened
    suffix = "scored" if fold_version == 1 else f"scored.{fold_version}"
    envelope = Event(
        stream_id=f"{event.group_id}/{suffix}",
        group_id=event.group_id,
        correlation_id=event.group_id,
        producer="planloop.groups",
        producer_version=str(fold_version),
        tenant=event.tenant,
        policy_version=event.policy_version,
        harness_version=event.harness_version,
        schedule_version=event.schedule_version,
    )
    return Opened(
        task_id=body.task_id,
        size=body.size,
        deadline=body.deadline,
        phi=care.Phi.of(body.schedule),
        schedule=body.schedule.SerializeToString(deterministic=True),
        capabilities=list(body.capabilities),
        split=body.split,
        tenant=event.tenant,
        envelope=envelope.SerializeToString(),
    )


def score_into(
    into: GroupScored,
    opened: Opened,
    members: Sequence[Member],
    closed_by: ClosedBy,
    at: int,
    fold_version: int,
) -> None:
    """Score a closing group (equations 5 and 9) into a body. Statistics are over the valid
    members alone; an invalid one is listed with its reason, reward 0 and advantage 0."""
    outcomes = [care.Outcome(m.success, m.progress, m.cost) for m in members if m.valid]
    result = care.score(outcomes, opened.phi)
    into.task_id = opened.task_id
    into.regime = result.regime
    into.schedule.MergeFromString(opened.schedule)
    into.size = opened.size
    into.valid = len(outcomes)
    into.successes = result.successes
    into.success_rate = result.success_rate
    into.reward_mean = result.reward_mean
    into.reward_std = result.reward_std
    into.anchor = result.anchor
    into.epsilon = care.EPSILON
    into.progress_std = result.progress_std
    into.closed_by = closed_by
    into.capabilities.extend(opened.capabilities)
    into.split = opened.split  # pyright: ignore[reportAttributeAccessIssue]  # kept as a number
    into.closed_at = at
    into.fold_version = fold_version
    place = 0
    for member in members:
        row = into.members.add()
        _member_into(row, member)
        if member.valid:
            row.reward = result.rewards[place]
            row.reward_term = result.reward_terms[place]
            row.advantage = result.advantages[place]
            place += 1


def _member_into(row: MemberScored, member: Member) -> None:
    row.episode_id = member.episode_id
    row.valid = member.valid
    row.invalid_reason = member.invalid_reason  # pyright: ignore[reportAttributeAccessIssue]
    row.success = member.success
    row.progress = member.progress
    row.cost = member.cost
    row.tool_calls = member.tool_calls
    row.steps = member.steps
    row.policy_version = member.policy_version
    if member.output_tokens is not None:
        row.output_tokens = member.output_tokens


def late_verdict(event: Event, was_member: bool) -> VerdictCameLate:
    """The record of a verdict that can no longer change a score."""
    return VerdictCameLate(
        episode_id=event.stream_id,
        late_event_id=event.event_id,
        success=event.verification_made.success,
        progress=event.verification_made.progress,
        was_member=was_member,
    )
