"""Writing to the log: nothing counts as sent before the broker has acknowledged it.

A retry may write a record twice, which a reader takes for the same events; it never writes it
out of order, because one request is under way at a time. Kafka's idempotent producer is left
out: after a kill the embedded broker acknowledges as duplicates what it never stored.
"""

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from infra.log.topics import MAX_BATCH_BYTES, away, logger
from schemas.batch import encode
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.topics import MAX_RECORD_BYTES, Topic

_SERVE_EVERY = 512
"""Sends between two looks at what was acknowledged, which frees its memory."""

_ANY_PARTITION = -1


class Producer:
    """Sends records in the background; `flush` is the moment of truth.

    Records of one partition stay in the order of `send`. The partition of a key is the one
    that Java clients and kafka-python choose. `send` and `flush` may block; one thread at a time.
    """

    def __init__(self, bootstrap: str, *, linger_ms: int = 5, patience_s: float = 60.0) -> None:
        """`patience_s`: how long `send` waits for room in a full local queue."""
        self._bootstrap = bootstrap
        self._patience_s = patience_s
        self._failed = 0
        self._reason = ""
        self._fatal = ""
        self._unserved = 0
        self._client = Client(
            {
                "bootstrap.servers": bootstrap,
                "max.in.flight.requests.per.connection": 1,
                "reconnect.backoff.max.ms": 1000,
                "retry.backoff.max.ms": 500,
                "acks": "all",
                "compression.type": "lz4",
                "linger.ms": linger_ms,
                "batch.size": 4 << 20,
                "partitioner": "murmur2_random",
                "message.max.bytes": MAX_BATCH_BYTES,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "delivery.report.only.error": True,
                "on_delivery": self._on_failed,
                "error_cb": self._on_error,
            },
            logger=logger,
        )

    def send(
        self, topic: str, key: bytes | str, value: bytes, partition: int | None = None
    ) -> None:
        """Queue a record. Waits while the local queue is full, at most `patience_s`.

        InputError for a value above MAX_RECORD_BYTES, InfrastructureAwayError when the queue
        stays full or the client is beyond repair; in both cases this record is not sent.
        """
        if len(value) > MAX_RECORD_BYTES:
            raise InputError(
                f"a record of {len(value)} bytes for {topic}, where {MAX_RECORD_BYTES} are allowed"
            )
        where = _ANY_PARTITION if partition is None else partition
        while True:
            try:
                self._client.produce(topic, value, key, where)
                break
            except BufferError:
                self._wait_for_room()
            except KafkaException as error:
                raise away(f"{topic}: {self._fatal or error.args[0].str()}") from None
        self._unserved += 1
        if self._unserved >= _SERVE_EVERY:
            self._unserved = 0
            self._client.poll(0)

    def send_events(self, topic: Topic, events: Sequence[Event]) -> None:
        """Send events that have passed the edge, those of one key as one record, in order.

        What would be above MAX_RECORD_BYTES is split; InputError for a single event above it.
        """
        by_key: dict[str, list[Event]] = {}
        for event in events:
            by_key.setdefault(topic.key(event), []).append(event)
        for key, of_key in by_key.items():
            self._send_split(topic.name, key, of_key)

    def flush(self, timeout_s: float = 60.0) -> None:
        """Wait until everything sent is acknowledged.

        InfrastructureAwayError says how many records are not: those refused since the last
        flush, which are gone from here, and those still queued, which go on being retried.
        """
        waiting = self._client.flush(timeout_s)
        failed, self._failed = self._failed, 0
        if failed or waiting:
            reason = self._fatal or self._reason or f"no answer within {timeout_s:g} s"
            raise away(
                f"{failed + waiting} records not acknowledged by {self._bootstrap}: {reason}"
            )

    def close(self, timeout_s: float = 60.0) -> None:
        """Flush, as `flush` does, and let go of the broker."""
        try:
            self.flush(timeout_s)
        finally:
            self._client.purge()
            self._client.flush(1.0)

    def _send_split(self, topic: str, key: str, events: Sequence[Event]) -> None:
        value = encode(events)
        if len(value) <= MAX_RECORD_BYTES or len(events) == 1:
            self.send(topic, key, value)
            return
        half = len(events) // 2
        self._send_split(topic, key, events[:half])
        self._send_split(topic, key, events[half:])

    def _wait_for_room(self) -> None:
        """Serve acknowledgements until the queue has shrunk."""
        queued = len(self._client)
        deadline = time.monotonic() + self._patience_s
        while len(self._client) >= queued:
            if time.monotonic() > deadline:
                reason = self._reason or "no acknowledgement"
                raise away(f"{queued} records wait for {self._bootstrap}: {reason}")
            self._client.poll(0.05)

    def _on_failed(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._reason = f"{message.topic()}: {error.str()}"

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error.str()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._reason = error.str()
