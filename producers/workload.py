"""The workload that engines are measured with: groups of 4 episodes of 25 events each.

An event takes about 255 bytes: an envelope of 13 fields, and actions with 20 token ids and
log-probabilities. A few groups are built and encoded once; each further one is a copy with
its number written over theirs, so that making millions of events costs neither time nor
memory worth mentioning.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from producers.episode import EpisodeWriter
from producers.schedules import default_schedule, schedule_version
from schemas.batch import encode
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import (
    BACKEND_SIMULATOR,
    CLOCK_KIND_SYNTHETIC,
    COST_UNIT_OUTPUT_TOKENS,
    FIDELITY_SIMULATED,
    TERMINATION_DONE,
    PolicySpan,
)

SIZE = 4
TURNS = 11
EVENTS_PER_GROUP = 1 + SIZE * (2 * TURNS + 3)

_AT = 1_767_225_600_000_000
_NUMBER = "@@@@@@@@"
_TASKS = 16


def bench_records(
    events: int, per_record: int, *, open_groups: int = 64
) -> Iterator[tuple[str, bytes]]:
    """(key, record value) pairs of whole groups, at least `events` events in all.

    `per_record` events of one episode share a record (a group's opening has its own). The
    records of `open_groups` groups are interleaved, as they are where rollouts run in
    parallel. Groups of all regimes alternate.
    """
    templates = [_template(task, per_record) for task in range(_TASKS)]
    groups = -(-events // EVENTS_PER_GROUP)
    for first in range(0, groups, open_groups):
        numbers = range(first, min(first + open_groups, groups))
        keys = {number: f"bench-{number:08d}" for number in numbers}
        for position in count():
            sent = False
            for number in numbers:
                template = templates[number % _TASKS]
                if position < len(template):
                    mine = b"%08d" % number
                    yield keys[number], template[position].replace(_NUMBER.encode(), mine)
                    sent = True
            if not sent:
                break


def _template(task: int, per_record: int) -> list[bytes]:
    """The records of a group whose number is still to be written in."""
    schedule = default_schedule(COST_UNIT_OUTPUT_TOKENS)
    group_id = f"bench-{_NUMBER}"
    envelope: dict[str, Any] = {
        "group_id": group_id,
        "tenant": "local",
        "producer": "bench",
        "producer_version": "1",
        "policy_version": "policy-7",
        "harness_version": "h-3",
        "schedule_version": schedule_version(schedule)[:8],
    }
    opened = Stream(group_id, **envelope).event(_AT)
    opened.group_opened.task_id = f"task-{task}"
    opened.group_opened.size = SIZE
    opened.group_opened.schedule.CopyFrom(schedule)
    values = [encode([opened])]
    for member in range(SIZE):
        episode: list[Event] = []
        stream = Stream(f"{group_id}:{member}", **envelope)
        _episode(EpisodeWriter(stream, episode.append), task, member)
        starts = range(0, len(episode), per_record)
        values += [encode(episode[start : start + per_record]) for start in starts]
    return values


def _episode(episode: EpisodeWriter, task: int, member: int) -> None:
    success = member < task % (SIZE + 1)
    at = _AT + member
    episode.start(
        at,
        task_id=f"task-{task}",
        member=member,
        backend=BACKEND_SIMULATOR,
        fidelity=FIDELITY_SIMULATED,
        clock=CLOCK_KIND_SYNTHETIC,
        request="Move my dentist appointment to 16:30 and let Hana know.",
    )
    for turn in range(TURNS):
        at += 1_000_000
        episode.act(
            at,
            tool="calendar.find_events",
            arguments_json='{"query":"dentist"}',
            output_tokens=20 + member,
            token_ids=[(turn * 37 + i * 91) % 1500 for i in range(20)],
            logprobs=[-0.01 * (i + 1) for i in range(20)],
            policy_spans=[PolicySpan(policy_version="policy-7", start=0, end=20)],
        )
        episode.observe(at + 400_000, '[{"id":"ev-017"}]', tool="calendar.find_events")
    episode.verify(
        at + 500_000,
        success=success,
        progress=1.0 if success else 0.25 * member,
        verifier="bench",
        evidence=[episode.last_id],
    )
    episode.end(at + 600_000, TERMINATION_DONE)
