"""Delivery of blocks to the warehouse: in order, one in flight beside the reading of the next.

For each block the dead letters of what it refuses are acknowledged by the log, then its
rows by the warehouse, and only then its position. Whoever dies in between repeats it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from consumers.blocks import Block
from consumers.writer import insert
from infra.warehouse.protocol import Warehouse
from schemas.errors import InfrastructureAwayError
from schemas.event_pb2 import Event
from schemas.topics import DEAD_LETTERS, Topic
from streams.engine import MAX_REFUSED_SHARE, REFUSED_WINDOW, TooManyRefusedError
from streams.host import dead_letter

CONSUMER = "warehouse"

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0


class Letters(Protocol):
    """Where dead letters go; `infra.log.Producer` is one."""

    def send_events(self, topic: Topic, events: Sequence[Event]) -> None: ...
    def flush(self) -> None: ...


@dataclass(slots=True)
class Delivered:
    """What is durable. `positions`, by (topic, partition), are the next offsets to read; `times`
    the broker times of the records before them, UTC microseconds. `refused` counts dead letters."""

    positions: dict[tuple[str, int], int]
    times: dict[tuple[str, int], int] = field(default_factory=dict)
    records: int = 0
    events: int = 0
    refused: int = 0
    blocks: int = 0


class Delivery:
    """Blocks on their way. Not for several threads; `step` is to be called again and again.

    When the warehouse is away a block is tried again, however often, until it has been away for
    `patience_s`: then `step` raises, and the block is left for the next run.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        letters: Letters,
        store_object: Callable[[str, bytes], object],
        positions: Mapping[tuple[str, int], int],
        patience_s: float,
    ) -> None:
        self.delivered = Delivered(dict(positions))
        self._warehouse = warehouse
        self._letters = letters
        self._store_object = store_object
        self._patience_s = patience_s
        self._waiting: deque[Block] = deque()
        self._thread = ThreadPoolExecutor(1, "warehouse-delivery")
        self._attempt: Future[None] | None = None
        self._away_since: float | None = None
        self._not_before = 0.0
        self._wait_s = _FIRST_WAIT_S

    def add(self, blocks: Iterable[Block]) -> None:
        """Take the next blocks. TooManyRefusedError for one that is mostly refused: it goes
        nowhere, and neither do its dead letters."""
        for block in blocks:
            _check_refused(block)
            self._waiting.append(block)

    @property
    def idle(self) -> bool:
        return not self._waiting

    @property
    def behind(self) -> bool:
        """Whether blocks wait beside the one in hand: no time to read more."""
        return len(self._waiting) > 1

    @property
    def away(self) -> bool:
        """Whether the last attempt found the warehouse away."""
        return self._away_since is not None

    def step(self, timeout_s: float = 0.0) -> None:
        """Start, finish or repeat an attempt, waiting for at most `timeout_s`.

        Raises what the warehouse or the log raised if it is not to be tried again.
        """
        if self._attempt is not None:
            wait([self._attempt], timeout_s)
            if self._attempt.done():
                error, self._attempt = self._attempt.exception(), None
                if error is None:
                    self._count(self._waiting.popleft())
                else:
                    self._postpone(error)
        elif timeout_s and self.away:
            time.sleep(timeout_s)
        if self._attempt is None and self._waiting and time.monotonic() >= self._not_before:
            self._attempt = self._thread.submit(self._deliver, self._waiting[0])

    def close(self) -> None:
        """End after the attempt in flight."""
        self._thread.shutdown()

    def _deliver(self, block: Block) -> None:
        self._bury(block)
        insert(self._warehouse, block)
        self._warehouse.insert(
            "positions",
            {
                "consumer": [CONSUMER],
                "topic": [block.topic.name],
                "partition": [block.partition],
                "next_offset": [block.last + 1],
            },
            f"{CONSUMER}:{block.token}",
        )

    def _bury(self, block: Block) -> None:
        """Write the dead letters of a block."""
        if not block.refused:
            return
        letters: list[Event] = []
        for record, position, refusal, raw in block.refused:
            letter = dead_letter(record, raw, position, refusal, "edge")
            if letter.dead_letter.object_key:
                self._store_object(letter.dead_letter.object_key, raw)
            letters.append(letter)
        self._letters.send_events(DEAD_LETTERS, letters)
        self._letters.flush()

    def _count(self, block: Block) -> None:
        self._away_since, self._wait_s = None, _FIRST_WAIT_S
        done, where = self.delivered, (block.topic.name, block.partition)
        done.positions[where] = block.last + 1
        done.times[where] = block.time
        done.records += block.records
        done.events += block.events
        done.refused += len(block.refused)
        done.blocks += 1

    def _postpone(self, error: BaseException) -> None:
        """Plan the next attempt, or raise the error."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        away = isinstance(error, InfrastructureAwayError)
        if not away or now - self._away_since >= self._patience_s:
            raise error
        self._not_before = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)


def _check_refused(block: Block) -> None:
    refused = len(block.refused)
    seen = refused + block.events
    if seen >= REFUSED_WINDOW and refused > MAX_REFUSED_SHARE * seen:
        raise TooManyRefusedError(
            f"{refused} of {seen} events of {block.topic.name} at offsets {block.first} to "
            f"{block.last} were refused",
            "mend the producer or the release, then start again",
        )
