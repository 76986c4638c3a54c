"""The benchmarks by name; all of them without one."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated

import typer

from tests.bench import engine
from tests.bench.brokers import BROKERS
from tests.bench.figures import Section, print_line, print_section


class Name(StrEnum):
    ENGINE = "engine"


_RUNS: dict[Name, Callable[..., Iterator[Section]]] = {Name.ENGINE: engine.run}


def main(
    names: Annotated[list[Name] | None, typer.Argument()] = None,
    broker: Annotated[list[str] | None, typer.Option(help="tansu, kafka; both by default.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions of each measurement.")] = 5,
    scale: Annotated[float, typer.Option(help="Multiplies the number of events.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a section.")] = False,
) -> None:
    brokers = broker or list(BROKERS)
    for name in names or list(Name):
        for section in _RUNS[name](brokers, rounds, scale):
            (print_line if as_json else print_section)(section)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)
app()
