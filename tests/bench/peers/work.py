"""The work of every peer: decode records, keep groups in a dict, score a group when it is whole.

No order checks, no duplicates, no checkpoint: an event is believed and counted. Scores come from
`streams.care`, so that they can be compared with planloop's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.event_pb2 import Event, EventBatch
from schemas.scoring_pb2 import GroupScored, MemberScored
from streams.care import Outcome, Phi, Scored, score


@dataclass(slots=True)
class Member:
    """One episode: what its reward needs, and the calls and errors that planloop counts too."""

    tokens: int = 0
    tool_calls: int = 0
    errors: int = 0
    success: bool = False
    progress: float = 0.0


@dataclass(slots=True)
class Group:
    group_id: str
    task_id: str
    size: int
    phi: Phi
    tenant: str
    ended: int = 0
    closed_at: int = 0
    members: dict[str, Member] = field(default_factory=dict)


class Groups:
    """Open groups by id."""

    def __init__(self) -> None:
        self._open: dict[str, Group] = {}

    def take(self, values: Iterable[bytes]) -> list[Group]:
        """Fold records; the groups that are whole now."""
        whole: list[Group] = []
        groups = self._open
        for value in values:
            for event in EventBatch.FromString(value).events:
                body = event.WhichOneof("body")
                if body == "action_taken":
                    member = groups[event.group_id].members[event.stream_id]
                    member.tokens += event.action_taken.output_tokens
                    member.tool_calls += 1
                elif body == "observation_received":
                    if event.observation_received.error_code:
                        groups[event.group_id].members[event.stream_id].errors += 1
                elif body == "verification_made":
                    verdict = event.verification_made
                    member = groups[event.group_id].members[event.stream_id]
                    member.success = verdict.success
                    member.progress = verdict.progress
                elif body == "episode_started":
                    groups[event.group_id].members[event.stream_id] = Member()
                elif body == "episode_ended":
                    group = groups[event.group_id]
                    group.ended += 1
                    if group.ended == group.size:
                        group.closed_at = event.occurred_at
                        whole.append(groups.pop(group.group_id))
                elif body == "group_opened":
                    opened = event.group_opened
                    groups[event.group_id] = Group(
                        event.group_id,
                        opened.task_id,
                        opened.size,
                        Phi.of(opened.schedule),
                        event.tenant,
                    )
        return whole


def result(group: Group) -> tuple[str, int, int]:
    """(group_id, regime, successes): what all must agree on."""
    scored = _score(group)
    return group.group_id, scored.regime, scored.successes


def scored_record(group: Group) -> bytes:
    """A record of one GroupScored event."""
    scored = _score(group)
    members = [
        MemberScored(
            episode_id=name,
            valid=True,
            success=member.success,
            progress=member.progress,
            tool_calls=member.tool_calls,
            output_tokens=member.tokens,
            reward=reward,
            advantage=advantage,
        )
        for (name, member), reward, advantage in zip(
            group.members.items(), scored.rewards, scored.advantages, strict=True
        )
    ]
    event = Event(
        stream_id=f"{group.group_id}/scored",
        group_id=group.group_id,
        tenant=group.tenant,
        occurred_at=group.closed_at,
        recorded_at=group.closed_at,
        group_scored=GroupScored(
            task_id=group.task_id,
            regime=scored.regime,
            size=group.size,
            valid=group.size,
            successes=scored.successes,
            success_rate=scored.success_rate,
            reward_mean=scored.reward_mean,
            reward_std=scored.reward_std,
            anchor=scored.anchor,
            members=members,
        ),
    )
    return EventBatch(events=[event]).SerializeToString()


def _score(group: Group) -> Scored:
    return score(
        [
            Outcome(m.success, m.progress, min(1.0, m.tokens / group.phi.cost_budget))
            for m in group.members.values()
        ],
        group.phi,
    )
