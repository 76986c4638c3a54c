from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from producers.generator import generate
from schemas.event_pb2 import Event
from schemas.rollout_pb2 import TERMINATION_ERROR
from schemas.scoring_pb2 import REGIME_EFFICIENCY, REGIME_OUTCOME, REGIME_PROGRESS
from schemas.topics import ROLLOUTS, TASKS
from schemas.validation import check
from tests.producers.folding import scored


def events_of(seed: int, groups: int, size: int) -> list[Event]:
    return [event for keyed in generate(seed, groups, size).build() for event in keyed.events]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 6))
def test_any_seed_gives_a_log_that_passes_the_edge(seed: int, size: int) -> None:
    log = generate(seed, 3, size)
    keyed = list(log.build())
    assert [part.topic for part in keyed] == [TASKS, ROLLOUTS] * 3
    for part in keyed:
        for event in part.events:
            assert check(event, part.topic, part.key) is None
    events = [event for part in keyed for event in part.events]
    assert {event.stream_id for event in events} == set(log.streams)
    numbers: dict[str, list[int]] = defaultdict(list)
    for event in events:
        numbers[event.stream_id].append(event.seq)
        assert not event.causation_id or event.causation_id.startswith(event.stream_id)
    assert all(seqs == list(range(len(seqs))) for seqs in numbers.values())
    ends = [event for event in events if event.HasField("episode_ended")]
    broken = [e for e in ends if e.episode_ended.termination == TERMINATION_ERROR]
    assert len(ends) - len(broken) == 3 * size
    assert len(ends) == log.episodes


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    def raw(seed: int) -> list[bytes]:
        return [e.SerializeToString(deterministic=True) for e in events_of(seed, 6, 3)]

    assert raw(1) == raw(1)
    assert raw(1) != raw(2)


def test_the_log_of_make_run_has_something_of_everything() -> None:
    events = events_of(0, 50, 4)
    found = Counter(event.WhichOneof("body") for event in events)
    assert found["failure_diagnosed"] > 50
    errors = [e for e in events if e.observation_received.error_code]
    assert len(errors) > 50
    recovered = [e for e in events if e.failure_diagnosed.HasField("recovery_seq")]
    assert recovered
    acted = {(e.stream_id, e.seq) for e in events if e.HasField("action_taken")}
    for event in events:
        for seq in event.failure_diagnosed.erroneous_seqs:
            assert (event.stream_id, seq) in acted, "a diagnosis points at turns"
    for event in recovered:
        assert (event.stream_id, event.failure_diagnosed.recovery_seq) in acted
    accepted = [e for e in events if e.observation_received.content == '{"status":"accepted"}']
    assert accepted, "an app acknowledges what it did not do"
    assert all(e.action_taken.output_tokens for e in events if e.HasField("action_taken"))


def test_all_regimes_occur_and_broken_executions_are_refilled() -> None:
    derived = scored(generate(0, 50, 4))
    groups = [event.group_scored for event in derived if event.HasField("group_scored")]
    assert len(groups) == 50
    assert all(group.valid == 4 for group in groups)
    regimes = Counter(group.regime for group in groups)
    assert min(regimes[r] for r in (REGIME_PROGRESS, REGIME_OUTCOME, REGIME_EFFICIENCY)) >= 5
    assert any(event.HasField("refill_requested") for event in derived)
    assert not any(event.HasField("sequence_gap_found") for event in derived)
