"""What the supervisor needs to know of a part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start. Secrets go in `environment`, which other users cannot read."""

    arguments: list[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class Part(Protocol):
    """One process of the stack."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int:
        """Where it listens once it is ready."""
        ...

    @property
    def stop_s(self) -> float:
        """Seconds that a clean stop may take."""
        ...

    @property
    def stands_on(self) -> str | None:
        """The part without which this one neither starts nor runs."""
        ...

    def command(self) -> Command:
        """Write the part's configuration and say how to start it; called before every start.

        Blocks for as long as preparing its storage takes. Raises PlanloopError where the part
        cannot run here.
        """
        ...

    def ready(self) -> bool:
        """Whether it serves now. Answers within about a second and raises nothing."""
        ...


def private_folder(path: Path) -> Path:
    """The folder, made for its owner only where it is not there yet."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
