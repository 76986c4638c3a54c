"""Verify: an honest history passes, and every single lie in it is found and named."""

import struct
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from consumers.archive import read_archive, segments, write_segment
from consumers.replay import Past
from consumers.verify import Finding, VerifyReport, verify
from infra.log import Record
from schemas.batch import encode
from schemas.event_pb2 import Event, EventBatch
from schemas.events import Stream
from schemas.topics import COMPETENCE, CURATION, GROUPS, ROLLOUTS
from schemas.training_pb2 import BATCH_KIND_CARE, BatchReady, BatchRow
from streams.batches import batch_digest
from tests.consumers.archived import NOON, append, archived, edited, rewrite, rollout_events
from tests.consumers.memory_store import MemoryStore


def check(store: MemoryStore) -> VerifyReport:
    return verify(Past(store), store)


def kinds(report: VerifyReport) -> list[str]:
    return [finding.kind for finding in report.findings]


def events_of(store: MemoryStore, topic: str) -> list[Event]:
    return [
        event
        for batch in read_archive(store, topic, 0)
        for record in batch
        for event in EventBatch.FromString(record.value or b"").events
    ]


def on(body: str, change: Callable[[Event], None], group: str = "group-1") -> Callable:
    """A change of the events of one body and group."""

    def apply(record: Record) -> Record:
        def maybe(event: Event) -> None:
            if event.WhichOneof("body") == body and event.group_id == group:
                change(event)

        return edited(record, maybe)

    return apply


def test_honest_history_passes_and_everything_is_counted() -> None:
    store = archived()
    seen: list[Counter[str]] = []
    report = verify(Past(store), store, on_progress=lambda checked: seen.append(checked.copy()))
    assert report.findings == []
    assert report.ok
    assert report.checked["group_scored"] == 3
    assert report.checked["episode_assembled"] == 9
    assert report.checked["record_curated"] == 9
    assert report.checked["competence_measured"] == 6
    assert report.checked["objects"] == 9
    assert report.checked["indexes"] > 0
    assert report.checked["events"] >= len(rollout_events())
    assert seen[-1] == report.checked


def test_one_flipped_bit_of_a_reward_is_found_and_the_event_named() -> None:
    store = archived()
    (scored,) = (
        e
        for e in events_of(store, GROUPS.name)
        if e.HasField("group_scored") and e.group_id == "group-1"
    )
    before = scored.group_scored.members[1].reward
    (raw,) = struct.unpack(">Q", struct.pack(">d", before))
    (after,) = struct.unpack(">d", struct.pack(">Q", raw ^ 1))

    def flip(event: Event) -> None:
        event.group_scored.members[1].reward = after

    rewrite(store, GROUPS.name, on("group_scored", flip))
    (finding,) = check(store).findings
    assert finding.kind == "differs"
    assert finding.where == scored.event_id
    assert "group_scored.members[1].reward" in finding.detail
    assert f"recorded {raw ^ 1:016x}" in finding.detail
    assert f"derived {raw:016x}" in finding.detail


def test_changed_raw_event_shows_in_what_follows_from_it() -> None:
    store = archived()

    def lie(event: Event) -> None:
        event.verification_made.success = not event.verification_made.success

    rewrite(store, ROLLOUTS.name, on("verification_made", lie, "group-2"))
    report = check(store)
    assert "differs" in kinds(report)
    assert all("group-2" in f.where for f in report.findings if f.kind == "differs")


