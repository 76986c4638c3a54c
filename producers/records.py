"""From events of one key to record values, and what producers ask of the log."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from schemas.batch import encode
from schemas.event_pb2 import Event

RECORD_BYTES = 256 * 1024
"""A record is closed once its events reach this size; the last event may take it past."""


class RecordSink(Protocol):
    """The verbs of `infra.log.Producer` that an importer or the gateway needs."""

    def send(self, topic: str, key: str, value: bytes) -> None: ...

    def flush(self, timeout_s: float = ...) -> None: ...


def records(events: Sequence[Event]) -> Iterator[bytes]:
    """Record values of validated events of one key, in order."""
    start = size = 0
    for position, event in enumerate(events):
        size += event.ByteSize()
        if size >= RECORD_BYTES:
            yield encode(events[start : position + 1])
            start, size = position + 1, 0
    if start < len(events):
        yield encode(events[start:])
