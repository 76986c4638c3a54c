"""From rollouts on the log to scored groups on the log, against a plain loop and two frameworks.

Everything reads the same kind of records and ends with the same groups, which are compared with
what the workload was made to give. On each broker and for each size of record, contenders take
turns; the slow ones read shorter topics.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from infra.log import read_range
from planloop.workers import Site
from producers.schedules import default_schedule
from producers.workload import EVENTS_PER_GROUP, SIZE
from schemas.event_pb2 import EventBatch
from schemas.rollout_pb2 import COST_UNIT_OUTPUT_TOKENS
from schemas.topics import COMPETENCE, CURATION, GROUPS
from streams.care import Phi, regime_of
from tests.bench.brokers import Broker, Filled, emptied, filled, running
from tests.bench.figures import Section
from tests.bench.peers.setup import interpreter
from tests.bench.race import Contender, Result, race, rates, ratio
from tests.bench.stopwatch import Task

_TARGETS = {"plain loop": 0.7, "plain loop, no index": 0.7, "Quix Streams": 3.0, "Faust": 20.0}
"""What planloop's rate should be over theirs."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many events each contender reads at one size of record: a rate of some seconds."""

    per_record: int
    events: int
    all_folds: int
    quix: int
    faust: int


LOADS = (
    Load(per_record=25, events=1_000_000, all_folds=50_000, quix=500_000, faust=100_000),
    Load(per_record=1, events=400_000, all_folds=50_000, quix=100_000, faust=20_000),
)


def run(brokers: Sequence[Broker], rounds: int, scale: float) -> Iterator[Section]:
    """A section for each broker and size of record; `scale` multiplies the events."""
    for broker in brokers:
        with running(broker) as site:
            for load in LOADS:
                yield _measure(site, broker, load, rounds, scale)


def _measure(site: Site, broker: Broker, load: Load, rounds: int, scale: float) -> Section:
    def fill(events: int, *, index: bool = True) -> Filled:
        return filled(site, int(events * scale), load.per_record, index=index)

    main, bare = fill(load.events), fill(load.events, index=False)
    ours = planloop(site, "planloop", main, "groups")
    contenders = [
        _reader(site, "consume alone", main, "consume"),
        _reader(site, "consume and parse", main, "parse"),
        _reader(site, "plain loop", main, "fold"),
        _reader(site, "plain loop, no index", bare, "fold"),
        ours,
        planloop(site, "planloop, no index", bare, "groups"),
        planloop(site, "planloop, all folds", fill(load.all_folds), "all"),
        _framework(site, "Quix Streams", "quix_frame", fill(load.quix)),
        _framework(site, "Faust", "faust_agent", fill(load.faust)),
    ]
    runs = race(contenders, rounds)
    section = Section(
        f"engine on {broker}, {load.per_record} a record, {main.size:.0f} bytes an event"
    )
    section.figures += [rates(contender, runs[contender.name]) for contender in contenders]
    for base, target in _TARGETS.items():
        measured = next(c for c in contenders if c.name == base)
        section.figures.append(ratio(ours, measured, runs, target))
    short = [f"{c.name} {c.task.events:,}" for c in contenders if c.task.events < main.events]
    section.notes.append(f"{main.events:,} events; shorter topics: {', '.join(short)}")
    return section


def _reader(site: Site, name: str, topic: Filled, mode: str) -> Contender:
    expected = _expected(topic) if mode == "fold" else None
    return Contender(name, "tests.bench.peers.plain", _task(site, topic, mode), expected)


def planloop(site: Site, name: str, topic: Filled, mode: str) -> Contender:
    """The engine over a topic, from its beginning at each run. Modes as in `planloop_engine`."""
    task = _task(site, topic, mode, "bench")

    def prepare() -> None:
        shutil.rmtree(site.settings.state / "checkpoints", ignore_errors=True)
        emptied(site, (GROUPS, CURATION, COMPETENCE))

    return Contender(
        name,
        "tests.bench.planloop_engine",
        task,
        _expected(topic),
        prepare=prepare,
        results=lambda: _scored(site, GROUPS.name),
    )


def _framework(site: Site, name: str, module: str, topic: Filled) -> Contender:
    output = replace(GROUPS, name=f"{GROUPS.name}.{module}")
    return Contender(
        name,
        f"tests.bench.peers.{module}",
        _task(site, topic, "", output.name),
        _expected(topic),
        interpreter(module),
        prepare=lambda: emptied(site, (output,)),
        results=lambda: _scored(site, output.name),
    )


def _task(site: Site, topic: Filled, mode: str, output: str = "") -> Task:
    return Task(
        bootstrap=site.endpoints.kafka,
        topic=topic.topic,
        records=topic.records,
        events=topic.events,
        output=output,
        state=str(site.settings.state),
        mode=mode,
    )


def _expected(topic: Filled) -> frozenset[Result]:
    """What the workload was made to give: group n has (n mod 16) mod 5 successes of 4."""
    phi = Phi.of(default_schedule(COST_UNIT_OUTPUT_TOKENS))
    groups = range(topic.events // EVENTS_PER_GROUP)
    successes = [(number, number % 16 % (SIZE + 1)) for number in groups]
    return frozenset(
        (f"bench-{number:08d}", regime_of(good / SIZE, phi), good) for number, good in successes
    )


def _scored(site: Site, topic: str) -> Iterator[Result]:
    """The results on a topic of scored groups."""
    for records in read_range(site.endpoints.kafka, topic, 0):
        for record in records:
            for event in EventBatch.FromString(record.value or b"").events:
                if event.HasField("group_scored"):
                    scored = event.group_scored
                    yield event.group_id, scored.regime, scored.successes
