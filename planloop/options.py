"""What the commands share: their common options, output for people or programs, exit statuses."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from infra.settings import Settings
from schemas.errors import PlanloopError

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="Directory that holds all that the stack keeps (PLANLOOP_STATE, default .planloop).",
        file_okay=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

console = Console(stderr=True)
"""Progress, tables for people while work goes on, and errors; standard output is for results."""


def settings_for(state: Path | None) -> Settings:
    return Settings.load(state=state) if state else Settings.load()


def say(words: str) -> None:
    """A line for people, on standard error."""
    console.print(words, markup=False, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, default=str, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on standard output; numbers to the right."""
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


@contextmanager
def exit_statuses(as_json: bool) -> Iterator[None]:
    """Ends the command with the status of a PlanloopError and says what failed and what to do."""
    try:
        yield
    except PlanloopError as error:
        report(error, as_json)
        raise typer.Exit(error.exit_status) from None


def report(error: PlanloopError, as_json: bool) -> None:
    if as_json:
        print_json({"error": error.message, "failed": error.failed, "remedy": error.remedy})
    else:
        say(f"{error.failed}: {error.message}")
        if error.remedy:
            say(f"  {error.remedy}")


def as_dicts(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Mapping[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]
