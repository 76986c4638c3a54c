"""What a benchmark gives: figures in sections, as tables for people and as records for programs."""

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with its spread. `cpu` is the same by the client's processor time in place of the
    wall, `target` what `value` should reach, `bound` what limits it."""

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    cpu: float | None = None
    target: float | None = None
    bound: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        values: Sequence[float],
        unit: str,
        bound: str = "",
        *,
        cpu: Sequence[float] = (),
        target: float | None = None,
    ) -> Self:
        """The median of repetitions."""
        return cls(
            name,
            statistics.median(values),
            unit,
            min(values),
            max(values),
            statistics.median(cpu) if cpu else None,
            target=target,
            bound=bound,
        )


@dataclass(slots=True)
class Section:
    """Figures that were taken together. `notes` are sentences."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def print_section(section: Section) -> None:
    table = Table(title=section.title, title_justify="left", caption_justify="left")
    for name in ("", "median", "unit", "spread", "by CPU", "target", "bound by"):
        numeric = name in ("median", "spread", "by CPU", "target")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for figure in section.figures:
        spread = "" if figure.low is None else f"{_short(figure.low)} – {_short(figure.high)}"
        table.add_row(
            figure.name,
            _short(figure.value),
            figure.unit,
            spread,
            _short(figure.cpu),
            _short(figure.target),
            figure.bound,
        )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for note in section.notes:
        console.print(f"  {note}", highlight=False)


def print_line(section: Section) -> None:
    """One JSON document a section."""
    sys.stdout.write(json.dumps(asdict(section)) + "\n")
    sys.stdout.flush()


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
