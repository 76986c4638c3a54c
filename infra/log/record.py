"""A record of the log, and how librdkafka's messages become records."""

from collections.abc import Sequence

import msgspec
from confluent_kafka import Message

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


def records_of(messages: Sequence[Message]) -> list[Record]:
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


def last_offsets(records: Sequence[Record]) -> dict[Place, int]:
    """The last offset of each partition in a batch."""
    return {(record.topic, record.partition): record.offset for record in records}
