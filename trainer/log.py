"""The trainer's log on a Kafka broker."""

from collections.abc import Iterator, Sequence
from typing import Self

from infra.log import Producer, Reader, ensure_topics, partitions_of, read_range
from schemas.event_pb2 import Event
from schemas.topics import CURATION, GROUPS, TRAINING, Topic, topic_of
from trainer.ports import Positions, Record

GROUP = "planloop-trainer"
"""Name under which the trainer's positions are committed."""


class KafkaLog:
    """`ports.Log` on a broker. A context manager, to close the producer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        ensure_topics(bootstrap, (CURATION, GROUPS, TRAINING))
        self._producer = Producer(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def read(self, topic: Topic) -> Iterator[Record]:
        for partition in partitions_of(self._bootstrap, topic.name):
            for records in read_range(self._bootstrap, topic.name, partition):
                yield from records

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            self._producer.send_events(topic_of(event.WhichOneof("body") or ""), [event])
        self._producer.flush()

    def acknowledge(self, positions: Positions) -> None:
        reader = Reader(self._bootstrap, {}, group=GROUP)
        try:
            reader.commit(positions)
        finally:
            reader.close()
