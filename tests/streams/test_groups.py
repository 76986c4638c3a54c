"""Trajectory assembly and groups: what closes them, what is invalid, what is late."""

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.log import Record
from schemas.batch import encode
from schemas.event_pb2 import Event
from schemas.events import Stream, event_id
from schemas.refusal_pb2 import (
    REASON_AFTER_END,
    REASON_GROUP_UNKNOWN,
    REASON_WRONG_TENANT,
)
from schemas.rollout_pb2 import (
    FAILURE_ORIGIN_ENVIRONMENT,
    FAILURE_ORIGIN_MODEL,
    TERMINATION_ERROR,
)
from schemas.scoring_pb2 import (
    CLOSED_BY_COUNT,
    CLOSED_BY_DEADLINE,
    INVALID_REASON_ENVIRONMENT,
    INVALID_REASON_NO_VERDICT,
    INVALID_REASON_NOT_STARTED,
    INVALID_REASON_SEQUENCE_GAP,
    INVALID_REASON_UNFINISHED,
    REGIME_EFFICIENCY,
    REGIME_OUTCOME,
    REGIME_UNSCORED,
)
from schemas.topics import ROLLOUTS
from streams.driver import drive
from streams.groups import GroupFold, clock_stream
from tests.consumers.rollouts import NOON, SECOND, Rollout, done, opened

HOUR = 3600 * SECOND
DEADLINE = NOON + HOUR


def records(*packed: list[Event]) -> list[Record]:
    """One record for each list of events."""
    return [
        Record("planloop.rollouts", 0, offset, events[0].group_id.encode(), encode(events), NOON)
        for offset, events in enumerate(packed)
    ]


def derived(*packed: list[Event]) -> list[Event]:
    return drive(GroupFold(), records(*packed)).events


def of(events: list[Event], body: str) -> list[Event]:
    return [event for event in events if event.WhichOneof("body") == body]


def only(events: list[Event], body: str) -> Event:
    (event,) = of(events, body)
    return event


def clock(group: str, now: int, seq: int = 0) -> Event:
    stream = Stream(
        clock_stream(group), tenant="local", producer="test", group_id=group, next_seq=seq
    )
    event = stream.event(now)
    event.clock_advanced.now = now
    return event


def broken(group: str, episode: str) -> Rollout:
    """An episode whose environment broke."""
    rollout = Rollout(group, episode).call("search")
    rollout.writer.end(rollout.at, TERMINATION_ERROR, failed=FAILURE_ORIGIN_ENVIRONMENT)
    return rollout


def test_a_group_closes_when_it_has_as_many_valid_members_as_it_wants():
    events = derived([opened("g")], done("g", "a").events, done("g", "b", success=False).events)
    assembled = of(events, "episode_assembled")
    assert [event.episode_assembled.valid for event in assembled] == [True, True]
    first = assembled[0].episode_assembled
    assert (first.steps, first.tool_calls, first.output_tokens, first.errors) == (3, 2, 19, 0)
    assert first.cost == 2 / 20
    scored = only(events, "group_scored").group_scored
    assert (scored.closed_by, scored.regime) == (CLOSED_BY_COUNT, REGIME_OUTCOME)
    assert (scored.size, scored.valid, scored.successes, scored.success_rate) == (2, 2, 1, 0.5)
    assert [member.advantage > 0 for member in scored.members] == [True, False]
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(event.event_id == event_id("g/scored", event.seq) for event in events)


def test_an_invalid_member_is_not_a_failure_and_is_refilled():
    events = derived(
        [opened("g")],
        done("g", "a").events,
        broken("g", "b").events,
        done("g", "c").events,
    )
    refill = only(events, "refill_requested").refill_requested
    assert (refill.replaces_episode_id, refill.missing) == ("b", 1)
    assert refill.reason == INVALID_REASON_ENVIRONMENT
    scored = only(events, "group_scored").group_scored
    assert (scored.valid, scored.success_rate) == (2, 1.0)
    assert scored.regime == REGIME_EFFICIENCY
    invalid = scored.members[1]
    assert (invalid.valid, invalid.advantage, invalid.reward) == (False, 0.0, 0.0)


def test_a_model_that_broke_the_protocol_failed_validly():
    rollout = Rollout("g", "a").call("search")
    rollout.writer.end(rollout.at, TERMINATION_ERROR, failed=FAILURE_ORIGIN_MODEL)
    body = only(derived([opened("g")], rollout.events), "episode_assembled").episode_assembled
    assert (body.valid, body.success) == (True, False)


def test_the_deadline_closes_a_group_with_what_it_has():
    unfinished = Rollout("g", "b").call("search").events
    events = derived(
        [opened("g", deadline=DEADLINE)], done("g", "a").events, unfinished, [clock("g", DEADLINE)]
    )
    scored = only(events, "group_scored")
    assert scored.group_scored.closed_by == CLOSED_BY_DEADLINE
    assert scored.group_scored.regime == REGIME_UNSCORED
    assert scored.occurred_at == DEADLINE
    reasons = [member.invalid_reason for member in scored.group_scored.members]
    assert reasons[1] == INVALID_REASON_UNFINISHED
    assert not of(events, "refill_requested")


def test_a_verdict_after_the_close_is_late_and_changes_nothing():
    late = Rollout("g", "b").call("search")
    early = list(late.events)
    late.verdict(True)
    events = derived(
        [opened("g", deadline=DEADLINE)],
        done("g", "a").events,
        early,
        [clock("g", DEADLINE)],
        late.events[len(early) :],
    )
    assert len(of(events, "group_scored")) == 1
    came = only(events, "verdict_came_late").verdict_came_late
    assert (came.episode_id, came.success, came.was_member) == ("b", True, True)


