"""What the log says about training: which records and scored groups there are, which of
them have been trained on, and which announced batch is still owed.

A fold over three small topics that is built anew at each start. A batch's rows on
the log are the only account of what has been trained, so that a lost state directory
repeats nothing, and a group whose records come late is not lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.batch import Batch
from schemas.event_pb2 import Event
from schemas.governance_pb2 import (
    CURATION_OUTCOME_REMOVED,
    CURATION_OUTCOME_RETAINED,
    RecordCurated,
)
from schemas.rollout_pb2 import DATA_SPLIT_TRAIN, DATA_SPLIT_UNSPECIFIED
from schemas.topics import BODIES, CURATION, GROUPS, TRAINING
from schemas.training_pb2 import BATCH_KIND_CARE, BATCH_KIND_SUPERVISED
from trainer.ports import Log

PRODUCER = "trainer"
TRAINABLE_SPLITS = (DATA_SPLIT_TRAIN, DATA_SPLIT_UNSPECIFIED)
"""Anything else is held out: it may be scored and looked at, never learned from."""

_WANTED = frozenset(
    BODIES[name]
    for name in (
        "record_curated",
        "group_scored",
        "batch_ready",
        "batch_trained",
        "policy_published",
    )
)


@dataclass(slots=True)
class History:
    """The folded log. `positions` maps (topic, partition) to the next offset."""

    records: dict[str, Event] = field(default_factory=dict)
    """Latest RecordCurated of each episode."""
    groups: dict[str, Event] = field(default_factory=dict)
    """GroupScored of each group that no finished batch holds."""
    ready: dict[str, Event] = field(default_factory=dict)
    trained: dict[str, Event] = field(default_factory=dict)
    policies: dict[str, Event] = field(default_factory=dict)
    supervised: set[str] = field(default_factory=set)
    """Episodes in some supervised batch."""
    optimised: set[str] = field(default_factory=set)
    """Groups in some CARE batch."""
    known: set[str] = field(default_factory=set)
    """Ids of the trainer's own events."""
    refused: int = 0
    """Events on these topics that the edge would not have let in."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take one event. A second copy changes nothing."""
        body = event.WhichOneof("body")
        if body == "record_curated":
            self._record(event)
        elif body == "group_scored":
            self.groups.setdefault(event.group_id, event)
        elif event.producer == PRODUCER and event.event_id not in self.known:
            self.known.add(event.event_id)
            if body == "batch_ready":
                self._batch(event)
            elif body == "batch_trained":
                self.trained[event.batch_trained.batch_id] = event
            elif body == "policy_published":
                self.policies[event.policy_published.policy_version] = event

    def _record(self, event: Event) -> None:
        episode = event.record_curated.episode_id
        standing = self.records.get(episode)
        if standing is None or event.seq > standing.seq:
            self.records[episode] = event

    def _batch(self, event: Event) -> None:
        batch = event.batch_ready
        self.ready[batch.batch_id] = event
        if batch.kind == BATCH_KIND_SUPERVISED:
            self.supervised.update(row.episode_id for row in batch.rows)
        elif batch.kind == BATCH_KIND_CARE:
            self.optimised.update(row.group_id for row in batch.rows)

    @property
    def owed(self) -> list[Event]:
        """BatchReady events without a BatchTrained, in the order of the log."""
        return [event for batch, event in self.ready.items() if batch not in self.trained]

    @property
    def update(self) -> int:
        """Number of updates done."""
        return max((event.batch_trained.update for event in self.trained.values()), default=0)

    @property
    def policy_version(self) -> str | None:
        """The policy to go on from: the last update's, else the first one published."""
        if self.trained:
            last = max(self.trained.values(), key=lambda event: event.batch_trained.update)
            return last.batch_trained.to_policy_version
        return next(iter(self.policies), None)

    def curated(self) -> Iterator[Event]:
        """The latest RecordCurated of each episode whose record may be learned from, oldest
        first."""
        return (event for event in _oldest_first(self.records) if usable(event.record_curated))

    def demonstrations(self) -> Iterator[Event]:
        """RecordCurated events fit for supervision and not yet in a batch, oldest first:
        retained, successful, not held out, one of each content digest."""
        seen = {
            self.records[episode].record_curated.content_digest
            for episode in self.supervised
            if episode in self.records
        }
        for event in self.curated():
            record = event.record_curated
            if not record.success or record.episode_id in self.supervised:
                continue
            if record.content_digest:
                if record.content_digest in seen:
                    continue
                seen.add(record.content_digest)
            yield event

    def scored(self) -> Iterator[Event]:
        """GroupScored events not held out and not yet in a batch, oldest first."""
        for event in _oldest_first(self.groups):
            held_out = event.group_scored.split not in TRAINABLE_SPLITS
            if not held_out and event.group_id not in self.optimised:
                yield event


def usable(record: RecordCurated) -> bool:
    """True if curation let the record into training and its task is not held out."""
    return record.outcome == CURATION_OUTCOME_RETAINED and _stored(record)


def usable_in_group(record: RecordCurated) -> bool:
    """True also for a record that was removed only for being equal to another one: the two
    are members of their group all the same, each with an advantage."""
    duplicate = record.outcome == CURATION_OUTCOME_REMOVED and all(
        reason.startswith("duplicate:") for reason in record.reasons
    )
    return (duplicate or record.outcome == CURATION_OUTCOME_RETAINED) and _stored(record)


def _stored(record: RecordCurated) -> bool:
    return record.split in TRAINABLE_SPLITS and bool(record.object.key)


def read(log: Log) -> History:
    """Fold the log up to its present end. Every event is validated, whatever its record's index
    says: nothing is trained on trust."""
    history = History()
    for topic in (TRAINING, CURATION, GROUPS):
        for record in log.read(topic):
            history.positions[record.topic, record.partition] = record.offset + 1
            batch = Batch(record.value, record.key, topic, trust=False)
            history.refused += len(batch.refusals)
            for run in batch.runs:
                for position, body in enumerate(run.bodies, run.start):
                    if body in _WANTED:
                        history.apply(batch.event(position))
    done = history.optimised - {
        row.group_id for event in history.owed for row in event.batch_ready.rows
    }
    for group in done:
        history.groups.pop(group, None)
    return history


def _oldest_first(events: dict[str, Event]) -> list[Event]:
    """By event time, then identity: the order of arrival does not matter."""
    return sorted(events.values(), key=lambda event: (event.occurred_at, event.event_id))
