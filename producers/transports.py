"""Two ways to the log: straight to a broker, or through a gateway over HTTP.

Either takes a window of events whole or says which of two things is wrong: the log is away
now, or one event will never be taken.
"""

import http.client
import json
import time
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from schemas.batch import encode
from schemas.errors import InputError
from schemas.event_pb2 import Event, EventBatch
from schemas.topics import MAX_RECORD_BYTES, topic_of

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class LogAwayError(Exception):
    """The log did not take a window now; the same window is tried again later."""

    def __init__(self, detail: str, retry_after_s: float = 0.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class WindowTooLargeError(Exception):
    """A window of several events is more than the log takes at once; half of it may do."""


class EventRejectedError(Exception):
    """The log will never take one event of a window; none of the window was taken."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


class Transport(Protocol):
    """A way to the log."""

    def send(self, events: Sequence[Event]) -> None:
        """Return when all events are acknowledged; raises one of the errors above."""
        ...

    def close(self) -> None: ...


class KafkaTransport:
    """Straight to a broker with kafka-python: acks from all replicas, gzip, Java's partitioner."""

    def __init__(self, bootstrap: str, timeout_s: float = 10.0) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._producer: Any = None

    def send(self, events: Sequence[Event]) -> None:
        from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

        keyed: dict[tuple[str, str], list[int]] = {}
        for index, event in enumerate(events):
            topic = topic_of(event.WhichOneof("body") or "")
            keyed.setdefault((topic.name, topic.key(event)), []).append(index)
        try:
            producer = self._connected()
            sent = [
                (indexes, producer.send(topic, encode([events[i] for i in indexes]), key.encode()))
                for (topic, key), indexes in keyed.items()
            ]
            deadline = time.monotonic() + self._timeout_s
            for indexes, future in sent:
                try:
                    future.get(max(0.1, deadline - time.monotonic()))
                except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
                    raise _too_large(indexes) from error
        except KafkaError as error:
            self.close()
            raise LogAwayError(f"{type(error).__name__} from {self._bootstrap}") from error

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=0)
            self._producer = None

    def _connected(self) -> Any:
        if self._producer is None:
            from kafka import KafkaProducer

            milliseconds = int(self._timeout_s * 1000)
            settings: dict[str, Any] = {
                "acks": "all",
                # A broker that is killed between noting a sequence and storing its batch would
                # take the retry for a duplicate and acknowledge what it does not have. Events
                # have identities of their own, so a retry may store them twice.
                "enable_idempotence": False,
                "max_in_flight_requests_per_connection": 1,
                "compression_type": "gzip",
                "allow_auto_create_topics": False,
                "max_request_size": MAX_RECORD_BYTES,
                "bootstrap_timeout_ms": milliseconds,
                "max_block_ms": milliseconds,
                "request_timeout_ms": milliseconds,
                "delivery_timeout_ms": 2 * milliseconds,
                "reconnect_backoff_max_ms": 1000,
            }
            self._producer = KafkaProducer(bootstrap_servers=self._bootstrap, **settings)
        return self._producer


class HttpTransport:
    """To a gateway, with a bearer token. Plain HTTP goes to loopback only."""

    def __init__(self, url: str, token: str, timeout_s: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"no gateway address: {url!r}", "write https://host[:port]")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InputError("a token over plain HTTP can be read on the way", "use https://")
        connect = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = connect(parts.hostname, parts.port, timeout=timeout_s)
        self._path = f"{parts.path.rstrip('/')}/v1/events"
        self._headers = {"Content-Type": "application/x-protobuf"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def send(self, events: Sequence[Event]) -> None:
        body = EventBatch(events=events).SerializeToString()
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise LogAwayError(f"{type(error).__name__} from the gateway") from error
        if response.status == 200:
            return
        reason, index = _refusal(answer)
        if response.status in (413, 422) and index is not None and index < len(events):
            raise EventRejectedError(index, reason)
        if response.status == 413:
            raise _too_large(range(len(events)))
        retry_after = response.headers.get("Retry-After", "")
        wait = float(retry_after) if retry_after.isdigit() else 0.0
        raise LogAwayError(f"the gateway answers {response.status} {reason}", wait)

    def close(self) -> None:
        self._connection.close()


def _too_large(indexes: Sequence[int]) -> Exception:
    if len(indexes) == 1:
        return EventRejectedError(indexes[0], "TOO_LARGE")
    return WindowTooLargeError(f"{len(indexes)} events")


def _refusal(answer: bytes) -> tuple[str, int | None]:
    try:
        document = json.loads(answer)
        index = document.get("index")
        return str(document.get("reason", "")), index if isinstance(index, int) else None
    except (ValueError, AttributeError):
        return "", None
