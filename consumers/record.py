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
    EpisodeStarted,
    FailureDiagnosed,
)
from schemas.training_pb2 import (
    TURN_ROLE_OTHER_ACTOR,
    TURN_ROLE_POLICY,
    TURN_ROLE_TOOL,
    TURN_ROLE_USER,
    Turn,
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


class Trajectory:
    """The turns of an episode, with each tool call paired with what came back.

    `answers` maps the index of a call in `turns` to the index of its result: by call_id
    where the call has one, else in order. A result that pairs with no call stays a turn.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.turns: list[Turn] = [turn for event in events if (turn := _turn(event)) is not None]
        self.answers: dict[int, int] = {}
        waiting: list[int] = []
        for index, turn in enumerate(self.turns):
            if is_call(turn):
                waiting.append(index)
            elif turn.role == TURN_ROLE_TOOL:
                for call in waiting:
                    if self.turns[call].call_id == turn.call_id:
                        self.answers[call] = index
                        waiting.remove(call)
                        break

    @property
    def policy_turns(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.role == TURN_ROLE_POLICY]

    def failed(self, call: int) -> bool:
        answer = self.answers.get(call)
        return answer is not None and self.turns[answer].error_code != ""

    def succeeded(self, call: int) -> bool:
        answer = self.answers.get(call)
        return answer is not None and self.turns[answer].error_code == ""

    def calls(self) -> list[int]:
        return [index for index, turn in enumerate(self.turns) if is_call(turn)]

    def unanswered(self) -> list[Turn]:
        """Tool calls without a result although the policy acted again behind the turn."""
        policy = [i for i, turn in enumerate(self.turns) if turn.role == TURN_ROLE_POLICY]
        final = policy[-1] if policy else -1
        return [
            self.turns[call] for call in self.calls() if call not in self.answers and call != final
        ]

    def repairs(self) -> list[int]:
        """Calls that succeeded right after their tool had returned an error."""
        broken: set[str] = set()
        repairs: list[int] = []
        for call in self.calls():
            tool = self.turns[call].tool
            if self.failed(call):
                broken.add(tool)
            elif tool in broken and self.succeeded(call):
                broken.discard(tool)
                repairs.append(call)
        return repairs


def is_call(turn: Turn) -> bool:
    return turn.role == TURN_ROLE_POLICY and turn.action == ACTION_KIND_TOOL_CALL


def arguments(turn: Turn) -> bytes | None:
    """The arguments of a call as JSON with sorted keys; None where they are not an object."""
    try:
        parsed = orjson.loads(turn.arguments_json)
    except ValueError:
        return None
    return orjson.dumps(parsed, option=orjson.OPT_SORT_KEYS) if isinstance(parsed, dict) else None


def malformed(turn: Turn) -> bool:
    """A call that no tool could take: without a name, or its arguments are not an object."""
    return is_call(turn) and (turn.tool == "" or arguments(turn) is None)


def erroneous(trajectory: Trajectory, diagnoses: Sequence[FailureDiagnosed]) -> set[int]:
    """Sequence numbers of the policy turns without loss (the set E of equation 4).

    A turn that a diagnosis names as the recovery is never among them. A call that was seen
    to repair an error is only there if a diagnosis names that very turn.
    """
    turns = trajectory.turns
    masked = {seq for diagnosis in diagnoses for seq in diagnosis.erroneous_seqs}
    tried: set[tuple[str, bytes | None]] = set()
    for call in trajectory.calls():
        turn = turns[call]
        attempt = (turn.tool, arguments(turn))
        if trajectory.failed(call):
            tried.add(attempt)
            masked.add(turn.seq)
        elif malformed(turn) or (attempt in tried and not trajectory.succeeded(call)):
            masked.add(turn.seq)
    masked &= {turn.seq for turn in trajectory.policy_turns}
    return masked - {d.recovery_seq for d in diagnoses if d.HasField("recovery_seq")}


def capabilities(trajectory: Trajectory, declared: Iterable[str]) -> list[str]:
    """Sorted tags, after the rules at the head of this module."""
    tags = set(declared)
    turns = trajectory.turns
    tools = {turns[call].tool for call in trajectory.calls() if trajectory.succeeded(call)}
    policy = trajectory.policy_turns
    if tools:
        tags.add("tool_use")
    if len(tools) > 1:
        tags.add("multi_tool")
    if len(policy) >= MULTI_STEP_TURNS:
        tags.add("multi_step")
    if trajectory.repairs():
        tags.add("recovery")
    if policy and any(t.role == TURN_ROLE_USER and t.seq > policy[0].seq for t in turns):
        tags.add("multi_turn")
    tags.update(_SHOWN_BY_KIND[turn.action] for turn in policy if turn.action in _SHOWN_BY_KIND)
    return sorted(tags)


def content_digest(started: EpisodeStarted, trajectory: Trajectory) -> str:
    """SHA-256 of what was said and done, lower-case hex: equal for a trajectory told twice.

    Identities, clocks, call ids, tokens and JSON key order do not count; the order of the
    turns and which result belongs to which call do.
    """
    call_of = {answer: call for call, answer in trajectory.answers.items()}
    said: list[object] = [started.task_id, started.instructions, started.request]
    for index, turn in enumerate(trajectory.turns):
        given = arguments(turn) if is_call(turn) else None
        said.append(
            [
                int(turn.role),
                int(turn.action),
                turn.tool,
                turn.arguments_json if given is None else given.decode(),
                turn.text.strip(),
                turn.error_code,
                call_of.get(index, -1),
            ]
        )
    return hashlib.sha256(orjson.dumps(said)).hexdigest()


def _turn(event: Event) -> Turn | None:
    body = event.WhichOneof("body")
    if body == "action_taken":
        action = event.action_taken
        return Turn(
            seq=event.seq,
            event_id=event.event_id,
            role=TURN_ROLE_POLICY,
            action=action.kind,
            tool=action.tool,
            arguments_json=action.arguments_json,
            text=action.text,
            call_id=action.call_id,
            token_ids=action.token_ids,
            logprobs=action.logprobs,
        )
    if body == "observation_received":
        seen = event.observation_received
        return Turn(
            seq=event.seq,
            event_id=event.event_id,
            role=_ROLES.get(seen.kind, TURN_ROLE_OTHER_ACTOR),
            tool=seen.tool,
            text=seen.content,
            call_id=seen.call_id,
            error_code=seen.error_code,
            token_ids=seen.token_ids,
        )
    return None
