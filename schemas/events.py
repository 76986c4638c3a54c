"""Making events: identities, clocks and the few names that every producer needs."""

from datetime import UTC, datetime

from schemas.event_pb2 import Event


def event_id(stream_id: str, seq: int) -> str:
    """The identity that a (stream, position) always has."""
    return f"{stream_id}#{seq}"


def microseconds(moment: datetime) -> int:
    """UTC microseconds since 1970 of an aware datetime; ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone is not a point in time; give it one")
    delta = moment.astimezone(UTC) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stream:
    """The writing end of one stream: numbers its events and stamps the envelope.

    `recorded_at` defaults to the event's own time, which is what a derived event
    wants: it must come out the same whenever it is derived.
    """

    def __init__(
        self,
        stream_id: str,
        *,
        tenant: str,
        producer: str,
        producer_version: str = "",
        group_id: str = "",
        policy_version: str = "",
        harness_version: str = "",
        schedule_version: str = "",
        next_seq: int = 0,
    ) -> None:
        self.stream_id = stream_id
        self.next_seq = next_seq
        self._group_id = group_id
        self._tenant = tenant
        self._producer = producer
        self._producer_version = producer_version
        self._policy_version = policy_version
        self._harness_version = harness_version
        self._schedule_version = schedule_version

    def event(
        self, occurred_at: int, *, recorded_at: int | None = None, causation_id: str = ""
    ) -> Event:
        """The next event of the stream, its body still to be filled in."""
        seq = self.next_seq
        self.next_seq = seq + 1
        return Event(
            stream_id=self.stream_id,
            seq=seq,
            event_id=event_id(self.stream_id, seq),
            group_id=self._group_id,
            correlation_id=self._group_id or self.stream_id,
            causation_id=causation_id,
            occurred_at=occurred_at,
            recorded_at=occurred_at if recorded_at is None else recorded_at,
            producer=self._producer,
            producer_version=self._producer_version,
            tenant=self._tenant,
            policy_version=self._policy_version,
            harness_version=self._harness_version,
            schedule_version=self._schedule_version,
        )
