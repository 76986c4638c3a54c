"""The local engine: a crash between any two steps of a checkpoint loses and repeats nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from infra.checkpoints import FileCheckpoints
from infra.log import Record
from schemas.batch import encode
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.topics import GROUPS, ROLLOUTS, Topic
from streams.competence import CompetenceFold
from streams.driver import drive
from streams.engine import LocalEngine, TooManyRefusedError
from streams.groups import GroupFold
from streams.host import EPOCH, Host
from tests.streams.test_groups import a_busy_log, done, opened

Plan = Callable[[str], None]
"""Called before each step of the outside world with the step's name; may raise."""


class CrashError(Exception):
    pass


class MemoryLog:
    """A log in memory that an engine reads from and writes to, with a plan of crashes."""

    def __init__(self, records: Sequence[Record], plan: Plan = lambda step: None) -> None:
        self.records = records
        self.plan = plan
        self.written: list[Event] = []
        self.unflushed: list[Event] = []
        self.snapshots: dict[int, bytes] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.objects: dict[str, bytes] = {}
        self.at_end = False

    def open(self, positions: Mapping[tuple[str, int], int]) -> "MemoryLog":
        self.next = positions["planloop.rollouts", 0]
        self.at_end = False
        self.unflushed = []
        return self

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        self.plan("poll")
        some = [record for record in self.records if record.offset >= self.next][:7]
        self.at_end = not some
        if some:
            self.next = some[-1].offset + 1
        return some

    def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        self.plan("commit")
        self.committed.update(positions)

    def send_events(self, topic: Topic, events: Sequence[Event]) -> None:
        self.plan("send")
        self.unflushed.extend(events)

    def flush(self) -> None:
        """A crash in the middle of flushing leaves some of the events on the log."""
        half = len(self.unflushed) // 2
        self.written += self.unflushed[:half]
        self.plan("flush")
        self.written += self.unflushed[half:]
        self.unflushed = []

    def put_all(self, objects: Sequence[tuple[str, bytes]]) -> None:
        self.plan("put")
        self.objects.update(objects)

    def load(self, partition: int) -> bytes | None:
        return self.snapshots.get(partition)

    def save(self, snapshots: Mapping[int, bytes]) -> None:
        self.plan("save")
        self.snapshots.update(snapshots)


def engine_on(log: MemoryLog) -> LocalEngine:
    return LocalEngine(
        ROLLOUTS,
        [GroupFold()],
        partitions=[0],
        open_source=log.open,
        sink=log,
        objects=log,
        checkpoints=log,
        checkpoint_interval_s=0.0,
    )


def log_records() -> list[Record]:
    return [
        Record("planloop.rollouts", 0, 3 * n, e.group_id.encode(), encode([e]), e.recorded_at)
        for n, e in enumerate(a_busy_log())
    ]


def distinct(events: Sequence[Event]) -> list[bytes]:
    """Events once each, in order of first appearance; two of one identity must be equal."""
    seen: dict[str, bytes] = {}
    for event in events:
        encoded = event.SerializeToString(deterministic=True)
        assert seen.setdefault(event.event_id, encoded) == encoded
    return list(seen.values())


def crashing_after(count: int) -> Plan:
    """Crashes once, at the count-th step."""
    steps: Iterator[int] = iter(range(count + 1))

    def plan(step: str) -> None:
        if next(steps, None) == count:
            raise CrashError(step)

    return plan


def test_an_undisturbed_run_is_what_the_driver_derives():
    log = MemoryLog(log_records())
    progress = engine_on(log).run(until_end=True)
    expected = drive(GroupFold(), log_records()).events
    assert sorted(distinct(log.written)) == sorted(distinct(expected))
    assert log.committed == {("planloop.rollouts", 0): log_records()[-1].offset + 1}
    assert (progress.records, progress.derived) == (len(log_records()), len(expected))


def test_a_crash_at_any_step_changes_nothing():
    undisturbed = MemoryLog(log_records())
    engine_on(undisturbed).run(until_end=True)
    crashes = 0
    for count in range(200):
        log = MemoryLog(log_records(), crashing_after(count))
        try:
            engine_on(log).run(until_end=True)
        except CrashError:
            crashes += 1
            engine_on(log).run(until_end=True)
        assert distinct(log.written) == distinct(undisturbed.written)
    assert crashes > 20


