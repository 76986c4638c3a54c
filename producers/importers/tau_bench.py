"""tau-bench result files: a list of runs, each one trial of one task.

The format knows no times and no token counts. Steps are numbered one second apart from a
fixed moment (ClockKind SYNTHETIC) and the cost unit is steps. It names no model either: the
published logs are GPT-4o's, and whoever imports another model's log says so. A run without
`reward_info` was stopped by the step limit before it could be judged, which tau-bench
counts as a failure; every other run ended by itself.

Verified progress is the share of the task's expected actions that the agent executed with
equal arguments. It is a lower bound: another plan may reach the same end.
"""

import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, field

from producers.episode import EpisodeWriter
from producers.importers import capabilities
from producers.importers.grouping import EPOCH, SECOND, LogBuilder, TaskRuns, Trial
from producers.importers.imported import Findings, ImportedLog
from producers.importers.reading import decode, read_content, reward_problem
from producers.schedules import default_schedule
from schemas.rollout_pb2 import (
    BACKEND_EXTERNAL,
    CLOCK_KIND_SYNTHETIC,
    COST_UNIT_STEPS,
    DATA_SPLIT_TRAIN,
    FIDELITY_SIMULATED,
    OBSERVATION_KIND_OTHER_ACTOR,
    TERMINATION_BUDGET,
    TERMINATION_DONE,
    DataSplit,
    Schedule,
)

FORMAT = "tau-bench"
HARNESS = "tau-bench/tool-calling"


class Function(Struct, gc=False):
    name: str
    arguments: str


class ToolCall(Struct, gc=False):
    id: str
    function: Function


class Message(Struct, gc=False):
    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ExpectedAction(Struct, gc=False):
    name: str
    kwargs: dict[str, Any]


class Task(Struct, gc=False):
    instruction: str
    actions: list[ExpectedAction]
    user_id: str = ""
    outputs: list[Any] = field(default_factory=list)


class RewardInfo(Struct, gc=False):
    reward: Any = UNSET


class Info(Struct, gc=False):
    task: Task
    reward_info: RewardInfo | None = None


class Run(Struct, gc=False):
    task_id: int | str
    trial: int
    info: Info
    traj: list[Message]
    reward: Any = UNSET


def read(
    path: Path,
    *,
    schedule: Schedule | None = None,
    policy_version: str = "gpt-4o",
    tenant: str = "local",
    split: DataSplit = DATA_SPLIT_TRAIN,
) -> ImportedLog:
    """Check a result file whole and give its log: a group per task, an episode per trial.

    Raises ImportRefusedError with every contradiction found, InputError if unreadable.
    """
    content = read_content(path)
    runs = decode(content, list[Run])
    check_runs(content.source, runs)
    builder = LogBuilder(
        format=FORMAT,
        content=content,
        harness_version=HARNESS,
        policy_version=policy_version,
        schedule=schedule or default_schedule(COST_UNIT_STEPS),
        tenant=tenant,
        split=split,
    )
    by_task: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_task[str(run.task_id)].append(run)
    return builder.log([_task_runs(task_id, group) for task_id, group in by_task.items()])


def check_runs(source: str, runs: list[Run]) -> None:
    """Raise ImportRefusedError if the runs contradict themselves or each other."""
    findings = Findings(source)
    if not runs:
        findings.add("$", "no runs")
    seen: dict[tuple[str, int], int] = {}
    first: dict[str, int] = {}
    trials: dict[str, int] = defaultdict(int)
    for position, run in enumerate(runs):
        where = f"$[{position}]"
        task_id = str(run.task_id)
        trials[task_id] += 1
        earlier = seen.setdefault((task_id, run.trial), position)
        if earlier != position:
            what = f"task {task_id}, trial {run.trial} is also at $[{earlier}]"
            findings.add(where, what)
        if run.trial < 0:
            findings.add(f"{where}.trial", f"negative: {run.trial}")
        opened = first.setdefault(task_id, position)
        if run.info.task != runs[opened].info.task:
            findings.add(
                f"{where}.info.task", f"differs from the task of $[{opened}], same task_id"
            )
        _check_reward(findings, where, run)
        _check_trajectory(findings, where, run.traj)
    if trials and len(set(trials.values())) > 1:
        low, high = min(trials, key=trials.__getitem__), max(trials, key=trials.__getitem__)
        what = f"task {low} has {trials[low]} trials, task {high} has {trials[high]}"
        findings.add("$", f"unequal numbers of trials: {what}")
    findings.refuse_if_any()


def _check_reward(findings: Findings, where: str, run: Run) -> None:
    if problem := reward_problem(run.reward):
        findings.add(f"{where}.reward", problem)
    elif run.info.reward_info is None:
        if run.reward != 0:
            findings.add(f"{where}.info.reward_info", f"absent, and the reward is {run.reward}")
    elif run.info.reward_info.reward != run.reward:
        what = f"{run.info.reward_info.reward} where the run says {run.reward}"
        findings.add(f"{where}.info.reward_info.reward", what)


