"""The topic catalogue: every topic of planloop, what keys it, and which bodies it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.event_pb2 import Event

BODIES: dict[str, int] = {
    field.name: field.number for field in Event.DESCRIPTOR.oneofs_by_name["body"].fields
}
"""Body name to its field number in `Event`, the number that `Run.bodies` carries."""

BODY_NAMES: dict[int, str] = {number: name for name, number in BODIES.items()}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `key` gives the record key that an event of this topic must travel under."""

    name: str
    key: Callable[[Event], str]
    partitions: int
    retention_ms: int
    bodies: frozenset[str]
    about: str

    @property
    def config(self) -> dict[str, str]:
        """Broker settings. Brokers that ignore topic settings (Tansu) lose nothing by it."""
        return {"retention.ms": str(self.retention_ms), "max.message.bytes": str(MAX_RECORD_BYTES)}


MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Largest record that the edge lets onto the log."""

MAX_EVENT_BYTES = 1024 * 1024
"""Largest single event, encoded."""

FOREVER = -1
_DAY = 24 * 3600 * 1000


def _by_group(event: Event) -> str:
    return event.group_id


def _by_stream(event: Event) -> str:
    return event.stream_id


def _topic(
    name: str,
    key: Callable[[Event], str],
    bodies: str,
    about: str,
    partitions: int = 1,
    retention_ms: int = FOREVER,
) -> Topic:
    return Topic(
        f"planloop.{name}", key, partitions, retention_ms, frozenset(bodies.split()), about
    )


ROLLOUTS = _topic(
    "rollouts",
    _by_group,
    "group_opened episode_started action_taken observation_received verification_made "
    "episode_ended failure_diagnosed clock_advanced",
    "Everything that happens in a rollout, keyed by group so that a group is local to a partition.",
    partitions=4,
)
TASKS = _topic("tasks", _by_stream, "task_specified", "Task specifications.")
GROUPS = _topic(
    "groups",
    _by_group,
    "episode_assembled group_scored refill_requested sequence_gap_found verdict_came_late",
    "What the folds over rollouts derive, in the order in which it was derived.",
)
COMPETENCE = _topic(
    "competence", _by_stream, "competence_measured", "Running competence by task and capability."
)
CURATION = _topic(
    "curation",
    _by_stream,
    "record_curated review_requested review_decided release_proposed release_frozen",
    "Training records, reviews and releases.",
)
TRAINING = _topic(
    "training",
    _by_stream,
    "schedule_set batch_ready batch_trained policy_published harness_published",
    "Schedules, batches, policies and harnesses. One partition: its order is the loop's history.",
)
MEMORY = _topic(
    "memory",
    _by_stream,
    "memory_written memory_superseded memory_deleted memory_reviewed memory_recalled "
    "subject_erased",
    "Persistent memory, one stream for each scope.",
    partitions=4,
)
DEAD_LETTERS = _topic(
    "dead-letters",
    _by_stream,
    "dead_letter",
    "What was refused, byte for byte, with the reason.",
    retention_ms=90 * _DAY,
)

CATALOGUE: tuple[Topic, ...] = (
    ROLLOUTS,
    TASKS,
    GROUPS,
    COMPETENCE,
    CURATION,
    TRAINING,
    MEMORY,
    DEAD_LETTERS,
)

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in CATALOGUE}


def topic_of(body: str) -> Topic:
    """The topic that takes a body. Each body has exactly one; KeyError for an unknown one."""
    return _TOPIC_OF[body]


_TOPIC_OF = {body: topic for topic in CATALOGUE for body in topic.bodies}
