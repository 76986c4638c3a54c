"""A small log of the project's own making: seeded episodes of a phone agent, good and bad.

Tasks come in three kinds of difficulty, so that groups fall into all three regimes. An
agent takes wrong tools and wrong arguments, is told so, recovers or does not, and is
sometimes told "done" although nothing happened. A few executions break for reasons that are
not the agent's, and are refilled. The same arguments give the same events to the byte.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from producers.episode import EpisodeWriter
from producers.importers.imported import ImportedLog, KeyedEvents
from producers.minting import mint
from producers.scenarios import TOOLS, Scenario, Step, scenario
from producers.schedules import default_schedule, schedule_version
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import (
    ACTION_KIND_FINISH,
    BACKEND_SIMULATOR,
    CLOCK_KIND_SYNTHETIC,
    COST_UNIT_OUTPUT_TOKENS,
    DATA_SPLIT_TRAIN,
    FAILURE_ORIGIN_ENVIRONMENT,
    FAILURE_ORIGIN_INFRASTRUCTURE,
    FAILURE_ORIGIN_MODEL,
    FIDELITY_SIMULATED,
    TERMINATION_DONE,
    TERMINATION_ERROR,
    FailureOrigin,
    Schedule,
)
from schemas.topics import ROLLOUTS, TASKS

EPOCH = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z in microseconds, when the first group is opened."""
SECOND = 1_000_000
HOUR = 3600 * SECOND

SLIPS = (0.04, 0.25, 0.7)
"""How likely a step goes wrong for good: tasks that are mastered, unstable, out of reach."""

BROKEN = 0.04
"""Share of executions that break for reasons that are not the agent's."""

INSTRUCTIONS = (
    "You act on the user's phone. Call one tool at a time, read its answer, "
    "and say when you are done."
)


@dataclass(frozen=True, slots=True)
class _Member:
    """One execution of a group: its name, and who broke it if somebody did."""

    name: str
    broken_by: FailureOrigin | None


@dataclass(frozen=True, slots=True)
class _Group:
    group_id: str
    task_id: str
    opened_at: int
    slip: float
    scenario: Scenario
    members: list[_Member]


def generate(
    seed: int,
    groups: int,
    size: int,
    *,
    schedule: Schedule | None = None,
    policy_version: str = "generated",
    tenant: str = "local",
) -> ImportedLog:
    """A log of `groups` groups with `size` valid episodes each, and the broken ones besides."""
    schedule = schedule or default_schedule(COST_UNIT_OUTPUT_TOKENS)
    envelope: dict[str, Any] = {
        "tenant": tenant,
        "producer": "generator",
        "producer_version": "1",
        "policy_version": policy_version,
        "harness_version": "generator/1",
        "schedule_version": schedule_version(schedule),
    }
    minted = mint([str(seed), str(size), *envelope.values()])
    planned = [_plan(seed, number, size, minted) for number in range(groups)]

    def build() -> Iterator[KeyedEvents]:
        for group in planned:
            yield _task(group, tenant)
            yield _rollouts(seed, group, size, schedule, envelope)

    return ImportedLog(
        source=f"generator:{seed}",
        digest=minted,
        groups=groups,
        episodes=sum(len(group.members) for group in planned),
        streams=[stream for group in planned for stream in _streams(group)],
        build=build,
    )


def _plan(seed: int, number: int, size: int, minted: str) -> _Group:
    random = Random(f"{seed}/{number}")  # noqa: S311
    members: list[_Member] = []
    valid = 0
    while valid < size:
        broken_by = None
        if random.random() < BROKEN:
            broken_by = random.choice((FAILURE_ORIGIN_ENVIRONMENT, FAILURE_ORIGIN_INFRASTRUCTURE))
        members.append(_Member(f"episode-{len(members)}", broken_by))
        valid += broken_by is None
    return _Group(
        group_id=f"generated:{minted}:group-{number}",
        task_id=f"generated:{seed}-{number}",
        opened_at=EPOCH + number * 10 * SECOND,
        slip=random.choice(SLIPS),
        scenario=scenario(random),
        members=members,
    )


def _streams(group: _Group) -> list[str]:
    episodes = [f"{group.group_id}:{member.name}" for member in group.members]
    return [f"task:{group.task_id}", group.group_id, *episodes]


def _task(group: _Group, tenant: str) -> KeyedEvents:
    stream = Stream(
        f"task:{group.task_id}", tenant=tenant, producer="generator", producer_version="1"
    )
    event = stream.event(group.opened_at)
    body = event.task_specified
    body.task_id = group.task_id
    body.goal = group.scenario.request
    body.resources.extend(tool for app in group.scenario.apps for tool in TOOLS[app])
    body.capabilities.extend(group.scenario.capabilities)
    body.completion_criteria.extend(group.scenario.goals)
    body.family = group.scenario.family
    body.split = DATA_SPLIT_TRAIN
    body.source = "generator"
    return KeyedEvents(TASKS, stream.stream_id, [event])


