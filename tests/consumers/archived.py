"""A whole small history in an archive, as an engine and its archiver would leave it."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from consumers.archive import read_archive, segments, write_segment
from consumers.curation import CurationFold
from infra.log import Record
from schemas.batch import encode
from schemas.event_pb2 import Event, EventBatch
from schemas.topics import GROUPS, ROLLOUTS, topic_of
from streams.competence import CompetenceFold
from streams.driver import Driver, drive
from streams.groups import GroupFold
from tests.consumers.memory_store import MemoryStore
from tests.consumers.rollouts import NOON, Rollout, as_records, done, opened


def rollout_events(groups: int = 3) -> list[Event]:
    """Groups of two with successes, a failure, a repaired error and a duplicate."""
    events: list[Event] = []
    for number in range(groups):
        group = f"group-{number}"
        repaired = Rollout(group, f"{group}/1").call("book", '{"id": 9}', "no", "not_found")
        repaired.call("book", '{"id": 1}').verdict(True).end()
        events.append(opened(group, 3))
        events += done(group, f"{group}/0", success=number > 0).events
        events += repaired.events
        events += done(group, f"{group}/2", success=number > 1).events
    return events


def archived(events: Sequence[Event] | None = None) -> MemoryStore:
    """An archive of these rollouts and of everything that the folds derive from them."""
    store = MemoryStore()
    records = as_records(rollout_events() if events is None else events)
    archive(store, records)
    output = Driver(ROLLOUTS, [GroupFold(), CurationFold()]).apply(records)
    for key, content in output.objects:
        store.put(key, content)
    append(store, output.events)
    groups = [one for batch in read_archive(store, GROUPS.name, 0) for one in batch]
    append(store, drive(CompetenceFold(), groups).events)
    return store


def archive(store: MemoryStore, records: Sequence[Record]) -> None:
    """Add records of one partition as a segment behind those that are there."""
    topic, partition = records[0].topic, records[0].partition
    write_segment(store, topic, partition, records[0].offset, records[-1].offset, records)


def append(store: MemoryStore, events: Sequence[Event]) -> None:
    """Add events at the end of their topics, partition 0."""
    by_topic: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_topic[topic_of(event.WhichOneof("body") or "").name].append(event)
    for name, some in by_topic.items():
        end = max((part.last + 1 for part in segments(store, name, 0)), default=0)
        archive(
            store,
            as_records(
                some,
                per_record=3,
                first_offset=end,
                topic=name,
                key=topic_of(some[0].WhichOneof("body") or "").key,
            ),
        )


def rewrite(store: MemoryStore, topic: str, change: Callable[[Record], Record | None]) -> None:
    """Replace the archived records of a topic by what `change` makes of each, or drop it."""
    for segment in segments(store, topic, 0):
        before = [
            one
            for batch in read_archive(store, topic, 0, segment.first, segment.last)
            for one in batch
        ]
        after = [new for one in before if (new := change(one)) is not None]
        write_segment(store, topic, 0, segment.first, segment.last, after)


def edited(record: Record, change: Callable[[Event], None]) -> Record:
    """The record with its events changed in place and written anew."""
    events = list(EventBatch.FromString(record.value or b"").events)
    for event in events:
        change(event)
    return replace(record, value=encode(events))


__all__ = ["NOON", "append", "archive", "archived", "edited", "rewrite", "rollout_events"]
