"""Competence: how often a policy succeeds at a task, and at each capability that tasks ask for.

A fold over scored groups. Invalid members count for nothing, unscored groups neither.
"""

import msgspec

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.joined import Indexed
from schemas.scoring_pb2 import REGIME_UNSCORED, CompetenceMeasured
from schemas.topics import BODIES, GROUPS
from streams.fold import Output

_SCORED = BODIES["group_scored"]

REMEMBERED_GROUPS = 16_384
"""Groups that a second copy of their score is recognised for. A copy follows its original
within one checkpoint of the fold that derives scores, far closer than this."""


class Tally(msgspec.Struct, array_like=True):
    """Counts of one (tenant, policy, scope, name)."""

    measured: int = 0
    groups: int = 0
    episodes: int = 0
    successes: int = 0


class Competence(msgspec.Struct, array_like=True):
    """All tallies, and the groups that were counted last, oldest first."""

    tallies: dict[str, Tally] = {}
    counted: dict[str, None] = {}


class CompetenceFold:
    """Counts groups, episodes and successes by task and by capability."""

    name = "competence"
    version = 1
    topic = GROUPS
    state_type = Competence

    def key(self, record_key: str) -> str:
        """One state: a task's groups come under many keys."""
        return ""

    def initial(self, key: str) -> Competence:
        return Competence()

    def closed(self, state: Competence) -> bool:
        return False

    def apply(self, state: Competence, batch: Indexed, output: Output) -> None:
        for run in batch.runs:
            for position, body in enumerate(run.bodies, run.start):
                if body == _SCORED:
                    self._count(state, batch.event(position), output)

    def _count(self, state: Competence, event: Event, output: Output) -> None:
        scored = event.group_scored
        if scored.regime == REGIME_UNSCORED or event.group_id in state.counted:
            return
        state.counted[event.group_id] = None
        if len(state.counted) > REMEMBERED_GROUPS:
            del state.counted[next(iter(state.counted))]
        self._measure(state, event, "task", scored.task_id, output)
        for capability in scored.capabilities:
            self._measure(state, event, "capability", capability, output)

    def _measure(
        self, state: Competence, event: Event, scope: str, name: str, output: Output
    ) -> None:
        scored = event.group_scored
        stream_id = f"competence:{event.tenant}:{event.policy_version}:{scope}:{name}"
        tally = state.tallies.setdefault(stream_id, Tally())
        tally.groups += 1
        tally.episodes += scored.valid
        tally.successes += scored.successes
        stream = Stream(
            stream_id,
            tenant=event.tenant,
            producer="planloop.competence",
            producer_version=str(self.version),
            policy_version=event.policy_version,
            harness_version=event.harness_version,
            next_seq=tally.measured,
        )
        tally.measured += 1
        measured = stream.event(event.occurred_at, causation_id=event.event_id)
        measured.competence_measured.CopyFrom(
            CompetenceMeasured(
                scope=scope,
                name=name,
                groups=tally.groups,
                episodes=tally.episodes,
                successes=tally.successes,
                success_rate=tally.successes / tally.episodes,
                last_regime=scored.regime,
                from_group_id=event.group_id,
            )
        )
        output.events.append(measured)
