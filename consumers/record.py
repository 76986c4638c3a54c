"""From a trajectory to a training record: turns, the turns that carry no loss, capability tags.

The set E of equation 4 (`erroneous`) holds the policy turns that a model should not learn to
make: those that a diagnosis names, tool calls that came back with an error code, calls whose
arguments are not a JSON object, and exact repeats of a call that had failed. What an error
is followed by stays: the observation remains in the context, and the turn that repairs it
keeps its loss.

Capability tags are what the group declares plus what the trajectory shows:

    tool_use        a tool call was answered without an error
    multi_step      three or more policy turns
    multi_tool      calls of two or more tools were answered without an error
    recovery        a tool that had returned an error was called again and succeeded
    multi_turn      the user spoke after the policy had acted
    clarification   the policy asked; refusal, memory, skill likewise for those action kinds
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from schemas.event_pb2 import Event
from schemas.rollout_pb2 import (
    ACTION_KIND_CLARIFY,
    ACTION_KIND_MEMORY,
    ACTION_KIND_REFUSE,
    ACTION_KIND_SKILL,
    ACTION_KIND_TOOL_CALL,
    OBSERVATION_KIND_TOOL_RESULT,
    OBSERVATION_KIND_USER_MESSAGE,
    ActionTaken,
    EpisodeStarted,
    FailureDiagnosed,
    ObservationReceived,
)
from schemas.training_pb2 import (
    TURN_ROLE_OTHER_ACTOR,
    TURN_ROLE_POLICY,
    TURN_ROLE_TOOL,
    TURN_ROLE_USER,
    TrainingRecord,
    TurnRole,
)

_ROLES: dict[int, TurnRole] = {
    OBSERVATION_KIND_TOOL_RESULT: TURN_ROLE_TOOL,
    OBSERVATION_KIND_USER_MESSAGE: TURN_ROLE_USER,
}
_SHOWN_BY_KIND: dict[int, str] = {
    ACTION_KIND_CLARIFY: "clarification",
    ACTION_KIND_REFUSE: "refusal",
    ACTION_KIND_MEMORY: "memory",
    ACTION_KIND_SKILL: "skill",
}
MULTI_STEP_TURNS = 3


@dataclass(slots=True)
class Step:
    """A turn as curation looks at it. `arguments` is those of a call as JSON with sorted keys,
    None where they are no object and for what is no call; `answer` is the step that came back."""

    seq: int
    event_id: str
    role: TurnRole
    action: int
    tool: str
    call_id: str
    text: str
    error_code: str
    arguments_json: str
    arguments: bytes | None
    source: ActionTaken | ObservationReceived
    answer: "Step | None" = None

    @property
    def failed(self) -> bool:
        return self.answer is not None and self.answer.error_code != ""

    @property
    def succeeded(self) -> bool:
        return self.answer is not None and self.answer.error_code == ""

    @property
    def malformed(self) -> bool:
        """A call that no tool could take: without a name, or its arguments are no object."""
        return self.tool == "" or self.arguments is None


class Trajectory:
    """The turns of an episode in order, and the events that are no turns.

    A call is paired with the first result of its call_id behind it; without call ids, in
    order. `markers` holds (number of steps before it, body name, event).
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.steps: list[Step] = []
        self.policy: list[Step] = []
        self.calls: list[Step] = []
        self.markers: list[tuple[int, str, Event]] = []
        waiting: list[Step] = []
        for event in events:
            body = event.WhichOneof("body") or ""
            if body == "action_taken":
                step = _acted(event)
                self.policy.append(step)
                if step.action == ACTION_KIND_TOOL_CALL:
                    self.calls.append(step)
                    waiting.append(step)
            elif body == "observation_received":
                step = _observed(event)
                if step.role == TURN_ROLE_TOOL:
                    _answer(waiting, step)
            else:
                self.markers.append((len(self.steps), body, event))
                continue
            self.steps.append(step)

    def unanswered(self) -> list[Step]:
        """Tool calls without a result although the policy acted again behind them."""
        return [c for c in self.calls if c.answer is None and c is not self.policy[-1]]

    def repairs(self) -> list[Step]:
        """Calls that succeeded after their tool had returned an error."""
        broken: set[str] = set()
        repairs: list[Step] = []
        for call in self.calls:
            if call.failed:
                broken.add(call.tool)
            elif call.tool in broken and call.succeeded:
                broken.discard(call.tool)
                repairs.append(call)
        return repairs


