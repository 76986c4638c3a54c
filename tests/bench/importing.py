"""Import of a large tau-bench file: read, build, validate, encode, produce, in events/s.

The file is made up in the proportions of the published one: a system prompt of 6 KB in every
run, 26 messages a run, tool results of some 300 bytes. Rates are over wall time and over the
processor time of this process (its one core); the stages say what bounds them.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from infra.log import Producer
from planloop.workers import Site
from producers.importers import tau_bench
from producers.importers.imported import ImportedLog, KeyedEvents, import_log
from producers.importers.reading import read_content
from producers.records import records
from schemas.validation import check
from tests.bench.brokers import Broker, running
from tests.bench.figures import Figure, Section

TASKS = 1000
TRIALS = 4
TURNS = 6
TARGET = 60_000

T = TypeVar("T")


def run(brokers: Sequence[Broker], rounds: int, scale: float) -> Iterator[Section]:
    """Whole imports onto each broker, and what each stage takes by itself."""
    for broker in brokers:
        with running(broker) as site, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "large.json"
            path.write_bytes(json.dumps(_runs(int(TASKS * scale))).encode())
            yield _measure(path, site, broker, rounds)


def _measure(path: Path, site: Site, broker: Broker, rounds: int) -> Section:
    wall: list[float] = []
    cpu: list[float] = []
    stages: dict[str, list[float]] = {}
    events = 0
    for round_ in range(rounds):
        started, processor = time.perf_counter(), time.process_time()
        events = _import(path, site.endpoints.kafka, f"bench-{round_}")
        wall.append(events / (time.perf_counter() - started))
        cpu.append(events / (time.process_time() - processor))
        for name, seconds in _stages(path).items():
            stages.setdefault(name, []).append(seconds / events * 1e6)
    section = Section(f"import of tau-bench onto {broker}, {events:,} events")
    section.figures.append(Figure.of("import", wall, "events/s", "Python", cpu=cpu, target=TARGET))
    section.figures += [
        Figure.of(f"of which {name}", values, "CPU µs an event") for name, values in stages.items()
    ]
    section.notes.append("the target is for one core: compare it with the figure by CPU")
    return section


def _import(path: Path, bootstrap: str, tenant: str) -> int:
    producer = Producer(bootstrap)
    report = import_log(tau_bench.read(path, tenant=tenant), producer, _nothing)
    producer.close()
    return report.new


def _nothing(_: Sequence[str]) -> dict[str, int]:
    return {}


def _stages(path: Path) -> dict[str, float]:
    """Processor seconds of each stage by itself; producing is what is left of the whole."""
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        started = time.process_time()
        result = work()
        seconds[name] = time.process_time() - started
        return result

    timed("read file and digest", lambda: read_content(path))
    log: ImportedLog = timed("all of reading", lambda: tau_bench.read(path))
    keyed: list[KeyedEvents] = timed("build", lambda: list(log.build()))
    timed("validate", lambda: [check(e, k.topic, k.key) for k in keyed for e in k.events])
    timed("encode", lambda: [value for k in keyed for value in records(k.events)])
    return seconds


def _runs(tasks: int) -> list[dict[str, Any]]:
    policy = "As an airline agent, you can help. " + "Read the policy before you act. " * 190
    return [_run(task, trial, policy) for trial in range(TRIALS) for task in range(tasks)]


def _run(task: int, trial: int, policy: str) -> dict[str, Any]:
    actions = [{"name": "get_reservation_details", "kwargs": {"reservation_id": f"R{task}-0"}}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": policy},
        {"role": "user", "content": "Hello, I would like to change one of my bookings, please."},
    ]
    for turn in range(TURNS):
        arguments = json.dumps({"reservation_id": f"R{task}-{turn}"})
        call_id = f"call_{task:06d}{trial}{turn:016d}"
        function = {"name": "get_reservation_details", "arguments": arguments}
        result = json.dumps({"reservation_id": f"R{task}-{turn}", "flights": ["HAT136"] * 28})
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {
                "role": "tool",
                "tool_call_id": call_id,
                "name": "get_reservation_details",
                "content": result,
            },
            {"role": "assistant", "content": "I have found it. " * 8},
            {"role": "user", "content": "Thank you. Then please go on with the next one."},
        ]
    reward = float((task + trial) % 2)
    return {
        "task_id": task,
        "trial": trial,
        "reward": reward,
        "info": {
            "task": {"instruction": f"Task {task}.", "actions": actions, "outputs": []},
            "reward_info": {"reward": reward},
        },
        "traj": messages,
    }
