"""Small rollouts for tests: a group, its episodes, and the records that carry them."""

from collections.abc import Callable, Sequence

from infra.log import Record
from producers.episode import EpisodeWriter
from schemas.batch import encode
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import (
    BACKEND_SANDBOX,
    CLOCK_KIND_MEASURED,
    COST_UNIT_TOOL_CALLS,
    DATA_SPLIT_TRAIN,
    FIDELITY_EXACT,
    TERMINATION_DONE,
    DataSplit,
    GroupOpened,
    Schedule,
)
from schemas.topics import ROLLOUTS

NOON = 1_750_000_000_000_000
SECOND = 1_000_000


def opened(
    group: str, size: int = 2, *, split: DataSplit = DATA_SPLIT_TRAIN, deadline: int = 0
) -> Event:
    stream = Stream(group, tenant="local", producer="test", group_id=group, policy_version="p0")
    event = stream.event(NOON)
    event.group_opened.CopyFrom(
        GroupOpened(
            task_id="task-1",
            size=size,
            deadline=deadline,
            schedule=Schedule(
                p_low=0.25,
                p_high=0.75,
                lambda_prog=0.2,
                lambda_eff=0.1,
                cost_unit=COST_UNIT_TOOL_CALLS,
                cost_budget=20.0,
            ),
            capabilities=["booking"],
            split=split,
        )
    )
    return event


class Rollout:
    """An episode under construction. Every step is a second after the one before."""

    def __init__(self, group: str, episode: str, policy: str = "p0") -> None:
        self.events: list[Event] = []
        stream = Stream(
            episode, tenant="local", producer="test", group_id=group, policy_version=policy
        )
        self.writer = EpisodeWriter(stream, self.events.append)
        self.writer.start(
            self.at,
            task_id="task-1",
            member=0,
            backend=BACKEND_SANDBOX,
            fidelity=FIDELITY_EXACT,
            clock=CLOCK_KIND_MEASURED,
            request="book a flight",
            instructions="be brief",
        )

    @property
    def at(self) -> int:
        return NOON + SECOND * (len(self.events) + 1)

    def call(
        self, tool: str, arguments: str = "{}", result: str | None = "ok", error: str = ""
    ) -> "Rollout":
        """A tool call and what came back; no result where `result` is None."""
        call_id = f"c{len(self.events)}"
        self.writer.act(
            self.at, tool=tool, arguments_json=arguments, call_id=call_id, output_tokens=7
        )
        if result is not None:
            self.writer.observe(self.at, result, tool=tool, call_id=call_id, error_code=error)
        return self

    def say(self, text: str, reply: str | None = None) -> "Rollout":
        self.writer.act(self.at, text=text, output_tokens=5)
        if reply is not None:
            self.writer.observe(self.at, reply)
        return self

    def verdict(
        self, success: bool, *, evidence: Sequence[str] | None = None, confidence: float = 1.0
    ) -> "Rollout":
        """Evidence defaults to the newest event."""
        self.writer.verify(
            self.at,
            success=success,
            progress=1.0 if success else 0.3,
            verifier="rule",
            evidence=[self.writer.last_id] if evidence is None else evidence,
            confidence=confidence,
        )
        return self

    def end(self) -> "Rollout":
        self.writer.end(self.at, TERMINATION_DONE)
        return self


def done(group: str, episode: str, success: bool = True, text: str = "") -> Rollout:
    """A whole small episode; episodes of one `text` are duplicates of each other."""
    rollout = Rollout(group, episode).call("search", '{"to": "JFK"}').call("book", '{"id": 1}')
    return rollout.say(text or episode).verdict(success).end()


def as_records(
    events: Sequence[Event],
    *,
    per_record: int = 5,
    partition: int = 0,
    first_offset: int = 0,
    key: Callable[[Event], str] = ROLLOUTS.key,
    topic: str = ROLLOUTS.name,
) -> list[Record]:
    """Events packed into records of neighbours with equal keys, at consecutive offsets."""
    packed: list[list[Event]] = []
    for event in events:
        if packed and len(packed[-1]) < per_record and key(packed[-1][0]) == key(event):
            packed[-1].append(event)
        else:
            packed.append([event])
    return [
        Record(topic, partition, offset, key(some[0]).encode(), encode(some), NOON + offset)
        for offset, some in enumerate(packed, first_offset)
    ]
