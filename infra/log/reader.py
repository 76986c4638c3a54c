"""Reading the log from given positions, in batches, to its true end."""

import time
from collections.abc import Collection, Iterator, Mapping

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from infra.log.topics import MAX_BATCH_BYTES, away, logger, partitions_in, partitions_of
from schemas.errors import InfrastructureAwayError, InputError

Place = tuple[str, int]
"""A topic and one of its partitions."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of the log. `timestamp` is the broker's, UTC microseconds.

    A struct and not a named tuple: it is made three times as fast, a million times a minute.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


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
        self._ended: dict[Place, int] = {}
        self._down_since: float | None = None
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
        self._places = list(positions)
        self._first = dict(positions)
        for topic in {topic for topic, _ in self._places}:
            known = set(partitions_in(self._consumer, bootstrap, topic))
            asked = {number for name, number in self._places if name == topic}
            if asked - known:
                raise InputError(f"{topic} has no partition {min(asked - known)}")
        self._consumer.assign(
            [
                TopicPartition(topic, number, offset or OFFSET_BEGINNING)
                for (topic, number), offset in positions.items()
            ]
        )

    @property
    def at_end(self) -> bool:
        """Whether every partition has reported its end since its last record."""
        return len(self._ended) == len(self._places)

    def poll(self, max_records: int = 2000, timeout_s: float = 0.5) -> list[Record]:
        """The next records; waits up to `timeout_s` for the first one, never for more.

        InfrastructureAwayError when no broker has been there for `patience_s`, or when a
        position is not on the log (removed by retention, or never written).
        """
        messages = self._consumer.consume(max_records, 0)
        if not messages:
            messages = self._consumer.consume(1, timeout_s)
            if not messages:
                self._check()
                return []
            messages += self._consumer.consume(max_records - 1, 0) if max_records > 1 else []
        self._down_since = None
        if any(map(Message.error, messages)):
            messages = self._without_ends(messages)
        elif self._ended:
            for message in messages:
                self._ended.pop(_place(message), None)
        return _records(messages)

    def pause(self, partitions: Collection[Place]) -> None:
        """Deliver nothing of these until `resume`; nothing is lost."""
        self._consumer.pause([TopicPartition(*place) for place in partitions])

    def resume(self, partitions: Collection[Place]) -> None:
        """Go on where `pause` stopped."""
        self._consumer.resume([TopicPartition(*place) for place in partitions])

    def commit(self, positions: Mapping[Place, int]) -> None:
        """Leave next offsets to read under the group's name, for lag tools; none is read here."""
        offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise away(f"commit: {error.args[0].str()}") from None
        for result in results or []:
            if result.error is not None:
                raise away(f"commit of {result.topic}/{result.partition}: {result.error.str()}")

    def lag(self) -> dict[Place, tuple[int, int]]:
        """(next offset to read, high watermark) of each partition that has been fetched from."""
        lags: dict[Place, tuple[int, int]] = {}
        asked = [TopicPartition(*place) for place in self._places]
        for at in self._consumer.position(asked):
            place = (at.topic, at.partition)
            high = self._high(place)
            read_to = at.offset if at.offset >= 0 else self._first[place]
            if high >= 0:
                lags[place] = (self._ended.get(place, read_to), high)
        return lags

    def close(self) -> None:
        self._consumer.close()

    def _without_ends(self, messages: list[Message]) -> list[Message]:
        """Take the reports of ends out of a batch, in order, and raise what is an error."""
        records: list[Message] = []
        for message in messages:
            place = _place(message)
            error = message.error()
            if error is None:
                self._ended.pop(place, None)
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended[place] = message.offset() or 0
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise self._lost(place)
            elif not error.retriable():
                raise away(f"{place[0]}/{place[1]}: {error.str()}")
        return records

    def _high(self, place: Place) -> int:
        """The high watermark as of the last fetch; negative before the first one."""
        return self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)[1]

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()

    def _check(self) -> None:
        """Find out whether a silence has a cause that will not pass."""
        for place in self._places:
            # Kafka refuses a position beyond its end; the embedded broker waits for it.
            if place not in self._ended and 0 <= self._high(place) < self._first[place]:
                raise self._lost(place)
        if self._down_since is None or time.monotonic() - self._down_since < self._patience_s:
            return
        try:
            self._consumer.list_topics(timeout=5.0)
        except KafkaException as error:
            reason = error.args[0].str()
            raise away(
                f"no broker at {self._bootstrap} for {self._patience_s:g} s: {reason}"
            ) from None
        self._down_since = None

    def _lost(self, place: Place) -> InfrastructureAwayError:
        at = f"position {self._first[place]} of {place[0]}/{place[1]}"
        return away(f"{at} is not on the log: removed by retention, or of another log")


def read_range(
    bootstrap: str, topic: str, partition: int, first: int = 0, last: int | None = None
) -> Iterator[list[Record]]:
    """Records with first <= offset <= last in batches; without `last`, to the end as of the call.

    Offsets may have gaps. Where the log ends before `last`, so does this.
    """
    reader = Reader(bootstrap, {(topic, partition): first})
    end = None if last is None else last + 1
    try:
        while True:
            records = reader.poll()
            if records and end is None:
                end = reader.lag()[topic, partition][1]
            done = reader.at_end
            if end is not None and records and records[-1].offset >= end - 1:
                records = [record for record in records if record.offset < end]
                done = True
            if records:
                yield records
            if done:
                return
    finally:
        reader.close()


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The offset that the next record of each partition gets, as a fetch at its end reports it."""
    places = [(topic, number) for number in partitions_of(bootstrap, topic)]
    reader = Reader(bootstrap, dict.fromkeys(places, OFFSET_END))
    try:
        while len(ends := reader.lag()) < len(places):
            reader.poll(timeout_s=0.1)
        return {number: high for (_, number), (_, high) in ends.items()}
    finally:
        reader.close()


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def _records(messages: list[Message]) -> list[Record]:
    """Columns first, then rows: no Python between the messages' own methods."""
    return list(
        map(
            Record,
            map(Message.topic, messages),
            map(Message.partition, messages),
            map(Message.offset, messages),
            map(Message.key, messages),
            map(Message.value, messages),
            [milliseconds * 1000 for _, milliseconds in map(Message.timestamp, messages)],
        )
    )
