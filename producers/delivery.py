"""From the spool to the log: one thread that sends windows of the oldest events, in order.

A window goes out as one record for each key, and the next one leaves only when all of it is
acknowledged, so that a retry repeats events but never reorders a stream.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from producers.spool import Spool
from producers.transports import EventRejectedError, LogAwayError, Transport, WindowTooLargeError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """Counts of events since the device was opened: `acknowledged` by the log, `spooled` and
    still to go, `refused` by the log for good (kept in the spool's refused.jsonl).

    `problem` says why the last attempt failed, empty after one that succeeded.
    """

    acknowledged: int
    spooled: int
    refused: int
    problem: str = ""


class Delivery:
    """Owns the sending thread of a device."""

    def __init__(
        self,
        spool: Spool,
        transport: Transport,
        *,
        batch_events: int,
        batch_bytes: int,
        linger_s: float,
        on_delivery: Callable[[DeliveryReport], object] | None,
    ) -> None:
        self._spool = spool
        self._transport = transport
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._on_delivery = on_delivery
        self._changed = threading.Condition()
        self._flushing = 0
        self._stopping = False
        self._acknowledged = 0
        self._refused: set[str] = set()
        self._refused_count = 0
        self._failures = 0
        self._limit = batch_events
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="planloop-delivery", daemon=True)
        self._thread.start()

    def report(self) -> DeliveryReport:
        waiting = self._spool.waiting
        return DeliveryReport(self._acknowledged, waiting, self._refused_count, self._problem)

    def wake(self) -> None:
        """Tell the thread that a full batch is there."""
        with self._changed:
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> DeliveryReport:
        """Send now, without lingering or long back-off, until nothing waits or time is up."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._spool.waiting == 0, timeout_s)
            self._flushing -= 1
        self._spool.sync()
        return self.report()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._transport.close()

    def _run(self) -> None:
        while self._await_batch():
            try:
                self._send_window()
            except LogAwayError as error:
                self._back_off(str(error), error.retry_after_s)
            except Exception as error:  # the thread must outlive whatever a client library raises
                _log.exception("sending failed")
                self._transport.close()
                self._back_off(type(error).__name__, 0.0)

    def _await_batch(self) -> bool:
        """Wait for something to send; False when the device closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._spool.waiting > 0)
            self._changed.wait_for(self._urgent, self._linger_s)
            return not self._stopping

    def _urgent(self) -> bool:
        full = self._spool.waiting >= self._batch_events
        return self._stopping or self._flushing > 0 or full

    def _send_window(self) -> None:
        window = self._spool.window(self._limit, self._batch_bytes)
        if window is None:
            return
        self._spool.sync()
        events = [event for event in window.events if event.event_id not in self._refused]
        try:
            if events:
                self._transport.send(events)
        except EventRejectedError as error:
            event = events[error.index]
            self._spool.set_aside(event, error.reason)
            self._refused.add(event.event_id)
            self._refused_count += 1
            self._problem = f"refused: {error.reason}"
            return
        except WindowTooLargeError:
            self._limit = max(1, len(window.events) // 2)
            return
        self._spool.acknowledge(window)
        self._refused.difference_update(event.event_id for event in window.events)
        self._acknowledged += len(events)
        self._failures = 0
        self._limit = min(self._batch_events, 2 * self._limit)
        self._problem = ""
        self._tell()

    def _back_off(self, problem: str, at_least_s: float) -> None:
        self._failures += 1
        self._problem = problem
        self._tell()
        wait = min(30.0, 0.1 * 2 ** min(self._failures, 12)) * random.uniform(0.5, 1.0)  # noqa: S311
        with self._changed:
            flushing = self._flushing
            if flushing:
                wait = min(wait, 0.2)
            self._changed.wait_for(
                lambda: self._stopping or self._flushing > flushing, max(wait, at_least_s)
            )

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        if self._on_delivery is not None:
            try:
                self._on_delivery(self.report())
            except Exception:
                _log.exception("on_delivery failed")
