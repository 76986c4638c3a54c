"""Importers: other systems' result files as logs of events.

`recognise` tells a file's format by what is in it, `FORMATS` maps a format to its reader.
"""

import re
from collections.abc import Callable
from pathlib import Path

from producers.importers import tau2, tau_bench
from producers.importers.imported import ImportedLog
from producers.importers.reading import read_head
from schemas.errors import InputError

FORMATS: dict[str, Callable[..., ImportedLog]] = {
    tau_bench.FORMAT: tau_bench.read,
    tau2.FORMAT: tau2.read,
}


def recognise(path: Path) -> str:
    """The format of a result file, told from its first kilobytes; InputError if it is none."""
    head = read_head(path)
    if re.match(rb"\s*\[\s*\{", head) and b'"task_id"' in head:
        return tau_bench.FORMAT
    if re.match(rb"\s*\{", head) and re.search(rb'"(git_commit|simulations|num_trials)"\s*:', head):
        return tau2.FORMAT
    raise InputError(
        f"{path.name} is not a log that can be imported",
        f"known formats: {', '.join(FORMATS)}",
    )
