"""Insert tokens that a crash left behind without their rows.

MergeTree notes an insert's token before it commits the insert's part. A process that is killed in
between remembers a token whose rows it does not have, and takes the retry for a repetition: the
rows are lost (seen in 1 of about 100 kills under load). So before the engine opens, every noted
token is held against the parts on disk, and one whose block is in none is noted as dropped.
"""

import re
from pathlib import Path

_PART = re.compile(r"(?P<partition>[^_]+)_(?P<first>\d+)_(?P<last>\d+)_\d+(?:_\d+)?")
_ADDED, _DROPPED = "1", "2"


def forget_lost_tokens(database: Path) -> int:
    """Mend every table's log of tokens under `database`; how many tokens were forgotten."""
    return sum(_mend(folder) for folder in database.glob("store/*/*/deduplication_logs"))


def _mend(folder: Path) -> int:
    logs = sorted(folder.glob("deduplication_log_*.txt"), key=_number)
    noted: dict[str, str] = {}  # block id -> part that it came with
    for log in logs:
        for line in log.read_text().splitlines():
            operation, _, rest = line.partition("\t")
            part, _, block = rest.partition("\t")
            if operation == _ADDED:
                noted[block] = part
            else:
                noted.pop(block, None)
    held = _Blocks(folder.parent)
    lost = [(part, block) for block, part in noted.items() if not held.contains(part)]
    if lost:
        with logs[-1].open("a") as log:
            log.writelines(f"{_DROPPED}\t{part}\t{block}\n" for part, block in lost)
    return len(lost)


def _number(log: Path) -> int:
    return int(log.stem.rpartition("_")[2])


class _Blocks:
    """The block numbers of a table's parts, merged ones included."""

    def __init__(self, table: Path) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        for part in table.iterdir():
            if match := _PART.fullmatch(part.name):
                span = int(match["first"]), int(match["last"])
                self._ranges.setdefault(match["partition"], []).append(span)

    def contains(self, part: str) -> bool:
        match = _PART.fullmatch(part)
        if match is None:
            return True
        number = int(match["first"])
        spans = self._ranges.get(match["partition"], ())
        return any(first <= number <= last for first, last in spans)