def test_flipped_byte_of_a_segment_fails_and_names_it() -> None:
    store = archived()
    (segment,) = segments(store, GROUPS.name, 0)
    data = bytearray(store.objects[segment.key])
    data[len(data) // 2] ^= 0x10
    store.objects[segment.key] = bytes(data)
    (finding,) = check(store).findings
    assert (finding.kind, finding.where) == ("segment", segment.key)


def test_overlapping_segments_are_counted_and_harmless() -> None:
    store = archived()
    some = [r for batch in read_archive(store, ROLLOUTS.name, 0, 2, 5) for r in batch]
    write_segment(store, ROLLOUTS.name, 0, 2, 5, some)
    report = check(store)
    assert report.ok
    assert report.checked["overlapping segments"] == 1


def test_missing_segment_fails() -> None:
    store = archived()
    append(store, events_of(store, GROUPS.name))
    assert check(store).ok, "events recorded twice are one event"
    del store.objects[segments(store, GROUPS.name, 0)[0].key]
    (finding,) = check(store).findings
    assert "lacks offsets 0 to" in finding.detail


def test_missing_and_surplus_derived_events_are_findings() -> None:
    store = archived()
    (invented,) = (
        e
        for e in events_of(store, GROUPS.name)
        if e.HasField("group_scored") and e.group_id == "group-0"
    )
    rewrite(
        store,
        CURATION.name,
        lambda r: None if b"group-0/1" in (r.key or b"") else r,
    )
    invented.stream_id = "group-9/scored"
    invented.event_id = f"group-9/scored#{invented.seq}"
    invented.group_id = "group-9"
    append(store, [invented])
    found = {(f.kind, f.where) for f in check(store).findings}
    assert ("missing", "record:group-0/1#0") in found
    assert ("surplus", invented.event_id) in found


def test_two_versions_of_one_event_are_a_conflict() -> None:
    store = archived()
    copy = events_of(store, COMPETENCE.name)[0]
    copy.competence_measured.successes += 1
    append(store, [copy])
    (finding,) = check(store).findings
    assert (finding.kind, finding.where) == ("conflict", copy.event_id)
    assert "competence_measured.successes" in finding.detail


def test_index_that_lies_is_found_by_its_place() -> None:
    store = archived()
    lied: list[int] = []

    def lie(record: Record) -> Record:
        batch = EventBatch.FromString(record.value or b"")
        if not batch.runs or lied:
            return record
        batch.runs[0].tool_calls += 1
        lied.append(record.offset)
        return replace(record, value=batch.SerializeToString())

    rewrite(store, ROLLOUTS.name, lie)
    findings = check(store).findings
    assert [f.where for f in findings if f.kind == "index"] == [f"{ROLLOUTS.name}/0/{lied[0]}"]


def test_index_of_joined_batches_is_no_lie() -> None:
    events = rollout_events(1)
    store = archived(events)
    halves = encode(events[1:5]) + encode(events[5:9])
    records = [
        Record(ROLLOUTS.name, 0, 0, b"group-0", encode(events[:1]), NOON),
        Record(ROLLOUTS.name, 0, 1, b"group-0", halves, NOON),
        Record(ROLLOUTS.name, 0, 2, b"group-0", encode(events[9:]), NOON),
    ]
    packed = iter(records)
    rewrite(store, ROLLOUTS.name, lambda _: next(packed, None))
    assert check(store).findings == []


def test_lost_and_changed_objects_are_found() -> None:
    store = archived()
    first, second = [key for key, _ in store.list("records/")][:2]
    del store.objects[first]
    store.objects[second] += b"x"
    found = {finding.where: finding.kind for finding in check(store).findings}
    assert found == {first: "object", second: "object"}


def _batch(store: MemoryStore, change: Callable[[BatchReady], None]) -> Event:
    (scored,) = (
        e
        for e in events_of(store, GROUPS.name)
        if e.HasField("group_scored") and e.group_id == "group-1"
    )
    event = Stream("batch:b1", tenant="local", producer="trainer").event(NOON)
    ready = event.batch_ready
    ready.batch_id = "b1"
    ready.kind = BATCH_KIND_CARE
    for member in scored.group_scored.members:
        ready.rows.append(
            BatchRow(
                episode_id=member.episode_id,
                group_id="group-1",
                source_event_id=scored.event_id,
                advantage=member.advantage,
                weight=1.0,
            )
        )
    change(ready)
    ready.digest = ready.digest or batch_digest(ready.rows)
    return event


def _other_advantage(ready: BatchReady) -> None:
    ready.rows[1].advantage = -ready.rows[1].advantage or 1.0


def _other_source(ready: BatchReady) -> None:
    ready.rows[0].source_event_id = "nowhere#0"


def _other_episode(ready: BatchReady) -> None:
    ready.rows[0].episode_id = "stranger"


def _other_digest(ready: BatchReady) -> None:
    ready.digest = "0" * 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ready: None, ""),
        (_other_advantage, "rows[1]: advantage: recorded"),
        (_other_source, "rows[0]: its source nowhere#0 is not on the log"),
        (_other_episode, "stranger is no member"),
        (_other_digest, "digest: recorded 000000"),
    ],
)
def test_batches_hold_what_their_sources_say(
    change: Callable[[BatchReady], None], words: str
) -> None:
    store = archived()
    append(store, [_batch(store, change)])
    report = check(store)
    assert report.checked["batch rows"] == 3
    if not words:
        assert report.ok
        return
    (finding,) = report.findings
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.where) == ("batch", "batch:b1#0")
    assert words in finding.detail


def test_refused_events_must_be_among_the_dead_letters() -> None:
    events = rollout_events(1)
    stray = Stream("e9", tenant="local", producer="test", group_id="unheard-of").event(NOON)
    stray.verification_made.verifier = "rule"
    store = archived([*events, stray])
    assert check(store).ok
    for segment in segments(store, "planloop.dead-letters", 0):
        del store.objects[segment.key]
    (finding,) = check(store).findings
    assert finding.kind == "missing"
    assert "dead_letter" in finding.detail
