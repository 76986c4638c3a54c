"""The manifest: where a trainer stands, replaced whole or not at all.

It is written after the weights are in the object store and before the log is told, and
it carries what the log is to be told. A trainer that dies in between tells it on its
next start; one that dies earlier does the announced batch again.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from schemas.errors import InputError
from schemas.event_pb2 import Event

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """`positions` maps "topic/partition" to the next offset to read; `optimiser` is the key of
    its state in the object store ("" before the first CARE update). Random choices depend on
    `seed` and the batch alone, so the seed is the whole random state. `outbox` holds the
    events of the last update, encoded."""

    policy_version: str
    update: int
    optimiser: str
    seed: int
    schedule_version: str
    positions: Mapping[str, int]
    outbox: Sequence[str]

    @property
    def events(self) -> list[Event]:
        return [Event.FromString(bytes.fromhex(encoded)) for encoded in self.outbox]


def load(path: Path) -> Manifest | None:
    """The manifest, None where there is none yet; InputError for one that cannot be read."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}", _REMEDY) from error
    names = {field.name for field in fields(Manifest)}
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path} is not a manifest of format {FORMAT}", _REMEDY)
    if content.keys() != names:
        raise InputError(f"{path} lacks {sorted(names - content.keys())}", _REMEDY)
    return Manifest(**content)


def save(path: Path, manifest: Manifest) -> None:
    """Replace the manifest so that a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".next")
    with fresh.open("w") as file:
        json.dump({"format": FORMAT, **asdict(manifest)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_REMEDY = "move it away: the log says what has been trained, only unannounced work is redone"
