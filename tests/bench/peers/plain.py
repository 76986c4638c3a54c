"""The plain loop: consume, parse, keep groups in a dict. Nothing written, nothing to recover.

Modes `consume` and `parse` stop short of the work, to tell what each step costs.
"""

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from schemas.event_pb2 import EventBatch
from tests.bench.peers.work import Group, Groups, result
from tests.bench.stopwatch import Stopwatch, Task, task

POLL = 2000


def main(given: Task) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": "plain",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 64 * 1024,
        }
    )
    partitions = consumer.list_topics(given.topic).topics[given.topic].partitions
    groups = Groups()
    whole: list[Group] = []
    clock = Stopwatch()
    consumer.assign(
        [TopicPartition(given.topic, number, OFFSET_BEGINNING) for number in partitions]
    )
    clock.start()
    records = 0
    while records < given.records:
        messages = consumer.consume(min(POLL, given.records - records), 0.2)
        records += len(messages)
        if given.mode == "consume":
            continue
        values: list[bytes] = [message.value() for message in messages]  # pyright: ignore[reportAssignmentType]
        if given.mode == "fold":
            whole += groups.take(values)
        else:
            for value in values:
                EventBatch.FromString(value)
    clock.stop()
    consumer.close()
    clock.report([result(group) for group in whole])


if __name__ == "__main__":
    main(task())
