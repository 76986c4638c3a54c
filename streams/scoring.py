"""From a group's members to the GroupScored event, which records everything that went in."""

from collections.abc import Sequence

import msgspec

from schemas.event_pb2 import Event
from schemas.rollout_pb2 import Schedule
from schemas.scoring_pb2 import (
    ClosedBy,
    EpisodeAssembled,
    GroupScored,
    MemberScored,
    VerdictCameLate,
)
from streams import care


class Opened(msgspec.Struct, array_like=True, frozen=True):
    """What a GroupOpened event fixes for the life of its group."""

    task_id: str
    size: int
    deadline: int
    schedule: bytes
    capabilities: list[str]
    split: int
    tenant: str
    policy_version: str
    harness_version: str
    schedule_version: str

    def phi(self) -> Schedule:
        return Schedule.FromString(self.schedule)


class Member(msgspec.Struct, array_like=True, frozen=True):
    """An assembled episode: the event that says so and its encoded EpisodeAssembled body."""

    policy_version: str
    event_id: str
    assembled: bytes


def opened_by(event: Event) -> Opened:
    body = event.group_opened
    return Opened(
        task_id=body.task_id,
        size=body.size,
        deadline=body.deadline,
        schedule=body.schedule.SerializeToString(deterministic=True),
        capabilities=list(body.capabilities),
        split=body.split,
        tenant=event.tenant,
        policy_version=event.policy_version,
        harness_version=event.harness_version,
        schedule_version=event.schedule_version,
    )


def scored(
    opened: Opened, members: Sequence[Member], closed_by: ClosedBy, at: int, fold_version: int
) -> GroupScored:
    """Score a closing group (equations 5 and 9). Statistics are over the valid members alone;
    an invalid one is listed with its reason, reward 0 and advantage 0."""
    phi = opened.phi()
    episodes = [EpisodeAssembled.FromString(member.assembled) for member in members]
    valid = [episode for episode in episodes if episode.valid]
    result = care.score(
        [care.Outcome(e.success, e.progress, e.cost) for e in valid],
        phi,
    )
    by_valid = iter(zip(result.rewards, result.reward_terms, result.advantages, strict=True))
    return GroupScored(
        task_id=opened.task_id,
        regime=result.regime,
        schedule=phi,
        size=opened.size,
        valid=len(valid),
        successes=result.successes,
        success_rate=result.success_rate,
        reward_mean=result.reward_mean,
        reward_std=result.reward_std,
        anchor=result.anchor,
        epsilon=care.EPSILON,
        progress_std=result.progress_std,
        closed_by=closed_by,
        members=[
            _member(member, episode, *(next(by_valid) if episode.valid else (0.0, 0.0, 0.0)))
            for member, episode in zip(members, episodes, strict=True)
        ],
        capabilities=opened.capabilities,
        split=opened.split,  # pyright: ignore[reportArgumentType]  # kept as a number
        closed_at=at,
        fold_version=fold_version,
    )


def _member(
    member: Member, episode: EpisodeAssembled, reward: float, term: float, advantage: float
) -> MemberScored:
    result = MemberScored(
        episode_id=episode.episode_id,
        valid=episode.valid,
        invalid_reason=episode.invalid_reason,
        success=episode.success,
        progress=episode.progress,
        cost=episode.cost,
        reward=reward,
        reward_term=term,
        advantage=advantage,
        tool_calls=episode.tool_calls,
        steps=episode.steps,
        policy_version=member.policy_version,
    )
    if episode.HasField("output_tokens"):
        result.output_tokens = episode.output_tokens
    return result


def late_verdict(event: Event, was_member: bool) -> VerdictCameLate:
    """The record of a verdict that can no longer change a score."""
    return VerdictCameLate(
        episode_id=event.stream_id,
        late_event_id=event.event_id,
        success=event.verification_made.success,
        progress=event.verification_made.progress,
        was_member=was_member,
    )
