"""Group commit: requests in flight share one flush of the log.

While one group is being acknowledged, the next one gathers. A request's records are
acknowledged when the group's are; if any record of a group is not, none of its requests is
told that it succeeded. What it sent may still arrive: events are identified, so a retry is safe.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from producers.records import RecordSink
from schemas.errors import InfrastructureAwayError, PlanloopError

_log = logging.getLogger(__name__)


class QueueFullError(PlanloopError):
    """More bytes wait for the log than are allowed; nothing of this request was taken."""

    failed = "gateway"


class KeyedValue(NamedTuple):
    """A record to send: topic name, key, value."""

    topic: str
    key: str
    value: bytes


class _Waiting(NamedTuple):
    records: Sequence[KeyedValue]
    done: asyncio.Future[None]


class GroupCommit:
    """Sends records through one producer. Used from one event loop; `run` is its task."""

    def __init__(
        self, producer: RecordSink, *, ack_timeout_s: float, pause_s: float, max_pending_bytes: int
    ) -> None:
        self._producer = producer
        self._ack_timeout_s = ack_timeout_s
        self._pause_s = pause_s
        self._max_pending_bytes = max_pending_bytes
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._away_until = 0.0
        self._thread = ThreadPoolExecutor(1, "planloop-commit")
        self.pending_bytes = 0

    @property
    def away(self) -> bool:
        """True for a moment after the log did not acknowledge a group."""
        return time.monotonic() < self._away_until

    async def commit(self, records: Sequence[KeyedValue]) -> None:
        """Return once the log has acknowledged all records.

        Raises QueueFullError at once when too much waits, InfrastructureAwayError when the log
        does not answer or has just not answered.
        """
        if self.away:
            raise InfrastructureAwayError("log", "did not acknowledge the last records")
        size = sum(len(record.value) for record in records)
        if self.pending_bytes and self.pending_bytes + size > self._max_pending_bytes:
            raise QueueFullError(f"{self.pending_bytes} bytes wait for the log")
        self.pending_bytes += size
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(records, done))
        self._arrived.set()
        try:
            await asyncio.shield(done)
        finally:
            self.pending_bytes -= size

    async def run(self) -> None:
        """Commit group after group, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            group, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._thread, self._send, group)
            except InfrastructureAwayError as error:
                self._away_until = time.monotonic() + self._pause_s
                _resolve(group, error)
            except Exception as error:
                _log.exception("a group was not committed")
                _resolve(group, InfrastructureAwayError("log", type(error).__name__))
            else:
                _resolve(group, None)

    def close(self) -> None:
        self._thread.shutdown()

    def _send(self, group: list[_Waiting]) -> None:
        for waiting in group:
            for record in waiting.records:
                self._producer.send(*record)
        self._producer.flush(self._ack_timeout_s)


def _resolve(group: list[_Waiting], error: Exception | None) -> None:
    for waiting in group:
        if waiting.done.done():
            continue
        if error is None:
            waiting.done.set_result(None)
        else:
            waiting.done.set_exception(error)