def _answer(waiting: list[Step], result: Step) -> None:
    for call in waiting:
        if call.call_id == result.call_id:
            call.answer = result
            waiting.remove(call)
            return


def _acted(event: Event) -> Step:
    action = event.action_taken
    kind, given = action.kind, action.arguments_json
    arguments = _canonical(given) if kind == ACTION_KIND_TOOL_CALL else None
    return Step(
        event.seq,
        event.event_id,
        TURN_ROLE_POLICY,
        kind,
        action.tool,
        action.call_id,
        action.text,
        "",
        given,
        arguments,
        action,
    )


def _canonical(arguments_json: str) -> bytes | None:
    """A JSON object with sorted keys; None for what is none, or is nested beyond reason."""
    try:
        parsed = orjson.loads(arguments_json)
        return (
            orjson.dumps(parsed, option=orjson.OPT_SORT_KEYS) if isinstance(parsed, dict) else None
        )
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _observed(event: Event) -> Step:
    seen = event.observation_received
    return Step(
        event.seq,
        event.event_id,
        _ROLES.get(seen.kind, TURN_ROLE_OTHER_ACTOR),
        0,
        seen.tool,
        seen.call_id,
        seen.content,
        seen.error_code,
        "",
        None,
        seen,
    )


def erroneous(trajectory: Trajectory, diagnoses: Sequence[FailureDiagnosed]) -> set[int]:
    """Sequence numbers of the policy turns without loss (the set E of equation 4).

    A turn that a diagnosis names as the recovery is never among them. A call that was seen
    to repair an error is only there if a diagnosis names that very turn.
    """
    masked = {seq for diagnosis in diagnoses for seq in diagnosis.erroneous_seqs}
    tried: set[tuple[str, bytes | None]] = set()
    for call in trajectory.calls:
        attempt = (call.tool, call.arguments)
        if call.failed:
            tried.add(attempt)
            masked.add(call.seq)
        elif call.malformed or (attempt in tried and not call.succeeded):
            masked.add(call.seq)
    masked &= {step.seq for step in trajectory.policy}
    return masked - {d.recovery_seq for d in diagnoses if d.HasField("recovery_seq")}


def capabilities(trajectory: Trajectory, declared: Iterable[str]) -> list[str]:
    """Sorted tags, after the rules at the head of this module."""
    tags = set(declared)
    tools = {call.tool for call in trajectory.calls if call.succeeded}
    policy = trajectory.policy
    if tools:
        tags.add("tool_use")
    if len(tools) > 1:
        tags.add("multi_tool")
    if len(policy) >= MULTI_STEP_TURNS:
        tags.add("multi_step")
    if trajectory.repairs():
        tags.add("recovery")
    if policy and any(
        step.role == TURN_ROLE_USER and step.seq > policy[0].seq for step in trajectory.steps
    ):
        tags.add("multi_turn")
    tags.update(_SHOWN_BY_KIND[step.action] for step in policy if step.action in _SHOWN_BY_KIND)
    return sorted(tags)


def content_digest(started: EpisodeStarted, trajectory: Trajectory) -> str:
    """SHA-256 of what was said and done, lower-case hex: equal for a trajectory told twice.

    Identities, clocks, call ids, tokens and JSON key order do not count; the order of the
    turns and which result belongs to which call do.
    """
    caller = {id(call.answer): number for number, call in enumerate(trajectory.calls)}
    said: list[object] = [started.task_id, started.instructions, started.request]
    said += [
        [
            int(step.role),
            step.action,
            step.tool,
            step.arguments_json if step.arguments is None else step.arguments.decode(),
            step.text.strip(),
            step.error_code,
            caller.get(id(step), -1),
        ]
        for step in trajectory.steps
    ]
    return hashlib.sha256(orjson.dumps(said)).hexdigest()


def add_turns(record: TrainingRecord, trajectory: Trajectory, masked: set[int]) -> None:
    """Write the trajectory's turns into the record."""
    for step in trajectory.steps:
        turn = record.turns.add(
            seq=step.seq,
            event_id=step.event_id,
            role=step.role,
            action=step.action,  # pyright: ignore[reportArgumentType]  # kept as a number
            tool=step.tool,
            arguments_json=step.arguments_json,
            text=step.text,
            call_id=step.call_id,
            error_code=step.error_code,
            masked=step.seq in masked,
        )
        turn.token_ids.extend(step.source.token_ids)
        if isinstance(step.source, ActionTaken):
            turn.logprobs.extend(step.source.logprobs)
