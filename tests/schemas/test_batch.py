"""Records: with and without index, joined, damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.batch import Batch, Run, append_run, encode, run_of
from schemas.event_pb2 import Event, EventBatch
from schemas.event_pb2 import Run as WireRun
from schemas.events import event_id
from schemas.refusal_pb2 import (
    REASON_EMPTY_RECORD,
    REASON_NO_EVENTS,
    REASON_TOO_LARGE,
    REASON_UNPARSEABLE,
)
from schemas.rollout_pb2 import (
    ACTION_KIND_FINISH,
    ACTION_KIND_TOOL_CALL,
    OBSERVATION_KIND_TOOL_RESULT,
    TERMINATION_BUDGET,
    TERMINATION_DONE,
)
from schemas.topics import BODIES, MAX_RECORD_BYTES, ROLLOUTS
from schemas.validation import check
from tests.builders import START, good_episode, good_group
from tests.hostile import plain

GROUP = "grp-1"
KEY = GROUP.encode()


def _indexed(events: list[Event]) -> Batch:
    return Batch(encode(events), KEY, ROLLOUTS)


def _read(events: list[Event]) -> Batch:
    return Batch(plain(*events), KEY, ROLLOUTS)


@st.composite
def _events(draw: st.DrawFn) -> list[Event]:
    """Valid events of one group: a few streams, interleaved, with gaps and repeats."""
    size = draw(st.integers(1, 30))
    seqs: dict[str, int] = {}
    events: list[Event] = []
    for _ in range(size):
        stream_id = draw(st.sampled_from(["ep-1", "ep-2", "ep-ü"]))
        seq = seqs.get(stream_id, 1) + draw(st.sampled_from([0, 0, 0, 0, 1, -1, 2**40]))
        seq = max(seq, 1)
        seqs[stream_id] = seq + 1
        at = START + draw(st.integers(-(10**9), 10**9))
        event = Event(
            stream_id=stream_id,
            seq=seq,
            event_id=event_id(stream_id, seq),
            group_id=GROUP,
            occurred_at=at,
            recorded_at=at + 5,
            producer="tests",
            tenant=draw(st.sampled_from(["acme", "acme", "acme", "beta"])),
        )
        _fill(draw, event)
        events.append(event)
    return events


def _fill(draw: st.DrawFn, event: Event) -> None:
    body = draw(st.sampled_from(["action", "observation", "verdict", "end"]))
    if body == "action":
        action = event.action_taken
        action.kind = draw(st.sampled_from([ACTION_KIND_TOOL_CALL, ACTION_KIND_FINISH]))
        action.text = draw(st.text(max_size=20))
        tokens = draw(st.integers(0, 5))
        action.token_ids.extend(range(tokens))
        action.logprobs.extend([-0.5] * tokens)
        told = draw(st.one_of(st.none(), st.integers(0, 2**32 - 1)))
        if told is not None:
            action.output_tokens = told
    elif body == "observation":
        event.observation_received.kind = OBSERVATION_KIND_TOOL_RESULT
        event.observation_received.error_code = draw(st.sampled_from(["", "", "TIMEOUT"]))
        event.observation_received.content = draw(st.text(max_size=200))
    elif body == "verdict":
        event.verification_made.verifier = "rules/1"
        event.verification_made.progress = draw(st.floats(0, 1))
    else:
        event.episode_ended.termination = draw(
            st.sampled_from([TERMINATION_DONE, TERMINATION_BUDGET])
        )


def _sums(run: Run, events: list[Event]) -> Run:
    """The run that covers the events of `run`, computed the long way."""
    part = events[run.start : run.start + len(run.bodies)]
    actions = [event.action_taken for event in part if event.HasField("action_taken")]
    observations = [e.observation_received for e in part if e.HasField("observation_received")]
    return Run(
        start=run.start,
        stream_id=part[0].stream_id,
        first_seq=part[0].seq,
        bodies=bytes(BODIES[event.WhichOneof("body") or ""] for event in part),
        tenant=part[0].tenant,
        tool_calls=sum(action.kind == ACTION_KIND_TOOL_CALL for action in actions),
        output_tokens=sum(action.output_tokens for action in actions),
        untold_actions=sum(not action.HasField("output_tokens") for action in actions),
        errors=sum(observation.error_code != "" for observation in observations),
        earliest=min(event.occurred_at for event in part),
        latest=max(event.occurred_at for event in part),
    )


@settings(max_examples=150, deadline=None)
@given(_events())
def test_with_and_without_index_a_fold_sees_the_same(events: list[Event]) -> None:
    assert [check(event, ROLLOUTS, GROUP) for event in events] == [None] * len(events)
    indexed, read = _indexed(events), _read(events)
    untrusted = Batch(encode(events), KEY, ROLLOUTS, trust=False)
    assert indexed.refusals == read.refusals == untrusted.refusals == []
    assert indexed.runs == read.runs == untrusted.runs
    assert indexed.runs == [_sums(run, events) for run in indexed.runs]
    assert sum(len(run.bodies) for run in indexed.runs) == len(events)
    for position, event in enumerate(events):
        assert indexed.event(position) == read.event(position) == event
        assert indexed.raw(position) == read.raw(position) == event.SerializeToString()


@settings(max_examples=50, deadline=None)
@given(_events())
def test_a_run_is_what_its_events_joined_one_by_one_give(events: list[Event]) -> None:
    runs: list[Run] = []
    for position, event in enumerate(events):
        append_run(runs, run_of(event, position))
    assert runs == _indexed(events).runs


@settings(max_examples=50, deadline=None)
@given(_events(), _events(), st.booleans(), st.booleans())
def test_two_batches_one_behind_the_other_are_a_batch(
    first: list[Event], second: list[Event], index_first: bool, index_second: bool
) -> None:
    value = (encode(first) if index_first else plain(*first)) + (
        encode(second) if index_second else plain(*second)
    )
    together = Batch(value, KEY, ROLLOUTS)
    assert together.refusals == []
    covered = [
        (run.stream_id, run.first_seq + place, body)
        for run in together.runs
        for place, body in enumerate(run.bodies)
    ]
    assert covered == [
        (event.stream_id, event.seq, BODIES[event.WhichOneof("body") or ""])
        for event in first + second
    ]
    assert [together.event(place) for place in range(len(covered))] == first + second


def test_consecutive_events_of_a_stream_are_one_run() -> None:
    events = good_group(GROUP)
    runs = _read(events).runs
    assert [run.stream_id for run in runs] == list(dict.fromkeys(e.stream_id for e in events))
    episode = runs[1]
    assert episode.steps == 4
    assert episode.tool_calls == 3
    assert episode.output_tokens == 80
    assert episode.next_seq == 10


def test_an_index_that_does_not_add_up_is_ignored() -> None:
    events = good_episode(GROUP, 0)
    honest = _indexed(events).runs
    for bodies in (b"", b"\x17", b"\x17" * (len(events) + 1)):
        batch = EventBatch(events=events, runs=[WireRun(stream_id="x", bodies=bodies)])
        assert Batch(batch.SerializeToString(), KEY, ROLLOUTS).runs == honest


@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_broken_index_takes_no_event_with_it(count: int) -> None:
    events = good_episode(GROUP, 0)[:count]
    batch = Batch(plain(*events) + b"\x12\x04\x0a\x7fab", KEY, ROLLOUTS)
    assert batch.refusals == []
    assert batch.runs == _indexed(events).runs
    assert [batch.event(position) for position in range(count)] == events


@pytest.mark.parametrize(
    ("value", "length"),
    [
        (None, 0),
        (b"\x0a\x04\x0a\x7fab", 1),
        (b"\x0a\x04\x0a\x7fab" * 2, 2),
        (b"\x0a\xff", 0),
        (plain(*good_episode(GROUP, 0)), 10),
        (encode(good_episode(GROUP, 0)), 10),
    ],
    ids=["none", "one broken", "two broken", "no frame", "plain", "indexed"],
)
def test_the_length_counts_refused_events_but_not_refused_records(
    value: bytes | None, length: int
) -> None:
    assert len(Batch(value, KEY, ROLLOUTS)) == length


def test_trust_false_sets_an_index_aside() -> None:
    events = good_episode(GROUP, 0)
    lie = WireRun(stream_id="x", bodies=b"\x17" * len(events), tenant="mallory")
    value = EventBatch(events=events, runs=[lie]).SerializeToString()
    assert Batch(value, KEY, ROLLOUTS).runs[0].tenant == "mallory"
    assert Batch(value, KEY, ROLLOUTS, trust=False).runs == _indexed(events).runs


@pytest.mark.parametrize("length", [0, 1, 60, 90, 100, 200, 20_000, 3_000_000 // 4])
def test_a_record_of_one_event_is_read_at_any_length(length: int) -> None:
    event = good_episode(GROUP, 0)[2]
    event.observation_received.content = "x" * length
    batch = _read([event])
    assert batch.refusals == []
    assert batch.event(0) == event
    assert batch.raw(0) == event.SerializeToString()
    assert batch.runs == [run_of(event, 0)]


def test_one_bad_event_does_not_take_its_neighbours() -> None:
    events = good_episode(GROUP, 0)
    broken = b"\x0a\x04\x0a\x7fab"
    value = plain(*events[:3]) + broken + plain(*events[3:6]) + broken + plain(*events[6:])
    batch = Batch(value, KEY, ROLLOUTS)
    assert [(at, refusal.reason) for at, refusal in batch.refusals] == [
        (3, REASON_UNPARSEABLE),
        (7, REASON_UNPARSEABLE),
    ]
    assert [(run.start, run.first_seq, len(run.bodies)) for run in batch.runs] == [
        (0, 0, 3),
        (4, 3, 3),
        (8, 6, len(events) - 6),
    ]
    assert batch.raw(3) == broken[2:]
    assert batch.event(8) == events[6]


def test_a_refused_event_parts_a_run() -> None:
    events = good_episode(GROUP, 0)
    events[4].tenant = ""
    batch = _read(events)
    assert [at for at, _ in batch.refusals] == [4]
    assert [(run.start, run.first_seq) for run in batch.runs] == [(0, 0), (5, 5)]


@pytest.mark.parametrize("cut", [1, 5, 200, 2000])
def test_a_truncated_record_is_refused_whole_even_when_it_had_an_index(cut: int) -> None:
    value = encode(good_episode(GROUP, 0))
    batch = Batch(value[:-cut], KEY, ROLLOUTS)
    assert [(at, refusal.reason) for at, refusal in batch.refusals] == [(None, REASON_UNPARSEABLE)]
    assert batch.runs == []


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        (None, KEY, REASON_EMPTY_RECORD),
        (b"", KEY, REASON_EMPTY_RECORD),
        (b"\x18\x01", KEY, REASON_NO_EVENTS),
        (b"\x0a", KEY, REASON_UNPARSEABLE),
        (b"\x0a\xff", KEY, REASON_UNPARSEABLE),
        (b"\x0a" * (MAX_RECORD_BYTES + 1), KEY, REASON_TOO_LARGE),
        (plain(good_episode(GROUP, 0)[0]), b"\xff", REASON_UNPARSEABLE),
        (plain(*good_episode(GROUP, 0)), b"\xff", REASON_UNPARSEABLE),
    ],
    ids=["none", "empty", "unknown field", "tag", "half a length", "too large", "key", "key 2"],
)
def test_records_that_are_refused_whole(value: bytes | None, key: bytes, reason: int) -> None:
    batch = Batch(value, key, ROLLOUTS)
    assert [(at, refusal.reason) for at, refusal in batch.refusals] == [(None, reason)]
    assert batch.runs == []


def test_a_record_beyond_the_event_limit_may_hold_many_smaller_events() -> None:
    events = good_episode(GROUP, 0)
    for event in events[2:7:2]:
        event.observation_received.content = "x" * 700_000
    assert _read(events).refusals == []


def test_encoding_needs_a_body() -> None:
    with pytest.raises(KeyError):
        encode([Event(stream_id="s")])
