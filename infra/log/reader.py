"""Reading the log from given positions, in batches, to its true end."""

import time
from collections.abc import Collection, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from infra.log.holes import RETRY_S, holes_of
from infra.log.record import Place, Record, last_offsets, records_of
from infra.log.topics import (
    EMBEDDED_CLUSTER,
    MAX_BATCH_BYTES,
    away,
    describe,
    logger,
    partitions_in,
)
from schemas.errors import InfrastructureAwayError, InputError

_SILENCE_S = 1.0
_SILENCES = 3
"""So often, so many seconds apart, the embedded broker must answer and yet bring no record."""


class Reader:
    """Reads partitions from positions of its own choice; no group assigns it anything.

    Records of a partition come in order. Not for several threads at once.
    """

    def __init__(
        self,
        bootstrap: str,
        positions: Mapping[Place, int],
        *,
        group: str | None = None,
        patience_s: float = 60.0,
    ) -> None:
        """`positions` are the next offsets to read, 0 for the beginning of what is kept.

        `group` names under which `commit` leaves positions for lag tools. `patience_s` is how
        long `poll` puts up with no broker at all. InputError for a topic or partition that is
        not there, InfrastructureAwayError if no broker answers.
        """
        self._bootstrap = bootstrap
        self._patience_s = patience_s
        self._next = dict(positions)
        self._ended: dict[Place, int] = {}
        self._paused: set[Place] = set()
        self._again: dict[Place, float] = {}
        self._down_since: float | None = None
        self._heard_at = time.monotonic()
        self._silences = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group or "planloop",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": MAX_BATCH_BYTES,
                "fetch.wait.max.ms": 100,
                "fetch.queue.backoff.ms": 10,
                "queued.max.messages.kbytes": 64 * 1024,
                "reconnect.backoff.max.ms": 1000,
                "error_cb": self._on_error,
            },
            logger=logger,
        )
        cluster = describe(self._consumer, bootstrap)
        for topic, number in positions:
            if number not in partitions_in(cluster, topic):
                raise InputError(f"{topic} has no partition {number}")
        embedded = cluster.cluster_id == EMBEDDED_CLUSTER
        self._holes = holes_of(bootstrap) if embedded else None
        self._consumer.assign(
            [_at(place, offset or OFFSET_BEGINNING) for place, offset in positions.items()]
        )

    @property
    def at_end(self) -> bool:
        """Whether every partition has reported its end since its last record.

        What is written after that report shows at a later poll only: to read up to this moment,
        compare positions with `end_offsets`.
        """
        return len(self._ended) == len(self._next)

    def poll(self, max_records: int = 2000, timeout_s: float = 0.5) -> list[Record]:
        """The next records; waits up to `timeout_s` for the first one, never for more.

        InfrastructureAwayError when no broker has been there for `patience_s`, or when a
        position is not on the log (removed by retention, or never written).
        """
        if self._again:
            timeout_s = min(timeout_s, self._read_again())
        messages = self._consumer.consume(max_records, 0)
        if not messages:
            messages = self._consumer.consume(1, timeout_s)
            if not messages:
                self._ask_why()
                return []
            messages += self._consumer.consume(max_records - 1, 0) if max_records > 1 else []
        self._heard_at = time.monotonic()
        self._silences = 0
        self._down_since = None
        if any(map(Message.error, messages)):
            return self._advance(records_of(self._without_ends(messages)))
        records = records_of(messages)
        if self._ended:
            for place in last_offsets(records):
                self._ended.pop(place, None)
        return self._advance(records)

    def pause(self, partitions: Collection[Place]) -> None:
        """Deliver nothing of these until `resume`; nothing is lost."""
        self._paused.update(partitions)
        self._consumer.pause([_at(place) for place in partitions])

    def resume(self, partitions: Collection[Place]) -> None:
        """Go on where `pause` stopped."""
        self._paused.difference_update(partitions)
        self._consumer.resume([_at(place) for place in partitions])

    def commit(self, positions: Mapping[Place, int]) -> None:
        """Leave next offsets to read under the group's name, for lag tools; none is read here."""
        offsets = [_at(place, offset) for place, offset in positions.items()]
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise away(f"commit: {error.args[0].str()}") from None
        for result in results or []:
            if result.error is not None:
                raise away(f"commit of {result.topic}/{result.partition}: {result.error.str()}")

    def lag(self) -> dict[Place, tuple[int, int]]:
        """(next offset to read, high watermark) of each partition that has been fetched from."""
        highs = {place: self._high(place) for place in self._next}
        return {
            place: (self._ended.get(place, self._next[place]), high)
            for place, high in highs.items()
            if high >= 0
        }

    def close(self) -> None:
        self._consumer.close()

    def _advance(self, records: list[Record]) -> list[Record]:
        """Records that may be given out, and their partitions moved on behind them."""
        lasts = last_offsets(records)
        span = sum(last + 1 - self._next[place] for place, last in lasts.items())
        if self._holes is not None and span != len(records):
            if self._again:
                records = [r for r in records if (r.topic, r.partition) not in self._again]
            now = time.monotonic()
            highs = {place: self._high(place) for place in lasts}
            records, again = self._holes.cut(records, self._next, highs, now)
            for place in again:
                self._ended.pop(place, None)
                self._again[place] = now + RETRY_S
            lasts = last_offsets(records)
        for place, last in lasts.items():
            self._next[place] = last + 1
        return records

    def _read_again(self) -> float:
        """Go back to the holes whose time has come; seconds until the next one's."""
        now = time.monotonic()
        for place in [place for place, due in self._again.items() if due <= now]:
            del self._again[place]
            self._consumer.seek(_at(place, self._next[place]))
        return min(self._again.values(), default=now + RETRY_S) - now

    def _without_ends(self, messages: list[Message]) -> list[Message]:
        """Take the reports of ends out of a batch, in order, and raise what is an error."""
        records: list[Message] = []
        for message in messages:
            place = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                self._ended.pop(place, None)
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                if place not in self._again:
                    self._ended[place] = message.offset() or 0
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise self._lost(place)
            elif not error.retriable():
                raise away(f"{place[0]}/{place[1]}: {error.str()}")
        return records

    def _high(self, place: Place) -> int:
        """The high watermark as of the last fetch; negative before the first one."""
        return self._consumer.get_watermark_offsets(_at(place), cached=True)[1]

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()

    def _ask_why(self) -> None:
        """Find out what a silence means: nothing new, no broker, or nothing where it should be."""
        now = time.monotonic()
        if self._down_since is not None and now - self._down_since >= self._patience_s:
            describe(self._consumer, self._bootstrap)
            self._down_since = None
        waiting = self._next.keys() - self._ended.keys() - self._again.keys() - self._paused
        for place in waiting:
            # Kafka refuses a position beyond its end; the embedded broker waits for it.
            if 0 <= self._high(place) < self._next[place]:
                raise self._lost(place)
        if self._holes is not None and now - self._heard_at > _SILENCE_S * (self._silences + 1):
            self._end_at_holes({place for place in waiting if self._next[place] >= 0})

    def _end_at_holes(self, silent: Collection[Place]) -> None:
        """A hole with nothing behind it is an end, if a living broker keeps silent about it."""
        try:
            for place in silent:
                self._consumer.get_watermark_offsets(_at(place), timeout=5.0)
        except KafkaException:
            return
        self._silences += 1
        if self._silences >= _SILENCES:
            highs = {place: self._high(place) for place in silent}
            self._ended |= {place: high for place, high in highs.items() if high >= 0}

    def _lost(self, place: Place) -> InfrastructureAwayError:
        at = f"position {self._next[place]} of {place[0]}/{place[1]}"
        return away(f"{at} is not on the log: removed by retention, or of another log")


def _at(place: Place, offset: int = OFFSET_INVALID) -> TopicPartition:
    return TopicPartition(*place, offset)
