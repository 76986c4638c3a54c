"""Errors that planloop raises on purpose: who failed, and what to do about it."""

from typing import ClassVar


class PlanloopError(Exception):
    """Base of all. `exit_status` is what the command line ends with."""

    exit_status: ClassVar[int] = 1
    failed: ClassVar[str] = "planloop"

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class CheckFailedError(PlanloopError):
    """A check ran and said no."""

    failed = "check"


class InputError(PlanloopError):
    """What was handed in is wrong: a file, an argument, an event."""

    exit_status = 2
    failed = "input"


class InfrastructureAwayError(PlanloopError):
    """A broker, object store or warehouse does not answer. `component` names it."""

    exit_status = 3
    failed = "infrastructure"

    def __init__(self, component: str, message: str, remedy: str = "") -> None:
        super().__init__(f"{component}: {message}", remedy)
        self.component = component
