"""Who may write what through the gateway, and how much.

A tenant is known by its bearer token, of which only the SHA-256 is kept. It may write events
of its own tenant, of the bodies that a rollout consists of, at a bounded rate. The partition's
clock (`clock_advanced`) is not among them: it would close other tenants' groups.
"""

import hashlib
import hmac
import math
import time
from collections.abc import Mapping, Sequence

from schemas.event_pb2 import Event
from schemas.refusal_pb2 import (
    REASON_BODY_UNSET,
    REASON_NO_EVENTS,
    REASON_TOO_LARGE,
    REASON_WRONG_TENANT,
    REASON_WRONG_TOPIC,
    Reason,
)
from schemas.topics import ROLLOUTS, TASKS, topic_of
from schemas.validation import check

WRITABLE = (ROLLOUTS.bodies | TASKS.bodies) - {"clock_advanced"}
"""Bodies that an outside party may write."""

_STATUS = {REASON_TOO_LARGE: 413, REASON_WRONG_TENANT: 403, REASON_WRONG_TOPIC: 403}


class RequestRefusedError(Exception):
    """A request that is answered with `status` (4xx or 503) and changes nothing."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        index: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.detail = detail
        self.index = index
        self._retry_after_s = retry_after_s

    def headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._retry_after_s is not None:
            found["Retry-After"] = str(max(1, math.ceil(self._retry_after_s)))
        if self.status == 401:
            found["WWW-Authenticate"] = "Bearer"
        return found


class TokenBucket:
    """`rate` events a second, `burst` at once. `now` is a monotonic clock in seconds."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = float(burst)
        self._at = now

    def wait_for(self, events: int, now: float) -> float:
        """0 when the events may pass, and they are counted; else the seconds until they may."""
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if events <= self._level:
            self._level -= events
            return 0.0
        return (events - self._level) / self._rate


class Admission:
    """Decides on requests. Not shared between threads."""

    def __init__(
        self,
        tokens: Mapping[str, Sequence[str]],
        open_tenant: str,
        events_per_second: float,
        burst_events: int,
    ) -> None:
        self._tokens = [(tenant, digest) for tenant, known in tokens.items() for digest in known]
        self._open_tenant = open_tenant
        self._rate = events_per_second
        self._burst = burst_events
        self._buckets: dict[str, TokenBucket] = {}

    def tenant(self, authorization: str) -> str:
        """The tenant of a request's Authorization header; 401 without a valid token."""
        if not self._tokens:
            return self._open_tenant
        scheme, _, token = authorization.partition(" ")
        digest = hashlib.sha256(token.strip().encode()).hexdigest()
        # Every token is compared, so that the time taken tells nothing.
        matches = [tenant for tenant, known in self._tokens if hmac.compare_digest(known, digest)]
        if scheme.lower() != "bearer" or not matches:
            raise RequestRefusedError(401, "UNAUTHENTICATED", "no valid bearer token")
        return matches[0]

    def admit(
        self, events: Sequence[Event], tenant: str, recorded_at: int
    ) -> dict[tuple[str, str], list[Event]]:
        """Stamp the events and group them by (topic name, key); raises RequestRefusedError for
        the first that may not pass."""
        if not events:
            raise RequestRefusedError(400, Reason.Name(REASON_NO_EVENTS)[7:], "no events")
        self._charge(tenant, len(events))
        keyed: dict[tuple[str, str], list[Event]] = {}
        for index, event in enumerate(events):
            body = event.WhichOneof("body")
            if body is None:
                raise _refused(REASON_BODY_UNSET, "the event has no body that is known here", index)
            if body not in WRITABLE:
                raise _refused(REASON_WRONG_TOPIC, f"{body} is not written from outside", index)
            if event.tenant != tenant:
                raise _refused(REASON_WRONG_TENANT, "the event belongs to another tenant", index)
            event.recorded_at = recorded_at
            topic = topic_of(body)
            key = topic.key(event)
            refusal = check(event, topic, key)
            if refusal is not None:
                raise _refused(refusal.reason, refusal.detail, index)
            keyed.setdefault((topic.name, key), []).append(event)
        return keyed

    def _charge(self, tenant: str, events: int) -> None:
        if events > self._burst:
            detail = f"{events} events in one request, at most {self._burst} are taken"
            raise RequestRefusedError(413, "TOO_MANY_EVENTS", detail)
        now = time.monotonic()
        bucket = self._buckets.get(tenant)
        if bucket is None:
            bucket = self._buckets[tenant] = TokenBucket(self._rate, self._burst, now)
        wait = bucket.wait_for(events, now)
        if wait:
            detail = f"more than {self._rate:g} events a second"
            raise RequestRefusedError(429, "RATE_LIMITED", detail, retry_after_s=wait)


def _refused(reason: Reason, detail: str, index: int) -> RequestRefusedError:
    return RequestRefusedError(_STATUS.get(reason, 422), Reason.Name(reason)[7:], detail, index)
