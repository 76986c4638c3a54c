"""A small history over every topic: rollouts, and what folds, curation and training add."""

from collections.abc import Iterable, Sequence

from infra.log import Record
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.governance_pb2 import CURATION_OUTCOME_RETAINED, RecordCurated
from schemas.refusal_pb2 import REASON_WRONG_KEY
from schemas.rollout_pb2 import BACKEND_SANDBOX, FIDELITY_EXACT, TaskSpecified
from schemas.topics import BY_NAME, CATALOGUE, GROUPS, ROLLOUTS, topic_of
from schemas.training_pb2 import (
    BATCH_KIND_CARE,
    BatchReady,
    BatchRow,
    BatchTrained,
    ObjectRef,
    PolicyPublished,
)
from schemas.validation import Refusal
from streams.competence import CompetenceFold
from streams.driver import drive
from streams.groups import GroupFold
from streams.host import dead_letter
from tests.consumers.rollouts import NOON, Rollout, as_records, done, opened


def rollouts() -> list[Event]:
    """Two groups of two: g1 half solved, g2 with an unanswered call, an error and an invalid
    member, for which a third episode stands in."""
    events = [opened("g1"), *done("g1", "e1").events, *done("g1", "e2", success=False).events]
    events += [opened("g2"), *done("g2", "e3", success=False).events]
    lost = Rollout("g2", "e4").call("search", result=None).call("search", error="timeout")
    events += lost.say("bye").end().events
    return events + done("g2", "e5", success=False).events


def derived(rollout_events: Sequence[Event]) -> list[Event]:
    """What the folds add to the log for these rollouts."""
    scored = drive(GroupFold(), as_records(rollout_events)).events
    records = as_records(scored, key=GROUPS.key, topic=GROUPS.name)
    return scored + drive(CompetenceFold(), records).events


def aside() -> list[Event]:
    """One event or two of each further body with a table of its own."""
    task = _event("task:task-1", "task_specified")
    task.task_specified.CopyFrom(TaskSpecified(task_id="task-1", goal="fly", digest="ab"))
    curated = _event("record:e1", "record_curated", group_id="g1")
    curated.record_curated.CopyFrom(
        RecordCurated(
            record_id="r1",
            episode_id="e1",
            task_id="task-1",
            outcome=CURATION_OUTCOME_RETAINED,
            capabilities=["booking"],
            success=True,
            backend=BACKEND_SANDBOX,
            fidelity=FIDELITY_EXACT,
            masked_seqs=[3, 5],
            object=ObjectRef(bucket="planloop", key="records/ab.pb", sha256="ab", bytes=9),
        )
    )
    ready = _event("batch:b1", "batch_ready")
    ready.batch_ready.CopyFrom(
        BatchReady(
            batch_id="b1",
            kind=BATCH_KIND_CARE,
            policy_version="p0",
            rows=[
                BatchRow(
                    episode_id=episode,
                    group_id="g1",
                    source_event_id="g1/scored#2",
                    advantage=advantage,
                    weight=1.0,
                )
                for episode, advantage in (("e1", 0.1 + 0.2), ("e2", -(0.1 + 0.2)))
            ],
            digest="cd",
        )
    )
    trained = _event("batch:b1", "batch_trained", seq=1)
    trained.batch_trained.CopyFrom(
        BatchTrained(
            batch_id="b1",
            kind=BATCH_KIND_CARE,
            from_policy_version="p0",
            to_policy_version="p1",
            update=1,
            loss=0.7,
            groups=1,
            episodes=2,
        )
    )
    published = _event("policy:p1", "policy_published")
    published.policy_published.CopyFrom(
        PolicyPublished(policy_version="p1", parent_version="p0", update=1, batch_ids=["b1"])
    )
    refused = Record(ROLLOUTS.name, 2, 7, b"key", b"raw", NOON)
    letter = dead_letter(refused, b"raw", None, Refusal(REASON_WRONG_KEY, "not that key"), "edge")
    return [task, curated, ready, trained, published, letter]


def whole() -> list[Event]:
    """All of it, causes before effects."""
    events = rollouts()
    return events + derived(events) + aside()


def on_the_log(
    events: Iterable[Event], *, first_offset: int = 0, per_record: int = 5
) -> list[Record]:
    """Records of events in the topics that they belong to, all in partition 0."""
    by_topic: dict[str, list[Event]] = {topic.name: [] for topic in CATALOGUE}
    for event in events:
        by_topic[topic_of(event.WhichOneof("body") or "").name].append(event)
    return [
        record
        for name, some in by_topic.items()
        for record in as_records(
            some,
            key=BY_NAME[name].key,
            topic=name,
            first_offset=first_offset,
            per_record=per_record,
        )
    ]


def _event(stream_id: str, body: str, *, seq: int = 0, group_id: str = "") -> Event:
    stream = Stream(
        stream_id,
        tenant="local",
        producer="test",
        group_id=group_id,
        policy_version="p0",
        next_seq=seq,
    )
    event = stream.event(NOON)
    getattr(event, body).SetInParent()
    return event
