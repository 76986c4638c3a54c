"""tau2-bench result files: tasks, simulations, and how each simulation was judged.

Times are measured, but written without a zone: they are read as UTC, so that differences
are right and the hour of day may not be. The user of a simulation has tools too; what
the user does with them is recorded as another actor's steps, never as the policy's. The
same holds for the greeting that opens every conversation: the harness wrote it, no model.

Verified progress is the share of satisfied checks, whichever of them the reward is based on.
"""

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from producers.episode import EpisodeWriter
from producers.importers import capabilities
from producers.importers.grouping import LogBuilder, TaskRuns, Trial
from producers.importers.imported import ImportedLog
from producers.importers.reading import decode, read_content
from producers.importers.tau2_format import (
    TERMINATIONS,
    Check,
    Criteria,
    EnvironmentInfo,
    Message,
    Results,
    RewardInfo,
    Simulation,
    Task,
    ToolCall,
    check_results,
    moment,
)
from producers.schedules import default_schedule
from schemas.rollout_pb2 import (
    BACKEND_EXTERNAL,
    CLOCK_KIND_MEASURED,
    COST_UNIT_OUTPUT_TOKENS,
    DATA_SPLIT_TRAIN,
    FIDELITY_SIMULATED,
    OBSERVATION_KIND_OTHER_ACTOR,
    OBSERVATION_KIND_TOOL_RESULT,
    DataSplit,
    Schedule,
)

FORMAT = "tau2"


def read(
    path: Path,
    *,
    schedule: Schedule | None = None,
    policy_version: str | None = None,
    tenant: str = "local",
    split: DataSplit = DATA_SPLIT_TRAIN,
) -> ImportedLog:
    """Check a result file whole and give its log: a group per task, an episode per simulation.

    `policy_version` defaults to the model that the file names. Raises ImportRefusedError with
    every contradiction found, InputError if unreadable.
    """
    content = read_content(path)
    results = decode(content, Results)
    check_results(content.source, results)
    info = results.info
    builder = LogBuilder(
        format=FORMAT,
        content=content,
        harness_version=f"tau2-bench/{info.agent_info.implementation}@{info.git_commit[:10]}",
        policy_version=policy_version or info.agent_info.llm,
        schedule=schedule or default_schedule(COST_UNIT_OUTPUT_TOKENS),
        tenant=tenant,
        split=split,
    )
    by_task: dict[str, list[Simulation]] = defaultdict(list)
    for simulation in results.simulations:
        by_task[simulation.task_id].append(simulation)
    tasks = [t for t in results.tasks if t.id in by_task]
    return builder.log([_task_runs(info.environment_info, t, by_task[t.id]) for t in tasks])


def _task_runs(environment: EnvironmentInfo, task: Task, simulations: list[Simulation]) -> TaskRuns:
    criteria = task.evaluation_criteria or Criteria()
    return TaskRuns(
        task_id=task.id,
        goal=_goal(task),
        specification=msgspec.json.encode(task, order="deterministic"),
        opened_at=min(moment(simulation.start_time) for simulation in simulations),
        trials=[
            Trial(simulation.trial, partial(_write, simulation, environment.policy))
            for simulation in sorted(simulations, key=lambda simulation: simulation.trial)
        ],
        capabilities=capabilities.of_expected(
            [str(a.get("name", "")) for a in criteria.actions or []]
        ),
        completion_criteria=_completion_criteria(criteria),
        initial_conditions_json=(
            msgspec.json.encode(task.initial_state, order="deterministic").decode()
            if task.initial_state is not None
            else ""
        ),
        family=environment.domain_name,
    )


def _goal(task: Task) -> str:
    """What the user wants, in the scenario's own words."""
    scenario = task.user_scenario if isinstance(task.user_scenario, dict) else {}
    instructions = scenario.get("instructions")
    if isinstance(instructions, str):
        return instructions
    if not isinstance(instructions, dict):
        return task.ticket or ""
    parts = (
        instructions.get(name) for name in ("reason_for_call", "known_info", "task_instructions")
    )
    return "\n".join(part for part in parts if isinstance(part, str))


def _completion_criteria(criteria: Criteria) -> list[str]:
    """What must hold at the end. The expected actions are one way there, so they are left out."""
    basis = criteria.reward_basis or []
    database = ["the database ends as the expected writes leave it"] if "DB" in basis else []
    return [
        *database,
        *(_assertion(assertion) for assertion in criteria.env_assertions or []),
        *(f"the agent says {text}" for text in criteria.communicate_info or []),
        *(criteria.nl_assertions or []),
    ]


def _assertion(assertion: dict[str, Any]) -> str:
    arguments = msgspec.json.encode(assertion.get("arguments"), order="deterministic").decode()
    return f"{assertion.get('func_name', '')} {arguments}"


class _Call(NamedTuple):
    """A tool call of the agent or of the user, with the event that it became."""

    requestor: str
    call: ToolCall
    event_id: str


