"""Curation as a fold: when a group is scored, each of its episodes gets one RecordCurated.

The decisions are in `consumers.decision`. This fold holds the raw events of open groups
until their score is there, runs the group fold beside itself to learn when that is, and
stores the records. What arrives after the score changes no record: an episode that begins
late is removed, a diagnosis or a contradicting verdict asks for a review.
"""

import hashlib

import msgspec

from consumers.decision import Curated, curate, remove_duplicates
from schemas.batch import event_of
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.governance_pb2 import (
    CURATION_OUTCOME_FOR_REVIEW,
    CURATION_OUTCOME_REMOVED,
    RecordCurated,
    ReviewRequested,
)
from schemas.joined import Indexed
from schemas.rollout_pb2 import DATA_SPLIT_UNSPECIFIED
from schemas.scoring_pb2 import EpisodeAssembled
from schemas.topics import BODIES, ROLLOUTS
from schemas.training_pb2 import ObjectRef
from streams.fold import Output
from streams.groups import Group, GroupFold

_STARTED = BODIES["episode_started"]
_DIAGNOSED = BODIES["failure_diagnosed"]


class CurationState(msgspec.Struct, array_like=True):
    """One group: the raw events of its open episodes, and the group fold's own state beside.

    `events` maps episode to seq to the event's bytes, `assembled` episode to the encoded
    EpisodeAssembled; both are empty once the group is scored. `successes` keeps what the
    records said, to tell whether a late verdict contradicts one.
    """

    group: Group
    events: dict[str, dict[int, bytes]] = {}
    assembled: dict[str, bytes] = {}
    successes: dict[str, bool] = {}


class CurationFold:
    """Curates the episodes of a group when the group is scored."""

    name = "curation"
    version = 1
    topic = ROLLOUTS
    state_type = CurationState

    def __init__(self) -> None:
        self._groups = GroupFold()

    def key(self, record_key: str) -> str:
        return self._groups.key(record_key)

    def initial(self, key: str) -> CurationState:
        return CurationState(self._groups.initial(key))

    def closed(self, state: CurationState) -> bool:
        return self._groups.closed(state.group)

    def apply(self, state: CurationState, batch: Indexed, output: Output) -> None:
        scored_before = state.group.closed_at != 0
        grouped = Output()
        self._groups.apply(state.group, batch, grouped)
        refused = {position for position, _ in grouped.refused}
        if scored_before:
            self._take_late(state, batch, refused, output)
        else:
            self._hold(state, batch, refused)
        for event in grouped.events:
            body = event.WhichOneof("body")
            if body == "episode_assembled":
                assembled = event.episode_assembled
                state.assembled[assembled.episode_id] = assembled.SerializeToString()
            elif body == "group_scored":
                self._curate(state, event, output)
                self._take_late(state, batch, refused, output)
            elif body == "verdict_came_late":
                self._late_verdict(state, event, output)

    def _hold(self, state: CurationState, batch: Indexed, refused: set[int]) -> None:
        for run in batch.runs:
            if run.stream_id == state.group.group_id:
                continue
            held = state.events.setdefault(run.stream_id, {})
            raw = batch.raw
            for position, seq in enumerate(range(run.first_seq, run.next_seq), run.start):
                if seq not in held and position not in refused:
                    held[seq] = raw(position)

    def _curate(self, state: CurationState, scored: Event, output: Output) -> None:
        group = scored.group_scored
        curated: list[Curated] = []
        for member in group.members:
            held = state.events.get(member.episode_id, {})
            end = state.group.scored_to.get(member.episode_id, 0)
            events = [event_of(held[seq]) for seq in range(end)]
            assembled = EpisodeAssembled.FromString(state.assembled[member.episode_id])
            curated.append(curate(events, assembled, group))
        remove_duplicates(curated)
        for one in curated:
            _emit(one, scored, output)
            state.successes[one.body.episode_id] = one.body.success
        state.events = {}
        state.assembled = {}

    def _take_late(
        self, state: CurationState, batch: Indexed, refused: set[int], output: Output
    ) -> None:
        """Episodes that begin and diagnoses that arrive after the score."""
        for run in batch.runs:
            seen = state.group.scored_to.get(run.stream_id)
            for at, body in enumerate(run.bodies):
                position = run.start + at
                if body not in (_STARTED, _DIAGNOSED) or position in refused:
                    continue
                if body == _STARTED and seen is None:
                    _emit_late_episode(state, batch.event(position), output)
                elif body == _DIAGNOSED and seen is not None and run.first_seq + at >= seen:
                    late = batch.event(position)
                    confidence = late.failure_diagnosed.confidence
                    _ask(late, run.stream_id, "diagnosed_late", confidence, output)

    def _late_verdict(self, state: CurationState, event: Event, output: Output) -> None:
        late = event.verdict_came_late
        if state.successes.get(late.episode_id, late.success) != late.success:
            _ask(event, late.episode_id, "contradicted_late", 0.0, output, late.late_event_id)


