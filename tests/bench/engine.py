"""From rollouts on the log to scored groups on the log, against a plain loop and two frameworks.

Everything reads the same kind of records and ends with the same groups, which are compared with
what the workload was made to give. On each broker and for each size of record, contenders take
turns; the slow ones read shorter topics.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from infra.log import ensure_topics, read_range
from planloop.workers import Site
from producers.schedules import default_schedule
from producers.workload import EVENTS_PER_GROUP, SIZE
from schemas.event_pb2 import EventBatch
from schemas.rollout_pb2 import COST_UNIT_OUTPUT_TOKENS
from schemas.topics import COMPETENCE, CURATION, GROUPS
from streams.care import Phi, regime_of
from tests.bench.brokers import Filled, emptied, filled, running
from tests.bench.figures import Figure, Section
from tests.bench.peers.setup import interpreter
from tests.bench.race import Contender, Result, race, rates
from tests.bench.stopwatch import Task

OVER_PLAIN, OVER_FAUST, OVER_QUIX = 0.7, 20.0, 3.0
"""What planloop's rate should be of theirs."""


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


def run(brokers: Sequence[str], rounds: int, scale: float) -> Iterator[Section]:
    """A section for each broker and size of record; `scale` multiplies the events."""
    for broker in brokers:
        with running(broker) as site:
            for load in LOADS:
                yield _measure(site, broker, load, rounds, scale)


def _measure(site: Site, broker: str, load: Load, rounds: int, scale: float) -> Section:
    def fill(events: int, *, index: bool = True) -> Filled:
        return filled(site, int(events * scale), load.per_record, index=index)

    main, bare = fill(load.events), fill(load.events, index=False)
    contenders = [
        _reader(site, "consume alone", main, "consume"),
        _reader(site, "consume and parse", main, "parse"),
        _reader(site, "plain loop", main, "fold"),
        _reader(site, "plain loop, no index", bare, "fold"),
        _planloop(site, "planloop", main, "groups"),
        _planloop(site, "planloop, no index", bare, "groups"),
        _planloop(site, "planloop, all folds", fill(load.all_folds), "all"),
        _framework(site, "Quix Streams", "quix", fill(load.quix)),
        _framework(site, "Faust", "faust", fill(load.faust)),
    ]
    runs = race(contenders, rounds)
    section = Section(
        f"engine, {broker}, {load.per_record} a record ({main.bytes_an_event:.0f} bytes an event)",
        [rates(contender, runs[contender.name]) for contender in contenders],
    )
    targets = {
        "plain loop": OVER_PLAIN,
        "plain loop, no index": OVER_PLAIN,
        "Quix Streams": OVER_QUIX,
        "Faust": OVER_FAUST,
    }
    _compare(section, "planloop", targets)
    section.notes.append(
        "; ".join(f"{c.name}: {c.task.events:,} events" for c in contenders if c.task.events < main.events)
    )
    return section