def _rollouts(
    seed: int, group: _Group, size: int, schedule: Schedule, envelope: dict[str, Any]
) -> KeyedEvents:
    group_id = group.group_id
    opened = Stream(group_id, group_id=group_id, **envelope).event(group.opened_at)
    body = opened.group_opened
    body.task_id = group.task_id
    body.size = size
    body.deadline = group.opened_at + HOUR
    body.schedule.CopyFrom(schedule)
    body.capabilities.extend(group.scenario.capabilities)
    body.split = DATA_SPLIT_TRAIN
    events = [opened]
    for number, member in enumerate(group.members):
        stream = Stream(f"{group_id}:{member.name}", group_id=group_id, **envelope)
        random = Random(f"{seed}/{group_id}/{number}")  # noqa: S311
        _Execution(random, group, stream, events.append).run(number, member)
    return KeyedEvents(ROLLOUTS, group_id, events)


class _Execution:
    """One execution, told event by event."""

    def __init__(
        self, random: Random, group: _Group, stream: Stream, emit: Callable[[Event], object]
    ) -> None:
        self._random = random
        self._group = group
        self._episode = EpisodeWriter(stream, emit)
        self._at = group.opened_at
        self._calls = 0
        self._wrong: list[int] = []
        self._recovered: int | None = None
        self._kind = "tool_routing"

    def run(self, number: int, member: _Member) -> None:
        group = self._group
        self._episode.start(
            self._tick(0.2),
            task_id=group.task_id,
            member=number,
            backend=BACKEND_SIMULATOR,
            fidelity=FIDELITY_SIMULATED,
            clock=CLOCK_KIND_SYNTHETIC,
            request=group.scenario.request,
            instructions=INSTRUCTIONS,
            seed=number,
        )
        breaks_at = self._random.randrange(len(group.scenario.plan)) if member.broken_by else -1
        atoms: list[tuple[str, bool]] = []
        evidence: list[str] = []
        for position, step in enumerate(group.scenario.plan):
            proof = self._step(step)
            if position == breaks_at and member.broken_by:
                self._episode.end(
                    self._tick(5), TERMINATION_ERROR, failed=member.broken_by, detail="lost"
                )
                return
            if step.goal:
                atoms.append((f"{len(atoms)} {step.tool}", proof is not None))
                evidence += [proof] if proof else []
        self._judge(atoms, evidence)

    def _judge(self, atoms: list[tuple[str, bool]], evidence: list[str]) -> None:
        final = self._episode.act(
            self._tick(1),
            kind=ACTION_KIND_FINISH,
            text="That is done.",
            output_tokens=self._random.randrange(8, 24),
            latency_us=400_000,
        )
        success = all(satisfied for _, satisfied in atoms)
        self._episode.verify(
            self._tick(0.1),
            success=success,
            progress=sum(satisfied for _, satisfied in atoms) / len(atoms),
            verifier="generator/state",
            evidence=evidence or [final],
            atoms=atoms,
        )
        if self._wrong:
            self._episode.diagnose(
                self._tick(0.1),
                origin=FAILURE_ORIGIN_MODEL,
                kind=self._kind,
                capability="recovery" if self._recovered is not None else self._kind,
                erroneous_seqs=self._wrong,
                recovery_seq=self._recovered,
                diagnoser="generator/oracle",
            )
        self._episode.end(self._tick(0.1), TERMINATION_DONE)

    def _step(self, step: Step) -> str | None:
        """Carry out a step; the id of the event that achieved it, None if it was not achieved."""
        if self._random.random() >= self._group.slip:
            if self._random.random() < 0.2:
                self._slip(step)
                self._recovered = self._episode.stream.next_seq
            return self._call(step.tool, step.arguments, step.answer)
        if self._random.random() < 0.4:
            # The app says "done" and nothing has happened: only a look would have shown it.
            self._wrong.append(self._episode.stream.next_seq)
            self._kind = "state_tracking"
            self._call(step.tool, step.arguments, '{"status":"accepted"}')
        else:
            self._slip(step)
        return None

    def _slip(self, step: Step) -> None:
        """A call that is wrong, with the error that comes of it."""
        self._wrong.append(self._episode.stream.next_seq)
        if step.arguments and self._random.random() < 0.6:
            name = self._random.choice(sorted(step.arguments))
            self._kind = "argument_grounding"
            wrong = step.arguments | {name: "unknown"}
            self._call(step.tool, wrong, f"{name} is not known", "invalid_argument")
        else:
            others = sorted({t for tools in TOOLS.values() for t in tools} - {step.tool})
            self._kind = "tool_routing"
            tool = self._random.choice(others)
            self._call(tool, step.arguments, f"{tool} cannot do this", "not_supported")

    def _call(self, tool: str, arguments: dict[str, str], answer: str, error_code: str = "") -> str:
        self._calls += 1
        call_id = f"call-{self._calls}"
        tokens = self._random.randrange(24, 160)
        latency = tokens * 11_000
        action = self._episode.act(
            self._tick(latency / SECOND),
            tool=tool,
            arguments_json=json.dumps(arguments, separators=(",", ":")),
            call_id=call_id,
            output_tokens=tokens,
            latency_us=latency,
        )
        took = self._random.randrange(20_000, 900_000)
        self._episode.observe(
            self._tick(took / SECOND),
            answer,
            tool=tool,
            call_id=call_id,
            error_code=error_code,
            latency_us=took,
        )
        return action

    def _tick(self, seconds: float) -> int:
        self._at += int(seconds * SECOND)
        return self._at
