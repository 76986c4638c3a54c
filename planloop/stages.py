"""A progress bar for each stage of a run, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from planloop.options import console
from planloop.workers import Report


class Stages:
    """Bars in the order in which stages are begun."""

    def __init__(self, *, hidden: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(min_width=10, no_wrap=True)),
            BarColumn(20, table_column=Column(min_width=20)),
            TimeElapsedColumn(table_column=Column(min_width=7)),
            TextColumn("{task.fields[said]}", table_column=Column(no_wrap=True, ratio=1)),
            expand=True,
            console=console,
            disable=hidden,
        )
        self._tasks: dict[str, TaskID] = {}

    @contextmanager
    def shown(self) -> Iterator[Self]:
        with self._progress:
            yield self

    def begin(self, name: str, total: int | None = None) -> Report:
        """Start (or start again) a stage; the report takes how much of `total` is done."""
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = self._progress.add_task(name, total=total, said="")
        else:
            self._progress.reset(task, total=total, said="")
        identity = task

        def report(done: int, said: str) -> None:
            self._progress.update(identity, completed=done, said=said or f"{done:,}")

        return report

    def end(self, name: str, said: str) -> None:
        task = self._tasks[name]
        self._progress.update(task, total=1, completed=1, said=said)
        self._progress.stop_task(task)