def test_an_episode_after_the_close_is_late_too():
    events = derived(
        [opened("g")], done("g", "a").events, done("g", "b").events, done("g", "c").events
    )
    came = only(events, "verdict_came_late").verdict_came_late
    assert (came.episode_id, came.was_member) == ("c", False)


def test_without_a_deadline_nothing_waits_for_a_verdict():
    events = derived([opened("g")], Rollout("g", "a").call("search").end().events)
    body = only(events, "episode_assembled").episode_assembled
    assert (body.valid, body.invalid_reason) == (False, INVALID_REASON_NO_VERDICT)


def test_with_a_deadline_the_verdict_may_come_after_the_end():
    rollout = Rollout("g", "a").call("search").end()
    before = list(rollout.events)
    rollout.verdict(True)
    events = derived([opened("g", deadline=DEADLINE)], before, rollout.events[len(before) :])
    body = only(events, "episode_assembled").episode_assembled
    assert (body.valid, body.success) == (True, True)


def test_a_hole_is_reported_and_may_still_be_filled():
    whole = done("g", "a").events
    events = derived([opened("g", deadline=DEADLINE)], whole[:2], whole[4:], whole[2:4])
    gap = only(events, "sequence_gap_found").sequence_gap_found
    assert (gap.gapped_stream_id, gap.expected_seq, gap.found_seq) == ("a", 2, 4)
    body = only(events, "episode_assembled").episode_assembled
    assert (body.valid, body.steps) == (True, 3)


def test_a_hole_that_stays_makes_the_episode_invalid():
    whole = done("g", "a").events
    events = derived([opened("g")], whole[:2], whole[3:])
    body = only(events, "episode_assembled").episode_assembled
    assert (body.valid, body.invalid_reason) == (False, INVALID_REASON_SEQUENCE_GAP)


def test_an_episode_without_its_start_is_invalid():
    headless = Rollout("g", "a").call("search").verdict(True).end().events
    for seq, event in enumerate(headless[1:]):
        event.seq = seq
        event.event_id = event_id("a", seq)
    body = only(derived([opened("g")], headless[1:]), "episode_assembled").episode_assembled
    assert body.invalid_reason == INVALID_REASON_NOT_STARTED


def test_duplicates_change_nothing():
    packed = [[opened("g")], done("g", "a").events, done("g", "b").events]
    assert derived(*packed) == derived(*packed, *packed)
    assert derived(*packed) == derived(*(part for part in packed for _ in range(2)))


def test_what_the_fold_refuses_becomes_a_dead_letter_with_its_place():
    foreign = done("g", "x").events
    for event in foreign:
        event.tenant = "somebody-else"
    after = done("g", "a")
    after.call("search")
    events = derived(done("h", "z").events, [opened("g")], foreign, after.events)
    letters = [event.dead_letter for event in of(events, "dead_letter")]
    found = {(letter.offset, letter.reason) for letter in letters}
    assert found == {
        (0, REASON_GROUP_UNKNOWN),
        (2, REASON_WRONG_TENANT),
        (3, REASON_AFTER_END),
    }
    assert sum(letter.offset == 2 for letter in letters) == len(foreign)
    last = max(letters, key=lambda letter: (letter.offset, letter.index))
    assert Event.FromString(last.raw) == after.events[last.index]


def a_busy_log() -> list[Event]:
    """Two groups with everything that can happen, interleaved."""
    late = Rollout("h", "h2").call("search").end()
    late.verdict(False)
    late.writer.diagnose(
        late.at,
        kind="tool_routing",
        capability="tool_routing",
        origin=FAILURE_ORIGIN_MODEL,
        erroneous_seqs=[1],
        recovery_seq=None,
        diagnoser="test",
    )
    tracks = [
        [opened("g", size=3)],
        done("g", "a").events,
        broken("g", "b").events,
        done("g", "c", success=False).events,
        done("g", "d").events,
        done("g", "e").events,
        [opened("h", deadline=DEADLINE)],
        done("h", "h1").events,
        late.events,
        Rollout("h", "h3").call("search").events,
        [clock("h", NOON + 60 * SECOND), clock("h", DEADLINE + 1, seq=1)],
        Rollout("h", "h4").call("search").verdict(True).end().events,
    ]
    return list(chain.from_iterable(tracks))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=120))
def test_how_events_are_packed_into_records_changes_no_bit(sizes: list[int]):
    log = a_busy_log()
    packed: list[list[Event]] = []
    size = iter(sizes)
    while log:
        room, key = next(size, 5), log[0].group_id
        some: list[Event] = []
        while log and len(some) < room and log[0].group_id == key:
            some.append(log.pop(0))
        packed.append(some)
    events = derived(*packed)
    expected = derived(*([event] for event in a_busy_log()))
    assert [e.SerializeToString(deterministic=True) for e in events] == [
        e.SerializeToString(deterministic=True) for e in expected
    ]


def test_the_busy_log_covers_every_derived_body():
    bodies = {event.WhichOneof("body") for event in derived(*([e] for e in a_busy_log()))}
    assert bodies >= {"episode_assembled", "group_scored", "refill_requested", "verdict_came_late"}
    assert all(ROLLOUTS.key(event) for event in a_busy_log())
