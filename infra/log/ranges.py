"""Stretches of the log: reading one to its end, and where the ends are."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_END

from infra.log.reader import Reader
from infra.log.record import Record
from infra.log.topics import partitions_of


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
