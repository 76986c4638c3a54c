"""The two brokers, each with a stack of its own, and topics that are filled or empty."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from confluent_kafka.admin import AdminClient

from infra.log import Producer, ensure_topics
from infra.settings import Settings
from infra.stack import down, up
from planloop.workers import Site
from producers.workload import bench_records
from schemas.event_pb2 import EventBatch
from schemas.topics import ROLLOUTS, Topic


class Broker(StrEnum):
    TANSU = "tansu"
    KAFKA = "kafka"


_REPOSITORY = Path(__file__).parent.parent.parent


@contextmanager
def running(broker: Broker) -> Iterator[Site]:
    """A whole stack on a broker, in a directory of its own, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="planloop-bench-") as folder:
        settings = Settings(
            state=Path(folder),
            kafka_home=kafka_home() if broker is Broker.KAFKA else None,
            kafka_bootstrap=None,
            s3_endpoint=None,
            warehouse_url=None,
        )
        try:
            yield Site(settings, up(settings))
        finally:
            down(settings)


def kafka_home() -> Path | None:
    """An unpacked Apache Kafka, where there is one and a Java to run it."""
    default = _REPOSITORY.parent / "shared" / "kafka"
    home = Path(os.environ.get("PLANLOOP_KAFKA_HOME", default))
    java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return home if java and (home / "libs").is_dir() else None


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic of whole groups. `size` is the bytes of records for each event."""

    topic: str
    records: int
    events: int
    size: float


def filled(site: Site, events: int, per_record: int, *, index: bool = True) -> Filled:
    """Write the workload once. `index` False leaves out what `encode` adds to the events."""
    kind = "indexed" if index else "bare"
    topic = replace(ROLLOUTS, name=f"{ROLLOUTS.name}.{kind}-{per_record}-{events}")
    ensure_topics(site.endpoints.kafka, [topic])
    producer = Producer(site.endpoints.kafka)
    records = written = size = 0
    for key, value in bench_records(events, per_record):
        batch = EventBatch.FromString(value)
        written += len(batch.events)
        records += 1
        if not index:
            batch.ClearField("runs")
            value = batch.SerializeToString()
        size += len(value)
        producer.send(topic.name, key, value)
    producer.close()
    return Filled(topic.name, records, written, size / written)


def emptied(site: Site, topics: Sequence[Topic]) -> None:
    """Make topics anew, so that what is on them comes from one run."""
    admin = AdminClient({"bootstrap.servers": site.endpoints.kafka})
    there = set(admin.list_topics(timeout=30).topics).intersection(topic.name for topic in topics)
    if there:
        for deleted in admin.delete_topics(sorted(there)).values():
            deleted.result(30)
        while there.intersection(admin.list_topics(timeout=30).topics):
            time.sleep(0.05)
    ensure_topics(site.endpoints.kafka, topics)
