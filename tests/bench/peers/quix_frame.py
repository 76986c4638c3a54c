"""Quix Streams on raw bytes: one callback a record, results to a topic, offsets committed.

State is a dict as in the plain loop, not Quix's store: its changelog cannot be made on a
broker that tells no topic settings. The clock runs from the first record to the last result
handed over, which favours the peer.
"""

import tempfile
import uuid

from quixstreams import Application  # pyright: ignore[reportMissingImports]

from tests.bench.peers.work import Groups, scored_record
from tests.bench.stopwatch import Stopwatch, Task, task


def main(given: Task) -> None:
    app = Application(
        broker_address=given.bootstrap,
        consumer_group=f"quix-{uuid.uuid4().hex}",
        auto_offset_reset="earliest",
        commit_interval=1.0,
        state_dir=tempfile.mkdtemp(),
        auto_create_topics=False,
        consumer_extra_config={"session.timeout.ms": 6000},
        loglevel="WARNING",
    )
    source = app.topic(given.topic, key_deserializer="bytes", value_deserializer="bytes")
    output = app.topic(given.output, key_serializer="bytes", value_serializer="bytes")
    groups = Groups()
    clock = Stopwatch()
    records = 0

    def fold(value: bytes) -> list[bytes]:
        nonlocal records
        if records == 0:
            clock.start()
        records += 1
        if records == given.records:
            app.stop()
        return [scored_record(group) for group in groups.take((value,))]

    frame = app.dataframe(source)
    frame = frame.apply(fold, expand=True).to_topic(output)
    app.run()
    clock.stop()
    clock.report()


if __name__ == "__main__":
    main(task())
