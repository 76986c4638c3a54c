"""The benchmarks by name; all of them without one."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from tests.bench import engine, importing, memory, replay, sink
from tests.bench.brokers import Broker, kafka_home
from tests.bench.figures import Section, print_line, print_section


class Name(StrEnum):
    ENGINE = "engine"
    IMPORT = "import"
    SINK = "sink"
    REPLAY = "replay"
    MEMORY = "memory"


_RUNS: dict[Name, Callable[[Sequence[Broker], int, float], Iterator[Section]]] = {
    Name.ENGINE: engine.run,
    Name.IMPORT: importing.run,
    Name.SINK: sink.run,
    Name.REPLAY: replay.run,
    Name.MEMORY: memory.run,
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[Name] | None, typer.Argument(help="All by default.")] = None,
    broker: Annotated[list[Broker] | None, typer.Option(help="Both by default.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions of each measurement.")] = 5,
    scale: Annotated[float, typer.Option(help="Multiplies the number of events.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a section.")] = False,
) -> None:
    """Measure, in turns, what is compared; nothing is printed before results are equal."""
    # A stack that is left behind would slow down whatever is measured next.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    brokers = broker or list(Broker)
    if Broker.KAFKA in brokers and kafka_home() is None:
        brokers.remove(Broker.KAFKA)
        sys.stderr.write("Apache Kafka is left out: it needs Java 17 and PLANLOOP_KAFKA_HOME\n")
    for name in names or list(Name):
        for section in _RUNS[name](brokers, rounds, scale):
            (print_line if as_json else print_section)(section)


app()