def _emit(one: Curated, cause: Event, output: Output) -> None:
    body = one.body
    if one.record is not None:
        content = one.record.SerializeToString(deterministic=True)
        digest = hashlib.sha256(content).hexdigest()
        key = f"records/{digest}.pb"
        body.object.CopyFrom(ObjectRef(key=key, sha256=digest, bytes=len(content)))
        output.objects.append((key, content))
    event = _derived(body.record_id, cause)
    event.policy_version = one.policy_version
    event.record_curated.CopyFrom(body)
    output.events.append(event)
    if body.outcome == CURATION_OUTCOME_FOR_REVIEW:
        review = _derived(f"review:{body.episode_id}", cause, event.event_id)
        review.review_requested.CopyFrom(
            ReviewRequested(
                review_id=review.stream_id,
                subject_id=body.record_id,
                subject_kind="record",
                reasons=body.reasons,
                confidence=one.confidence,
            )
        )
        output.events.append(review)


def _emit_late_episode(state: CurationState, started: Event, output: Output) -> None:
    opened = state.group.opened
    body = RecordCurated(
        record_id=f"record:{started.stream_id}",
        episode_id=started.stream_id,
        task_id=started.episode_started.task_id,
        outcome=CURATION_OUTCOME_REMOVED,
        reasons=["group_closed"],
        backend=started.episode_started.backend,
        fidelity=started.episode_started.fidelity,
        first_event_id=started.event_id,
        last_event_id=started.event_id,
        split=opened.split if opened else DATA_SPLIT_UNSPECIFIED,  # pyright: ignore[reportArgumentType]  # kept as a number
    )
    _emit(Curated(body, started.policy_version), started, output)


def _ask(
    cause: Event,
    episode_id: str,
    reason: str,
    confidence: float,
    output: Output,
    late_event_id: str = "",
) -> None:
    """Ask for a review of a record that what came late speaks against."""
    late_id = late_event_id or cause.event_id
    event = _derived(f"review:{late_id}", cause, late_id)
    event.review_requested.CopyFrom(
        ReviewRequested(
            review_id=event.stream_id,
            subject_id=f"record:{episode_id}",
            subject_kind="record",
            reasons=[reason],
            confidence=confidence,
        )
    )
    output.events.append(event)


def _derived(stream_id: str, cause: Event, causation_id: str = "") -> Event:
    """The first event of a derived stream: everything about it follows from its cause."""
    stream = Stream(
        stream_id,
        tenant=cause.tenant,
        producer="planloop.curation",
        producer_version=str(CurationFold.version),
        group_id=cause.group_id,
        policy_version=cause.policy_version,
        harness_version=cause.harness_version,
        schedule_version=cause.schedule_version,
    )
    return stream.event(cause.occurred_at, causation_id=causation_id or cause.event_id)