def _check_trajectory(findings: Findings, where: str, messages: list[Message]) -> None:
    if not any(message.role == "assistant" for message in messages):
        findings.add(f"{where}.traj", "empty trajectory: the agent does nothing")
        return
    waiting: dict[str, int] = {}
    for position, message in enumerate(messages):
        role = message.role
        if role == "tool":
            if waiting.pop(message.tool_call_id or "", None) is None:
                findings.add(f"{where}.traj[{position}]", "a tool result without its call")
            continue
        for call_id, at in waiting.items():
            findings.add(f"{where}.traj[{at}]", f"call {call_id} has no result")
        waiting.clear()
        if role == "assistant":
            calls = message.tool_calls or []
            waiting = {call.id: position for call in calls}
            if len(waiting) < len(calls):
                findings.add(f"{where}.traj[{position}]", "two calls under one id")
        elif role not in ("user", "system"):
            findings.add(f"{where}.traj[{position}].role", f"unknown role {role!r}")


def _task_runs(task_id: str, runs: list[Run]) -> TaskRuns:
    task = runs[0].info.task
    domain = re.search(r"As an? (\w+) agent", _text(runs[0].traj, "system"))
    return TaskRuns(
        task_id=task_id,
        goal=task.instruction,
        specification=msgspec.json.encode(task, order="deterministic"),
        opened_at=EPOCH,
        trials=[
            Trial(run.trial, partial(_write, run))
            for run in sorted(runs, key=lambda run: run.trial)
        ],
        capabilities=capabilities.of_expected([action.name for action in task.actions]),
        completion_criteria=[
            "the database ends as the expected writes leave it",
            *(f"the agent says {output}" for output in task.outputs),
        ],
        family=domain[1] if domain else "",
    )


def _text(messages: list[Message], role: str) -> str:
    return "\n".join(message.content or "" for message in messages if message.role == role)


class _Call(NamedTuple):
    """A tool call that was written, with the event that it became."""

    call: ToolCall
    event_id: str


def _write(run: Run, episode: EpisodeWriter, task_name: str, member: int, source: str) -> None:
    opening = next(i for i, message in enumerate(run.traj) if message.role == "assistant")
    episode.start(
        EPOCH,
        task_id=task_name,
        member=member,
        backend=BACKEND_EXTERNAL,
        fidelity=FIDELITY_SIMULATED,
        clock=CLOCK_KIND_SYNTHETIC,
        request=_text(run.traj[:opening], "user"),
        instructions=_text(run.traj[:opening], "system"),
        source=source,
    )
    at = EPOCH
    calls: list[_Call] = []
    pending: dict[str, _Call] = {}
    for message in run.traj[opening:]:
        at += SECOND
        content = message.content or ""
        if message.role == "assistant":
            pending = _act(episode, at, content, message.tool_calls or [])
            calls += pending.values()
        elif message.role == "tool":
            answered = pending[message.tool_call_id or ""]
            episode.observe(
                at,
                content,
                tool=answered.call.function.name,
                call_id=answered.call.id,
                error_code="tool_error" if content.startswith("Error") else "",
                cause=answered.event_id,
            )
        elif message.role == "user":
            episode.observe(at, content)
        else:
            episode.observe(at, content, kind=OBSERVATION_KIND_OTHER_ACTOR)
    _judge(run, episode, at + SECOND, calls)


def _act(episode: EpisodeWriter, at: int, text: str, calls: list[ToolCall]) -> dict[str, _Call]:
    """Write an assistant's message, one action for each call in it, and give its calls."""
    if not calls:
        episode.act(at, text=text)
        return {}
    cause = episode.last_id
    made: dict[str, _Call] = {}
    for call in calls:
        event_id = episode.act(
            at,
            tool=call.function.name,
            arguments_json=call.function.arguments,
            text="" if made else text,
            call_id=call.id,
            cause=cause,
        )
        made[call.id] = _Call(call, event_id)
    return made


def _judge(run: Run, episode: EpisodeWriter, at: int, calls: list[_Call]) -> None:
    """The verdict of the file, with the calls that bear it out, and the end."""
    success = run.reward == 1
    atoms: list[tuple[str, bool]] = []
    evidence: list[str] = []
    for position, action in enumerate(run.info.task.actions):
        match = next((c.event_id for c in calls if _equal(c.call.function, action)), None)
        atoms.append((f"{position} {action.name}", match is not None))
        if match is not None:
            evidence.append(match)
    met = sum(satisfied for _, satisfied in atoms)
    judged = run.info.reward_info is not None
    episode.verify(
        at,
        success=success,
        progress=met / len(atoms) if atoms else float(success),
        verifier=FORMAT,
        evidence=list(dict.fromkeys(evidence)) or [episode.last_id],
        atoms=atoms,
        detail="" if judged else "stopped by the step limit, not judged further",
    )
    episode.end(at, TERMINATION_DONE if judged else TERMINATION_BUDGET)


def _equal(function: Function, action: ExpectedAction) -> bool:
    if function.name != action.name:
        return False
    try:
        return msgspec.json.decode(function.arguments) == action.kwargs
    except msgspec.DecodeError:
        return False
