"""From a file's tasks and trials to a log: one group a task, one episode a trial.

All identities are minted here from the file's content, the importing caller's choices
(policy, schedule, tenant, split) and the harness, so that importing a content twice gives the
same events to the byte. A task's own specification is named by what it says, so that two
files that ran the same task share it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from producers.episode import EpisodeWriter
from producers.importers.imported import ImportedLog, KeyedEvents
from producers.importers.reading import Content
from producers.minting import mint, readable, short_digest
from producers.schedules import schedule_version
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.rollout_pb2 import DataSplit, Schedule
from schemas.topics import ROLLOUTS, TASKS

VERSION = "1"
"""producer_version of every imported event: changes when an importer writes other events."""

EPOCH = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z in microseconds: where times start that a source does not have."""

SECOND = 1_000_000
HOUR = 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a task. `write(episode, task_name, member, source)` writes its events."""

    number: int
    write: Callable[[EpisodeWriter, str, int, str], None]


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """A task and its trials. `specification` is the source's own, canonically encoded;
    `opened_at` is UTC microseconds."""

    task_id: str
    goal: str
    specification: bytes
    opened_at: int
    trials: Sequence[Trial]
    capabilities: Sequence[str]
    completion_criteria: Sequence[str] = ()
    resources: Sequence[str] = ()
    initial_conditions_json: str = ""
    family: str = ""


@dataclass(slots=True)
class LogBuilder:
    """Makes the ImportedLog of one file."""

    format: str
    content: Content
    harness_version: str
    policy_version: str
    schedule: Schedule
    tenant: str
    split: DataSplit
    _schedule_version: str = field(init=False)
    _minted: str = field(init=False)

    def __post_init__(self) -> None:
        self._schedule_version = schedule_version(self.schedule)
        self._minted = mint(
            [
                self.format,
                self.content.digest,
                self.harness_version,
                self.policy_version,
                self._schedule_version,
                self.tenant,
                str(self.split),
            ]
        )

    def log(self, tasks: Sequence[TaskRuns]) -> ImportedLog:
        return ImportedLog(
            source=f"{self.format}:{self.content.source}",
            digest=self.content.digest,
            groups=len(tasks),
            episodes=sum(len(task.trials) for task in tasks),
            streams=[stream for task in tasks for stream in self._streams(task)],
            build=lambda: self._build(tasks),
        )

    def _build(self, tasks: Sequence[TaskRuns]) -> Iterator[KeyedEvents]:
        for task in tasks:
            yield self._specified(task)
            yield self._group(task)

    def _streams(self, task: TaskRuns) -> list[str]:
        group_id = self._group_id(task)
        episodes = [_episode_id(group_id, trial) for trial in task.trials]
        return [f"task:{self._task_name(task)}", group_id, *episodes]

    def _task_name(self, task: TaskRuns) -> str:
        return f"{self.format}:{readable(task.task_id)}@{short_digest(task.specification, 8)}"

    def _group_id(self, task: TaskRuns) -> str:
        return f"{self.format}:{self._minted}:task-{readable(task.task_id)}"

    def _specified(self, task: TaskRuns) -> KeyedEvents:
        name = self._task_name(task)
        stream = Stream(
            f"task:{name}",
            tenant=self.tenant,
            producer=f"import/{self.format}",
            producer_version=VERSION,
        )
        event = stream.event(EPOCH)
        body = event.task_specified
        body.task_id = name
        body.goal = task.goal
        body.resources.extend(task.resources)
        body.initial_conditions_json = task.initial_conditions_json
        body.capabilities.extend(task.capabilities)
        body.completion_criteria.extend(task.completion_criteria)
        body.family = task.family
        body.split = self.split
        body.digest = short_digest(task.specification, 64)
        body.source = f"{self.format}/{task.task_id}"
        return KeyedEvents(TASKS, stream.stream_id, [event])

    def _group(self, task: TaskRuns) -> KeyedEvents:
        group_id = self._group_id(task)
        name = self._task_name(task)
        opened = self._stream(group_id, group_id).event(task.opened_at)
        events: list[Event] = [opened]
        for member, trial in enumerate(task.trials):
            episode = self._stream(_episode_id(group_id, trial), group_id)
            source = f"sha256:{self.content.digest}#{task.task_id}/{trial.number}"
            trial.write(EpisodeWriter(episode, events.append), name, member, source)
        body = opened.group_opened
        body.task_id = name
        # A group of one has no baseline: it waits for a second member until its deadline.
        body.size = max(2, len(task.trials))
        body.deadline = max(event.occurred_at for event in events) + HOUR
        body.schedule.CopyFrom(self.schedule)
        body.capabilities.extend(task.capabilities)
        body.split = self.split
        return KeyedEvents(ROLLOUTS, group_id, events)

    def _stream(self, stream_id: str, group_id: str) -> Stream:
        return Stream(
            stream_id,
            tenant=self.tenant,
            producer=f"import/{self.format}",
            producer_version=VERSION,
            group_id=group_id,
            policy_version=self.policy_version,
            harness_version=self.harness_version,
            schedule_version=self._schedule_version,
        )


def _episode_id(group_id: str, trial: Trial) -> str:
    return f"{group_id}:trial-{trial.number}"
