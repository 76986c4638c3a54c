"""Events as a working rollout writes them, for every test that needs some.

Everything is a function of the arguments: the same call gives the same bytes.
"""

import json
import random
from collections.abc import Sequence

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import (
    ACTION_KIND_FINISH,
    ACTION_KIND_TOOL_CALL,
    BACKEND_SANDBOX,
    CLOCK_KIND_MEASURED,
    COST_UNIT_OUTPUT_TOKENS,
    DATA_SPLIT_TRAIN,
    FIDELITY_EXACT,
    OBSERVATION_KIND_TOOL_RESULT,
    TERMINATION_DONE,
    TERMINATION_ERROR,
    ActionTaken,
    FailureOrigin,
    Schedule,
    Termination,
)

START = 1_764_000_000_000_000
"""2025-11-24 16:00 UTC, in microseconds."""

STEP = 1_000_000
"""Time between two events of an episode, microseconds."""

SCHEDULE = Schedule(
    p_low=0.25,
    p_high=0.75,
    lambda_prog=0.5,
    lambda_eff=0.3,
    cost_unit=COST_UNIT_OUTPUT_TOKENS,
    cost_budget=1000.0,
)

_TOOLS = (
    ("calendar.find", {"day": "monday"}, {"rows": [{"id": 17, "title": "dentist", "at": "10:30"}]}),
    ("calendar.move", {"id": 17, "to": "11:00"}, {"moved": 17}),
    ("contacts.find", {"name": "Ana"}, {"rows": [{"id": 4, "name": "Ana", "phone": "555 0104"}]}),
    ("messages.send", {"to": 4, "text": "I will be late."}, {"sent": True}),
)


def episode_name(group_id: str, member: int) -> str:
    return f"{group_id}/ep-{member}"


def _stream(stream_id: str, group_id: str, tenant: str) -> Stream:
    return Stream(
        stream_id,
        tenant=tenant,
        producer="tests.builders",
        producer_version="1.0",
        group_id=group_id,
        policy_version="p-1",
        harness_version="h-1",
        schedule_version="s-1",
    )


def group_opened(
    group_id: str,
    *,
    task_id: str = "task-1",
    size: int = 4,
    deadline: int = 0,
    tenant: str = "acme",
    schedule: Schedule = SCHEDULE,
    at: int = START,
) -> Event:
    """Event 0 of a group's stream. `deadline` and `at` in UTC microseconds."""
    event = _stream(group_id, group_id, tenant).event(at)
    opened = event.group_opened
    opened.task_id = task_id
    opened.size = size
    opened.deadline = deadline
    opened.schedule.CopyFrom(schedule)
    opened.capabilities.append("scheduling")
    opened.split = DATA_SPLIT_TRAIN
    return event


def good_episode(
    group_id: str,
    member: int,
    *,
    episode_id: str = "",
    task_id: str = "task-1",
    success: bool = True,
    progress: float | None = None,
    tool_calls: int = 3,
    tool_errors: int = 0,
    tokens: int = 20,
    tells_tokens: bool = True,
    termination: Termination = TERMINATION_DONE,
    failed: FailureOrigin | None = None,
    verified: bool = True,
    tenant: str = "acme",
    start: int = START + STEP,
    step: int = STEP,
) -> list[Event]:
    """A complete episode: started, `tool_calls` pairs of action and observation (the first
    `tool_errors` of them failing), a closing message, verdict, ended.

    `tokens` is the number of token ids of each action; 0 gives the actions of a foreign policy,
    which carry no ids. With `tells_tokens` each action states its output tokens. `progress`
    is 1 for a success and 0.5 for a failure unless given.
    """
    episode_id = episode_id or episode_name(group_id, member)
    stream = _stream(episode_id, group_id, tenant)
    random_source = random.Random(episode_id)
    events: list[Event] = []

    def add() -> Event:
        cause = events[-1].event_id if events else ""
        event = stream.event(start + len(events) * step, causation_id=cause)
        events.append(event)
        return event

    started = add().episode_started
    started.episode_id = episode_id
    started.task_id = task_id
    started.member = member
    started.seed = member
    started.backend = BACKEND_SANDBOX
    started.fidelity = FIDELITY_EXACT
    started.clock = CLOCK_KIND_MEASURED
    started.request = "Move my dentist appointment to eleven and tell Ana."
    started.instructions = "You are a phone assistant."
    for call in range(tool_calls):
        tool, arguments, result = _TOOLS[call % len(_TOOLS)]
        action = add().action_taken
        action.kind = ACTION_KIND_TOOL_CALL
        action.tool = tool
        action.arguments_json = json.dumps(arguments)
        action.call_id = f"call-{call}"
        _sample(action, tokens, tells_tokens, random_source)
        observation = add().observation_received
        observation.kind = OBSERVATION_KIND_TOOL_RESULT
        observation.tool = tool
        observation.call_id = f"call-{call}"
        observation.latency_us = 900
        if call < tool_errors:
            observation.error_code = "NOT_FOUND"
        else:
            observation.content = json.dumps(result)
    closing = add().action_taken
    closing.kind = ACTION_KIND_FINISH
    closing.text = "Done: the dentist is at eleven and Ana knows."
    _sample(closing, tokens, tells_tokens, random_source)
    proof = events[-1].event_id
    if verified:
        verdict = add().verification_made
        verdict.verifier = "rules/1"
        verdict.success = success
        verdict.progress = (1.0 if success else 0.5) if progress is None else progress
        verdict.confidence = 1.0
        verdict.evidence.append(proof)
        verdict.atoms.add(name="moved", satisfied=True)
        verdict.atoms.add(name="told", satisfied=success)
    ended = add().episode_ended
    ended.termination = termination
    if failed is not None:
        ended.failed = failed
    elif termination == TERMINATION_ERROR:
        raise ValueError("an episode that ends in an error says who failed")
    return events


def _sample(action: ActionTaken, tokens: int, tells: bool, random_source: random.Random) -> None:
    """Give an action what a sampler leaves behind."""
    action.latency_us = 250_000
    if tells:
        action.output_tokens = tokens
    if tokens:
        action.token_ids.extend(random_source.randrange(1500) for _ in range(tokens))
        action.logprobs.extend(-random_source.random() for _ in range(tokens))
        action.policy_spans.add(policy_version="p-1", start=0, end=tokens)


def good_group(
    group_id: str,
    *,
    successes: Sequence[bool] = (True, True, False, False),
    progress: Sequence[float] | None = None,
    tokens: Sequence[int] | None = None,
    task_id: str = "task-1",
    deadline: int = 0,
    tenant: str = "acme",
    schedule: Schedule = SCHEDULE,
    start: int = START,
    tool_calls: int = 3,
) -> list[Event]:
    """An opened group and one complete episode a member, one behind the other.

    `progress` and `tokens` (for each action) go by member, as `successes` does, whose length
    is the group's size.
    """
    opened = group_opened(
        group_id,
        task_id=task_id,
        size=len(successes),
        deadline=deadline,
        tenant=tenant,
        schedule=schedule,
        at=start,
    )
    events = [opened]
    for member, success in enumerate(successes):
        events += good_episode(
            group_id,
            member,
            task_id=task_id,
            success=success,
            progress=None if progress is None else progress[member],
            tokens=20 if tokens is None else tokens[member],
            tool_calls=tool_calls,
            tenant=tenant,
            start=events[-1].occurred_at + STEP,
        )
    return events


def by_stream(events: Sequence[Event]) -> list[list[Event]]:
    """Events grouped by stream, in the order in which streams appear: one record each."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.stream_id, []).append(event)
    return list(streams.values())