def _write(
    simulation: Simulation,
    policy: str,
    episode: EpisodeWriter,
    task_name: str,
    member: int,
    source: str,
) -> None:
    messages = simulation.messages
    greeting = messages[0] if _is_greeting(messages[0]) else None
    body = messages[1:] if greeting else messages
    asked = bool(body) and body[0].role == "user" and not body[0].tool_calls
    at = moment(simulation.start_time)
    episode.start(
        at,
        task_id=task_name,
        member=member,
        backend=BACKEND_EXTERNAL,
        fidelity=FIDELITY_SIMULATED,
        clock=CLOCK_KIND_MEASURED,
        request=(body[0].content or "") if asked else "",
        instructions=policy,
        seed=simulation.seed or 0,
        source=source,
    )
    if greeting:
        at = moment(greeting.timestamp)
        episode.observe(at, greeting.content or "", kind=OBSERVATION_KIND_OTHER_ACTOR)
    if asked:
        at = moment(body[0].timestamp)
    calls: list[_Call] = []
    pending: dict[str, _Call] = {}
    for message in body[1:] if asked else body:
        before, at = at, moment(message.timestamp)
        latency = max(0, at - before)
        if message.role == "tool":
            _observe(episode, at, latency, message, pending[message.id])
            continue
        write = _act if message.role == "assistant" else _other_actor
        pending = write(episode, at, latency, message)
        calls += pending.values()
    _judge(simulation, episode, max(at, moment(simulation.end_time)), calls)


def _is_greeting(message: Message) -> bool:
    return message.role == "assistant" and message.usage is None and not message.tool_calls


def _act(episode: EpisodeWriter, at: int, latency: int, message: Message) -> dict[str, _Call]:
    """The policy's message: an action for each call in it. The tokens are counted once."""
    tokens = message.usage.completion_tokens if message.usage else None
    text = message.content or ""
    if not message.tool_calls:
        episode.act(at, text=text, output_tokens=tokens, latency_us=latency)
        return {}
    cause = episode.last_id
    made: dict[str, _Call] = {}
    for call in message.tool_calls:
        event_id = episode.act(
            at,
            tool=call.name,
            arguments_json=bytes(call.arguments).decode(),
            text=text,
            call_id=call.id,
            output_tokens=tokens,
            latency_us=latency,
            cause=cause,
        )
        made[call.id] = _Call("assistant", call, event_id)
        text, latency, tokens = "", 0, None if tokens is None else 0
    return made


def _other_actor(
    episode: EpisodeWriter, at: int, latency: int, message: Message
) -> dict[str, _Call]:
    """The user's message, or what the user did with tools of the user's own."""
    if not message.tool_calls:
        episode.observe(at, message.content or "", latency_us=latency)
        return {}
    made: dict[str, _Call] = {}
    for call in message.tool_calls:
        event_id = episode.observe(
            at,
            bytes(call.arguments).decode(),
            tool=call.name,
            call_id=call.id,
            kind=OBSERVATION_KIND_OTHER_ACTOR,
            latency_us=latency,
        )
        made[call.id] = _Call("user", call, event_id)
    return made


def _observe(
    episode: EpisodeWriter, at: int, latency: int, message: Message, answered: _Call
) -> None:
    by_policy = answered.requestor == "assistant"
    episode.observe(
        at,
        message.content or "",
        tool=answered.call.name,
        call_id=answered.call.id,
        error_code="tool_error" if message.error else "",
        kind=OBSERVATION_KIND_TOOL_RESULT if by_policy else OBSERVATION_KIND_OTHER_ACTOR,
        latency_us=latency,
        cause=answered.event_id,
    )


def _judge(simulation: Simulation, episode: EpisodeWriter, at: int, calls: list[_Call]) -> None:
    """The verdict of the file, with the calls that bear it out, and the end."""
    info = simulation.reward_info or RewardInfo()
    atoms = _atoms(info)
    evidence = [
        call.event_id
        for check in info.action_checks or []
        if check.action_match and check.action
        for call in calls
        if _is_call(call, check.action)
    ]
    success = info.reward == 1
    met = sum(satisfied for _, satisfied in atoms)
    episode.verify(
        at,
        success=success,
        progress=met / len(atoms) if atoms else float(success),
        verifier=FORMAT,
        evidence=list(dict.fromkeys(evidence)) or [episode.last_id],
        atoms=atoms,
    )
    termination, failed = TERMINATIONS[simulation.termination_reason or ""]
    episode.end(at, termination, failed=failed, detail=simulation.termination_reason or "")


def _atoms(info: RewardInfo) -> list[tuple[str, bool]]:
    """Every check of the verdict with its outcome."""
    database = [("database", info.db_check.db_match)] if info.db_check else []
    checks: list[tuple[str, Check]] = [
        *((f"action {(c.action or {}).get('action_id', '')}", c) for c in info.action_checks or []),
        *((_assertion(c.env_assertion or {}), c) for c in info.env_assertions or []),
        *((c.nl_assertion or "", c) for c in info.nl_assertions or []),
        *((f"says {c.info}", c) for c in info.communicate_checks or []),
    ]
    return database + [(name, bool(c.action_match or c.met)) for name, c in checks]


def _is_call(call: _Call, action: dict[str, Any]) -> bool:
    """Whether a call is the expected action, in the arguments that the check compares."""
    if call.call.name != action.get("name") or call.requestor != action.get("requestor"):
        return False
    wanted = action.get("arguments") or {}
    given = msgspec.json.decode(call.call.arguments)
    compared = action.get("compare_args")
    if compared is None:
        return given == wanted
    return isinstance(given, dict) and all(given.get(k) == wanted.get(k) for k in compared)
