"""The edge of a device: what it lets in is valid, numbered without gaps, and kept."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from producers.delivery import Delivery
from producers.spool import Spool, ends_stream
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.refusal_pb2 import (
    REASON_FORBIDDEN_CHARACTER,
    REASON_INCONSISTENT,
    REASON_INTEGER_OUT_OF_RANGE,
    Reason,
)
from schemas.topics import topic_of
from schemas.validation import check


class EventRefusedError(InputError):
    """An event that the edge would not let in. It was not taken; `reason` is a schemas Reason."""

    failed = "event"

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"event refused, {Reason.Name(reason)}: {detail}")
        self.reason = reason


class Outbox:
    """Checks events and keeps them for the delivery. `lock` is held around numbering and taking."""

    def __init__(self, spool: Spool, delivery: Delivery, batch_events: int) -> None:
        self.lock = threading.RLock()
        self.spool = spool
        self._delivery = delivery
        self._batch_events = batch_events

    def take(self, event: Event) -> None:
        """Keep a valid event, the next of its stream; EventRefusedError, SpoolFullError."""
        topic = topic_of(event.WhichOneof("body") or "")
        refusal = check(event, topic, topic.key(event))
        if refusal is not None:
            raise EventRefusedError(refusal.reason, refusal.detail)
        self.spool.append(event, last=ends_stream(event))
        if self.spool.waiting == 1 or self.spool.waiting >= self._batch_events:
            self._delivery.wake()


@contextmanager
def typed() -> Iterator[None]:
    """Turn what protobuf and json raise for values that no event can hold into a refusal."""
    try:
        yield
    except UnicodeEncodeError:
        raise EventRefusedError(
            REASON_FORBIDDEN_CHARACTER, "a text holds a lone surrogate"
        ) from None
    except OverflowError:
        raise EventRefusedError(REASON_INTEGER_OUT_OF_RANGE, "an integer is out of range") from None
    except ValueError as error:
        integer = "range" in str(error)
        reason = REASON_INTEGER_OUT_OF_RANGE if integer else REASON_INCONSISTENT
        raise EventRefusedError(reason, "a value is out of range") from None
    except TypeError as error:
        raise EventRefusedError(
            REASON_INCONSISTENT, f"a value has the wrong type: {error}"
        ) from None
