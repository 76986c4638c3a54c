"""Competence: how often a policy succeeds at a task, and at each capability that tasks ask for.

A fold over scored groups that says what each group contributes. The sums are taken where
they are read: a running total would depend on the order in which groups of different
partitions happen to be scored, and so could not be replayed to the bit. Invalid members
count for nothing, unscored groups neither.
"""

from collections.abc import Iterator

import msgspec

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.joined import Indexed
from schemas.scoring_pb2 import REGIME_UNSCORED, CompetenceMeasured, GroupScored
from schemas.topics import BODIES, GROUPS
from streams.fold import Output

_SCORED = BODIES["group_scored"]


class Competence(msgspec.Struct, array_like=True):
    """Whether the group has been measured."""

    measured: bool = False


class CompetenceFold:
    """Measures each scored group by its task and by its capabilities."""

    name = "competence"
    version = 1
    topic = GROUPS
    state_type = Competence

    def key(self, record_key: str) -> str:
        return record_key

    def initial(self, key: str) -> Competence:
        return Competence()

    def closed(self, state: Competence) -> bool:
        return state.measured

    def apply(self, state: Competence, batch: Indexed, output: Output) -> None:
        for run in batch.runs:
            for position, body in enumerate(run.bodies, run.start):
                if body == _SCORED and not state.measured:
                    state.measured = True
                    output.events += self._measure(batch.event(position))

    def _measure(self, event: Event) -> Iterator[Event]:
        scored = event.group_scored
        if scored.regime == REGIME_UNSCORED:
            return
        stream = Stream(
            f"{event.group_id}/competence",
            tenant=event.tenant,
            producer="planloop.competence",
            producer_version=str(self.version),
            group_id=event.group_id,
            policy_version=event.policy_version,
            harness_version=event.harness_version,
            schedule_version=event.schedule_version,
        )
        for scope, name in _measured(scored):
            measured = stream.event(event.occurred_at, causation_id=event.event_id)
            measured.competence_measured.CopyFrom(
                CompetenceMeasured(
                    scope=scope,
                    name=name,
                    episodes=scored.valid,
                    successes=scored.successes,
                    success_rate=scored.success_rate,
                    regime=scored.regime,
                )
            )
            yield measured


def _measured(scored: GroupScored) -> Iterator[tuple[str, str]]:
    yield "task", scored.task_id
    for capability in scored.capabilities:
        yield "capability", capability