def test_a_finished_run_again_derives_nothing():
    log = MemoryLog(log_records())
    engine_on(log).run(until_end=True)
    before = len(log.written)
    assert engine_on(log).run(until_end=True).records == 0
    assert len(log.written) == before


def test_a_snapshot_of_another_fold_version_is_left_aside():
    log = MemoryLog(log_records())
    engine_on(log).run(until_end=True)
    newer = GroupFold()
    newer.version = 2
    host = Host(ROLLOUTS, [newer])
    assert not host.restore(log.snapshots[0])
    assert host.next_offset == 0
    streams = {event.stream_id for event in drive(newer, log_records()).events}
    assert "g/scored.2" in streams


def test_a_restored_host_goes_on_exactly_where_it_was():
    records = log_records()
    whole = Host(ROLLOUTS, [GroupFold()]).apply(records).events
    for cut in range(0, len(records), 5):
        first = Host(ROLLOUTS, [GroupFold()])
        events = list(first.apply(records[:cut]).events)
        second = Host(ROLLOUTS, [GroupFold()])
        assert second.restore(first.snapshot())
        events += second.apply(records[max(cut - 3, 0) :]).events
        assert sorted(distinct(events)) == sorted(distinct(whole))


def test_a_release_that_refuses_most_of_the_log_is_stopped():
    foreign = done("nobody-opened-this", "a").events
    records = [
        Record("planloop.rollouts", 0, n, b"nobody-opened-this", encode(foreign), 1)
        for n in range(400)
    ]
    log = MemoryLog(records)
    with pytest.raises(TooManyRefusedError):
        engine_on(log).run(until_end=True)
    assert max(log.committed.values(), default=0) < len(records)


def test_closed_states_are_forgotten_by_offset_however_the_log_is_read():
    """What comes late is known for what it is through the next epoch, and unknown after that."""
    spread = 3 * EPOCH // 600
    records: list[Record] = []
    for n in range(600):
        name = f"group-{n}"
        events = [opened(name), *done(name, f"{name}/a").events, *done(name, f"{name}/b").events]
        records.append(Record("planloop.rollouts", 0, n * spread, name.encode(), encode(events), 1))
        if n in (150, 300, 599):
            late = encode(done("group-10", "group-10/late").events)
            records.append(Record("planloop.rollouts", 0, n * spread + 1, b"group-10", late, 1))
    one_by_one = Host(ROLLOUTS, [GroupFold()])
    expected = [event for record in records for event in one_by_one.apply([record]).events]
    for size in (7, 100, len(records)):
        host = Host(ROLLOUTS, [GroupFold()])
        events: list[Event] = []
        for start in range(0, len(records), size):
            events += host.apply(records[start : start + size]).events
            restored = Host(ROLLOUTS, [GroupFold()])
            assert restored.restore(host.snapshot())
            host = restored
        assert sorted(distinct(events)) == sorted(distinct(expected))
        assert host.kept == one_by_one.kept < 450
    unknown = [e for e in expected if e.WhichOneof("body") == "dead_letter"]
    assert sum(e.WhichOneof("body") == "verdict_came_late" for e in expected) == 1
    assert {e.dead_letter.offset for e in unknown} == {599 * spread + 1}


def test_competence_counts_each_score_once():
    events = drive(GroupFold(), log_records()).events
    scores = [e for e in events if e.WhichOneof("body") == "group_scored"]
    records = [
        Record(GROUPS.name, 0, n, e.group_id.encode(), encode([e]), e.recorded_at)
        for n, e in enumerate([*scores, *scores])
    ]
    measured = drive(CompetenceFold(), records).events
    tasks = [e.competence_measured for e in measured if e.competence_measured.scope == "task"]
    assert [(m.episodes, m.successes) for m in tasks] == [(3, 2), (2, 1)]
    assert [e.event_id for e in measured[:2]] == ["g/competence#0", "g/competence#1"]


def test_one_process_at_a_time_owns_the_checkpoints(tmp_path):
    first = FileCheckpoints(tmp_path)
    first.save({0: b"zero", 1: b"one"})
    with pytest.raises(InputError, match="another process"):
        FileCheckpoints(tmp_path)
    first.close()
    second = FileCheckpoints(tmp_path)
    assert (second.load(0), second.load(1), second.load(2)) == (b"zero", b"one", None)
