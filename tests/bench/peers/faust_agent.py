"""A Faust agent: batches of records by `stream.take`, results sent to a topic, offsets committed.

The clock runs from the first batch to the last result handed over; joining, the last commit
and stopping are left out, which favours the peer.
"""

import asyncio
import tempfile
import uuid

import faust  # pyright: ignore[reportMissingImports]

from tests.bench.peers.work import Groups, scored_record
from tests.bench.stopwatch import Stopwatch, Task, task

BATCH = 2000


def main(given: Task) -> None:
    app = faust.App(
        f"faust-{uuid.uuid4().hex}",
        broker=f"kafka://{given.bootstrap}",
        datadir=tempfile.mkdtemp(),
        store="memory://",
        key_serializer="raw",
        value_serializer="raw",
        web_enabled=False,
        broker_commit_interval=1.0,
        broker_session_timeout=6.0,
        broker_heartbeat_interval=2.0,
        stream_buffer_maxsize=16_384,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(given.topic, key_type=bytes, value_type=bytes)
    output = app.topic(given.output, key_type=bytes, value_type=bytes)
    groups = Groups()
    clock = Stopwatch()
    done = asyncio.Event()

    @app.agent(source)
    async def fold(stream) -> None:  # pyright: ignore[reportMissingParameterType]
        records = 0
        sent = []
        async for values in stream.take(BATCH, within=0.1):
            if records == 0:
                clock.start()
            for group in groups.take(values):
                sent.append(
                    await output.send(key=group.group_id.encode(), value=scored_record(group))
                )
            records += len(values)
            if records >= given.records:
                clock.stop()
                await asyncio.gather(*sent)
                done.set()

    async def run() -> None:
        async with app:
            await done.wait()

    asyncio.run(run())
    clock.report()


if __name__ == "__main__":
    main(task())
