"""The shape of a tau2-bench result file, and what may not be wrong with one."""

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from producers.importers.imported import Findings
from producers.importers.reading import reward_problem
from schemas.events import microseconds
from schemas.rollout_pb2 import (
    FAILURE_ORIGIN_MODEL,
    FAILURE_ORIGIN_UNSPECIFIED,
    TERMINATION_BUDGET,
    TERMINATION_DONE,
    TERMINATION_ERROR,
)

TERMINATIONS = {
    "user_stop": (TERMINATION_DONE, FAILURE_ORIGIN_UNSPECIFIED),
    "agent_stop": (TERMINATION_DONE, FAILURE_ORIGIN_UNSPECIFIED),
    "max_steps": (TERMINATION_BUDGET, FAILURE_ORIGIN_UNSPECIFIED),
    "too_many_errors": (TERMINATION_ERROR, FAILURE_ORIGIN_MODEL),
}
"""How tau2's reasons read here. Errors in its tool calls are the model's own failure."""


class ToolCall(Struct, gc=False):
    id: str
    name: str
    arguments: msgspec.Raw


class Usage(Struct, gc=False):
    completion_tokens: int


class Message(Struct, gc=False):
    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    id: str = ""
    requestor: str = "assistant"
    error: bool = False
    timestamp: str = ""
    usage: Usage | None = None


class Check(Struct, gc=False):
    """One line of a verdict: what was checked differs by kind, whether it held does not."""

    action: dict[str, Any] | None = None
    env_assertion: dict[str, Any] | None = None
    nl_assertion: str | None = None
    info: Any = None
    action_match: bool | None = None
    met: bool | None = None


class DbCheck(Struct, gc=False):
    db_match: bool


class RewardInfo(Struct, gc=False):
    reward: Any = UNSET
    db_check: DbCheck | None = None
    action_checks: list[Check] | None = None
    env_assertions: list[Check] | None = None
    nl_assertions: list[Check] | None = None
    communicate_checks: list[Check] | None = None
    reward_breakdown: dict[str, Any] | None = None


class Simulation(Struct, gc=False):
    task_id: str
    trial: int
    start_time: str
    end_time: str
    messages: list[Message]
    termination_reason: str | None = None
    reward_info: RewardInfo | None = None
    seed: int | None = None


class Criteria(Struct, gc=False):
    actions: list[dict[str, Any]] | None = None
    env_assertions: list[dict[str, Any]] | None = None
    communicate_info: list[str] | None = None
    nl_assertions: list[str] | None = None
    reward_basis: list[str] | None = None


class Task(Struct, gc=False):
    id: str
    user_scenario: Any = None
    ticket: str | None = None
    initial_state: Any = None
    evaluation_criteria: Criteria | None = None


class AgentInfo(Struct, gc=False):
    llm: str
    implementation: str


class EnvironmentInfo(Struct, gc=False):
    domain_name: str
    policy: str = ""


class Info(Struct, gc=False):
    git_commit: str
    agent_info: AgentInfo
    environment_info: EnvironmentInfo


class Results(Struct, gc=False):
    info: Info
    tasks: list[Task]
    simulations: list[Simulation] = field(default_factory=list)


def moment(text: str) -> int:
    """UTC microseconds of an ISO 8601 time, read as UTC where it has no zone; ValueError."""
    time = datetime.fromisoformat(text)
    return microseconds(time if time.tzinfo else time.replace(tzinfo=UTC))


def check_results(source: str, results: Results) -> None:
    """Raise ImportRefusedError if the file contradicts itself."""
    findings = Findings(source)
    tasks: dict[str, int] = {}
    for position, task in enumerate(results.tasks):
        earlier = tasks.setdefault(task.id, position)
        if earlier != position:
            findings.add(f"$.tasks[{position}]", f"task {task.id!r} is also at $.tasks[{earlier}]")
    if not results.simulations:
        findings.add("$.simulations", "no simulations")
    seen: dict[tuple[str, int], int] = {}
    for position, simulation in enumerate(results.simulations):
        where = f"$.simulations[{position}]"
        identity = (simulation.task_id, simulation.trial)
        earlier = seen.setdefault(identity, position)
        if earlier != position:
            what = f"task {identity[0]!r}, trial {identity[1]} is also at $.simulations[{earlier}]"
            findings.add(where, what)
        if simulation.task_id not in tasks:
            findings.add(f"{where}.task_id", f"no task {simulation.task_id!r} in this file")
        if simulation.trial < 0:
            findings.add(f"{where}.trial", f"negative: {simulation.trial}")
        _check_end(findings, where, simulation)
        _check_times(findings, where, simulation)
        _check_messages(findings, where, simulation.messages)
    trials = Counter(task_id for task_id, _ in seen)
    counts = {task_id: trials[task_id] for task_id in tasks}
    if len(set(counts.values())) > 1:
        low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        what = f"task {low!r} has {counts[low]}, task {high!r} has {counts[high]}"
        findings.add("$.simulations", f"unequal numbers of trials: {what}")
    findings.refuse_if_any()


def _check_end(findings: Findings, where: str, simulation: Simulation) -> None:
    reason = simulation.termination_reason
    if reason is None:
        findings.add(f"{where}.termination_reason", "no termination reason")
    elif reason not in TERMINATIONS:
        findings.add(f"{where}.termination_reason", f"unknown: {reason!r}")
    info = simulation.reward_info
    if problem := reward_problem(info.reward if info else None):
        findings.add(f"{where}.reward_info.reward", problem)
    elif info and info.reward_breakdown:
        parts = list(info.reward_breakdown.values())
        wrong = [problem for part in parts if (problem := reward_problem(part))]
        if wrong:
            findings.add(f"{where}.reward_info.reward_breakdown", wrong[0])
        elif not math.isclose(math.prod(parts), info.reward, abs_tol=1e-9):
            what = f"the reward is {info.reward}, its parts multiply to {math.prod(parts)}"
            findings.add(f"{where}.reward_info", what)


def _check_times(findings: Findings, where: str, simulation: Simulation) -> None:
    times = {"start_time": simulation.start_time, "end_time": simulation.end_time}
    for position, message in enumerate(simulation.messages):
        times[f"messages[{position}].timestamp"] = message.timestamp
    read: dict[str, int] = {}
    for name, text in times.items():
        try:
            read[name] = moment(text)
        except (ValueError, OverflowError):
            findings.add(f"{where}.{name}", f"no time: {text[:40]!r}")
    if "start_time" in read and "end_time" in read and read["end_time"] < read["start_time"]:
        findings.add(where, "ends before it starts")


def _check_messages(findings: Findings, where: str, messages: list[Message]) -> None:
    if not any(message.role == "assistant" for message in messages):
        findings.add(f"{where}.messages", "empty trajectory: the agent does nothing")
        return
    waiting: dict[str, int] = {}
    for position, message in enumerate(messages):
        here = f"{where}.messages[{position}]"
        if message.role == "tool":
            if waiting.pop(message.id, None) is None:
                findings.add(here, "a tool result without its call")
            continue
        for call_id, at in waiting.items():
            findings.add(f"{where}.messages[{at}]", f"call {call_id} has no result")
        calls = message.tool_calls or []
        waiting = {call.id: position for call in calls}
        if len(waiting) < len(calls):
            findings.add(here, "two calls under one id")
        if message.role not in ("assistant", "user"):
            findings.add(f"{here}.role", f"unknown role {message.role!r}")
