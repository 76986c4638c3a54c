"""Topics of the log: making them, their partitions, their true ends."""

import logging
from collections.abc import Iterable

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic

from schemas.errors import InfrastructureAwayError, InputError
from schemas.topics import CATALOGUE, MAX_RECORD_BYTES, Topic

MAX_BATCH_BYTES = MAX_RECORD_BYTES + 64 * 1024
"""What the largest record takes on the wire: its value, key and framing."""

EMBEDDED_CLUSTER = "tansu_cluster"
"""The cluster id by which the embedded broker is known."""

logger = logging.getLogger("planloop.log")
"""Where librdkafka's own messages go."""

_ANSWER_S = 10.0


def away(message: str) -> InfrastructureAwayError:
    return InfrastructureAwayError("log", message, "is it running? see `planloop status`")


def answers(bootstrap: str, timeout_s: float = 1.0) -> bool:
    """Whether a broker serves metadata now."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logger)
    try:
        return bool(admin.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def ensure_topics(bootstrap: str, topics: Iterable[Topic] = CATALOGUE) -> None:
    """Make the topics that are missing; those that exist stay as they are.

    Time stamps are the broker's: a device's clock must not decide what retention removes.
    """
    wanted = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            config=topic.config
            | {
                "max.message.bytes": str(MAX_BATCH_BYTES),
                "message.timestamp.type": "LogAppendTime",
            },
        )
        for topic in topics
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logger)
    describe(admin, bootstrap)
    for name, made in admin.create_topics(wanted, operation_timeout=_ANSWER_S).items():
        try:
            made.result(2 * _ANSWER_S)  # librdkafka itself ends it sooner
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise away(f"topic {name} at {bootstrap}: {reason.str()}") from None


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """The topic's partitions in order; InputError where there is no such topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logger)
    return partitions_in(describe(admin, bootstrap), topic)


def describe(client: AdminClient | Consumer, bootstrap: str) -> ClusterMetadata:
    """The cluster as a broker describes it; InfrastructureAwayError if none answers."""
    try:
        # All topics: asking for one by name makes it on brokers that create topics by themselves.
        return client.list_topics(timeout=_ANSWER_S)
    except KafkaException as error:
        raise away(f"no answer from {bootstrap}: {error.args[0].str()}") from None


def partitions_in(cluster: ClusterMetadata, topic: str) -> list[int]:
    """As `partitions_of`, of a cluster described already."""
    if topic not in cluster.topics:
        raise InputError(f"there is no topic {topic}", "`planloop up` makes the topics")
    return sorted(cluster.topics[topic].partitions)
