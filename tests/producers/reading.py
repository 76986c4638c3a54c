"""What is on the log now, for tests that share a broker."""

from infra.log import Reader, partitions_of
from schemas.batch import Batch
from schemas.event_pb2 import Event
from schemas.topics import ROLLOUTS, Topic


def events_on(bootstrap: str, prefix: str, topic: Topic = ROLLOUTS) -> list[Event]:
    """Events under keys that start with `prefix`, in the order of their partition. Every record
    must pass the edge."""
    places = {(topic.name, partition): 0 for partition in partitions_of(bootstrap, topic.name)}
    reader = Reader(bootstrap, places)
    found: list[Event] = []
    while not reader.at_end:
        for record in reader.poll():
            if (record.key or b"").startswith(prefix.encode()):
                batch = Batch(record.value, record.key, topic, trust=False)
                assert not batch.refusals
                for run in batch.runs:
                    found += [batch.event(run.start + i) for i in range(len(run.bodies))]
    reader.close()
    return found


def ids_on(bootstrap: str, prefix: str, topic: Topic = ROLLOUTS) -> list[str]:
    """Ids of `events_on`, each at its first place."""
    return list(dict.fromkeys(event.event_id for event in events_on(bootstrap, prefix, topic)))
