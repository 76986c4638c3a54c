"""Waiting for a part that is away: back-off that grows, inside a bounded time."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from schemas.errors import InfrastructureAwayError

T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 2.0


class AwayError(Exception):
    """One attempt found nobody there. `again` says whether a further attempt may be made."""

    def __init__(self, reason: str, again: bool = True) -> None:
        super().__init__(reason)
        self.again = again


def patiently(component: str, attempt: Callable[[], T], patience_s: float) -> T:
    """`attempt` until it does not raise AwayError, for at most about `patience_s` seconds.

    Raises InfrastructureAwayError(component) with the last reason.
    """
    deadline = time.monotonic() + patience_s
    wait = FIRST_WAIT_S
    while True:
        try:
            return attempt()
        except AwayError as away:
            pause = wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
            if not away.again or time.monotonic() + pause > deadline:
                raise InfrastructureAwayError(
                    component, str(away), "see `planloop status`"
                ) from away
        time.sleep(pause)
        wait = min(2 * wait, LONGEST_WAIT_S)
