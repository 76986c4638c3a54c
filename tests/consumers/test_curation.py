"""Curation: what is kept, removed, held back, and which turns carry no loss."""

import hashlib
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.curation import CurationFold, CurationState
from schemas.batch import Batch
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.governance_pb2 import (
    CURATION_OUTCOME_FOR_REVIEW,
    CURATION_OUTCOME_REMOVED,
    CURATION_OUTCOME_RETAINED,
    RecordCurated,
    ReviewRequested,
)
from schemas.rollout_pb2 import (
    DATA_SPLIT_DEV,
    DATA_SPLIT_TEST,
    DATA_SPLIT_UNSPECIFIED,
    FAILURE_ORIGIN_ENVIRONMENT,
    FAILURE_ORIGIN_INFRASTRUCTURE,
    FAILURE_ORIGIN_MODEL,
    TERMINATION_ERROR,
    DataSplit,
    FailureOrigin,
)
from schemas.topics import CURATION, ROLLOUTS
from schemas.training_pb2 import TURN_ROLE_POLICY, TrainingRecord
from schemas.validation import check
from streams.driver import drive
from streams.fold import Output
from tests.consumers.rollouts import NOON, SECOND, Rollout, as_records, done, opened

G = "g1"


def run(*rollouts: Rollout, size: int = 0, split: DataSplit | None = None) -> Output:
    """What curation derives from a group of these episodes."""
    events = [opened(G, size or len(rollouts))]
    if split is not None:
        events[0].group_opened.split = split
    for rollout in rollouts:
        events += rollout.events
    return drive(CurationFold(), as_records(events))


def decisions(output: Output) -> dict[str, RecordCurated]:
    return {
        event.record_curated.episode_id: event.record_curated
        for event in output.events
        if event.HasField("record_curated")
    }


def reviews(output: Output) -> list[ReviewRequested]:
    return [e.review_requested for e in output.events if e.HasField("review_requested")]


def record_of(output: Output, episode: str) -> TrainingRecord:
    ref = decisions(output)[episode].object
    return TrainingRecord.FromString(dict(output.objects)[ref.key])


def diagnose(
    rollout: Rollout,
    wrong: Sequence[int],
    recovery: int | None = None,
    *,
    origin: FailureOrigin = FAILURE_ORIGIN_MODEL,
    confidence: float = 1.0,
) -> Rollout:
    rollout.writer.diagnose(
        rollout.at,
        origin=origin,
        kind="argument_grounding",
        capability="booking",
        erroneous_seqs=wrong,
        recovery_seq=recovery,
        diagnoser="rules",
        confidence=confidence,
    )
    return rollout


def test_success_and_failure_are_both_retained() -> None:
    output = run(done(G, "a", True), done(G, "b", False))
    found = decisions(output)
    assert [found[e].outcome for e in "ab"] == [CURATION_OUTCOME_RETAINED] * 2
    assert [found[e].success for e in "ab"] == [True, False]
    assert [found[e].failure_kind for e in "ab"] == ["", "undiagnosed"]
    assert reviews(output) == []


def test_record_is_stored_by_content_and_linked_to_its_events() -> None:
    rollout = done(G, "a")
    output = run(rollout, done(G, "b"))
    body = decisions(output)["a"]
    content = dict(output.objects)[body.object.key]
    assert body.object.sha256 == hashlib.sha256(content).hexdigest()
    assert body.object.key == f"records/{body.object.sha256}.pb"
    assert body.object.bytes == len(content)
    assert body.first_event_id == "a#0"
    assert body.last_event_id == rollout.events[-1].event_id
    assert body.evidence[0] == rollout.events[-2].event_id
    record = record_of(output, "a")
    assert record.request == "book a flight"
    assert record.policy_version == "p0"
    assert [turn.event_id for turn in record.turns] == [f"a#{n}" for n in range(1, 6)]
    assert body.supervised_turns == 3


def test_derived_events_pass_the_edge_and_repeat_exactly() -> None:
    outputs = [run(done(G, "a"), done(G, "b").verdict(False)) for _ in range(2)]
    first, second = ([e.SerializeToString(deterministic=True) for e in o.events] for o in outputs)
    assert first == second
    for event in outputs[0].events:
        assert check(event, CURATION, CURATION.key(event)) is None
        assert event.occurred_at == event.recorded_at
        assert event.seq == 0


def test_tokens_and_log_probabilities_go_into_the_record() -> None:
    rollout = Rollout(G, "a")
    rollout.writer.act(rollout.at, text="hi", token_ids=[5, 6], logprobs=[-0.5, -0.25])
    rollout.verdict(True).end()
    record = record_of(run(rollout, done(G, "b")), "a")
    assert list(record.turns[0].token_ids) == [5, 6]
    assert list(record.turns[0].logprobs) == [-0.5, -0.25]


@pytest.mark.parametrize("split", [DATA_SPLIT_DEV, DATA_SPLIT_TEST])
def test_held_out_splits_leave_no_record(split: DataSplit) -> None:
    output = run(done(G, "a"), done(G, "b", False), split=split)
    for body in decisions(output).values():
        assert body.outcome == CURATION_OUTCOME_REMOVED
        assert "held_out" in body.reasons
        assert not body.HasField("object")
    assert output.objects == []


def test_unknown_split_is_not_training_data_until_somebody_says_so() -> None:
    output = run(done(G, "a"), done(G, "b"), split=DATA_SPLIT_UNSPECIFIED)
    assert all(b.outcome == CURATION_OUTCOME_FOR_REVIEW for b in decisions(output).values())


def test_duplicates_keep_the_earliest_episode_id() -> None:
    output = run(done(G, "b", text="same"), done(G, "a", text="same"), done(G, "c"))
    found = decisions(output)
    assert found["a"].outcome == CURATION_OUTCOME_RETAINED
    assert found["b"].outcome == CURATION_OUTCOME_REMOVED
    assert list(found["b"].reasons) == ["duplicate:a"]
    assert found["a"].content_digest == found["b"].content_digest != found["c"].content_digest


def test_duplicate_sees_through_key_order_and_call_ids() -> None:
    one = Rollout(G, "a").call("book", '{"x":1,"y":2}').verdict(True).end()
    two = Rollout(G, "b")
    two.writer.act(two.at, tool="book", arguments_json='{"y": 2, "x": 1}', call_id="other")
    two.writer.observe(two.at, " ok ", tool="book", call_id="other", latency_us=9)
    two.verdict(True).end()
    digests = {body.content_digest for body in decisions(run(one, two)).values()}
    assert len(digests) == 1


def test_equal_content_with_two_verdicts_is_for_review() -> None:
    output = run(done(G, "a", True, "same"), done(G, "b", False, "same"))
    found = decisions(output)
    assert found["a"].outcome == CURATION_OUTCOME_FOR_REVIEW
    assert list(found["a"].reasons) == ["conflicting_duplicate"]
    assert [review.subject_id for review in reviews(output)] == [found["a"].record_id]


@pytest.mark.parametrize(
    ("evidence", "confidence", "reason"),
    [
        ([], 1.0, "unsupported_success"),
        (["elsewhere#3"], 1.0, "unsupported_success"),
        (["a#2"], 0.5, "low_confidence"),
    ],
)
def test_unsupported_success_goes_to_a_reviewer(
    evidence: list[str], confidence: float, reason: str
) -> None:
    rollout = Rollout(G, "a").call("book")
    rollout.verdict(True, evidence=evidence, confidence=confidence).end()
    output = run(rollout, done(G, "b"))
    body = decisions(output)["a"]
    assert body.outcome == CURATION_OUTCOME_FOR_REVIEW
    assert list(body.reasons) == [reason]
    (review,) = reviews(output)
    assert review.subject_id == body.record_id
    assert review.confidence == confidence
    assert body.HasField("object")


def test_verdicts_that_contradict_each_other_go_to_a_reviewer() -> None:
    rollout = Rollout(G, "a").call("book").verdict(False).verdict(True).end()
    body = decisions(run(rollout, done(G, "b")))["a"]
    assert list(body.reasons) == ["conflicting_verdicts"]


def test_verdict_on_the_way_is_no_contradiction() -> None:
    rollout = Rollout(G, "a").call("search").verdict(False).call("book").verdict(True).end()
    assert decisions(run(rollout, done(G, "b")))["a"].outcome == CURATION_OUTCOME_RETAINED


def test_failure_of_the_environment_is_not_taught_as_the_models() -> None:
    rollout = Rollout(G, "a").call("book").verdict(False)
    diagnose(rollout, [], origin=FAILURE_ORIGIN_ENVIRONMENT).end()
    body = decisions(run(rollout, done(G, "b")))["a"]
    assert list(body.reasons) == ["failure_not_of_the_model"]
    assert body.failure_kind == "argument_grounding"


def test_call_without_its_observation_is_malformed() -> None:
    rollout = Rollout(G, "a").call("book", result=None).say("done").verdict(True).end()
    body = decisions(run(rollout, done(G, "b")))["a"]
    assert body.outcome == CURATION_OUTCOME_REMOVED
    assert list(body.reasons) == ["observation_missing"]
    assert not body.HasField("object")


def test_last_call_needs_no_observation() -> None:
    rollout = Rollout(G, "a").call("search").call("transfer", result=None).verdict(False).end()
    assert decisions(run(rollout, done(G, "b")))["a"].outcome == CURATION_OUTCOME_RETAINED


def test_invalid_episode_is_removed_with_its_reason() -> None:
    broken = Rollout(G, "a").call("book")
    broken.writer.end(broken.at, TERMINATION_ERROR, failed=FAILURE_ORIGIN_INFRASTRUCTURE)
    output = run(broken, done(G, "b"), done(G, "c"), size=2)
    body = decisions(output)["a"]
    assert body.outcome == CURATION_OUTCOME_REMOVED
    assert list(body.reasons) == ["invalid:infrastructure"]
    assert body.failure_kind == ""


def test_unfinished_episode_is_removed_when_the_deadline_closes_its_group() -> None:
    first = opened(G, 3, deadline=NOON + 1000 * SECOND)
    clock = Stream(G, tenant="local", producer="test", group_id=G, next_seq=1).event(NOON)
    clock.clock_advanced.now = NOON + 1000 * SECOND
    events = [first, *done(G, "a").events, *Rollout(G, "b").call("book").events, clock]
    found = decisions(drive(CurationFold(), as_records(events)))
    assert found["a"].outcome == CURATION_OUTCOME_RETAINED
    assert list(found["b"].reasons) == ["invalid:unfinished", "unfinished"]


def masked(rollout: Rollout) -> list[int]:
    output = run(rollout, done(G, "other"))
    body = decisions(output)[rollout.writer.stream.stream_id]
    record = record_of(output, rollout.writer.stream.stream_id)
    assert [turn.seq for turn in record.turns if turn.masked] == list(body.masked_seqs)
    policy = [turn for turn in record.turns if turn.role == TURN_ROLE_POLICY]
    assert body.supervised_turns == len(policy) - len(body.masked_seqs)
    return list(body.masked_seqs)


def test_failed_call_is_masked_and_its_repair_is_not() -> None:
    rollout = Rollout(G, "a").call("book", '{"id": 9}', "no such id", "not_found")
    rollout.call("book", '{"id": 1}').verdict(True).end()
    assert masked(rollout) == [1]
    assert "recovery" in decisions(run(rollout, done(G, "b")))["a"].capabilities


def test_repeat_of_a_failing_call_is_masked_until_it_succeeds() -> None:
    rollout = Rollout(G, "a").call("book", '{"id":9}', "busy", "busy")
    rollout.call("book", '{"id": 9}', "busy", "busy").call("book", '{"id":9}').verdict(True).end()
    assert masked(rollout) == [1, 3]


@pytest.mark.parametrize(
    "arguments", ["", "[1]", "{", '{"a": NaN}', "null", '"{}"', '{"a":' * 600 + "1" + "}" * 600]
)
def test_call_whose_arguments_are_no_object_is_masked(arguments: str) -> None:
    rollout = Rollout(G, "a").call("search", arguments).call("book").verdict(True).end()
    assert masked(rollout) == [1]


def test_diagnosed_turns_are_masked_and_the_recovery_stays() -> None:
    rollout = Rollout(G, "a").call("search").call("book").say("sorry").verdict(True)
    diagnose(rollout, [1, 3, 5, 2, 99], recovery=5).end()
    assert masked(rollout) == [1, 3], "observations and unknown turns carry no loss anyway"


def test_recovery_named_by_a_diagnosis_stays_although_it_failed() -> None:
    rollout = Rollout(G, "a").call("book", "{}", "no", "denied").call("find").verdict(True)
    diagnose(rollout, [], recovery=1).end()
    assert masked(rollout) == []


def test_capability_tags_follow_their_rules() -> None:
    rollout = Rollout(G, "a").say("which day?", "monday").call("search").call("book")
    rollout.verdict(True).end()
    assert list(decisions(run(rollout, done(G, "b")))["a"].capabilities) == [
        "booking",
        "multi_step",
        "multi_tool",
        "multi_turn",
        "tool_use",
    ]


def test_events_out_of_order_and_after_the_end_do_not_change_a_record() -> None:
    def derive(events: list[Event]) -> dict[str, RecordCurated]:
        first = opened(G, 2, deadline=NOON + 10_000 * SECOND)
        records = as_records([first, *events, *done(G, "b").events], per_record=1)
        return decisions(drive(CurationFold(), records))

    straight = done(G, "a").events
    swapped = list(straight)
    swapped[2:5] = [swapped[4], swapped[2], swapped[3]]
    extra = done(G, "a", text="more").say("after the end").events[-1]
    assert derive([*swapped, extra]) == derive(straight)


def test_nothing_is_derived_before_the_group_is_scored() -> None:
    assert run(done(G, "a"), size=2).events == []


def test_what_comes_after_the_score_asks_for_a_review_and_changes_no_record() -> None:
    member = done(G, "a")
    events = [opened(G, 2), *member.events, *done(G, "b").events]
    diagnose(member, [1]).verdict(False)
    events += [*member.events[-2:], *done(G, "c").events]
    output = drive(CurationFold(), as_records(events, per_record=1))
    found = decisions(output)
    assert found["a"].outcome == CURATION_OUTCOME_RETAINED
    assert list(found["c"].reasons) == ["group_closed"]
    assert {tuple(r.reasons) for r in reviews(output)} == {
        ("diagnosed_late",),
        ("contradicted_late",),
    }
    assert len({event.event_id for event in output.events}) == len(output.events)


def _log() -> list[Event]:
    retry = Rollout(G, "b").call("book", '{"id":9}', "no", "not_found").call("book", '{"id":1}')
    retry.verdict(True).end()
    early = done(G, "a")
    rollouts = [early, retry, done(G, "c", False), done(G, "late")]
    events = [opened(G, 3), *(event for rollout in rollouts for event in rollout.events)]
    told = len(early.events)
    diagnose(early, [1]).verdict(False)
    return [*events, *early.events[told:]]


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    repeats=st.lists(st.integers(0, 20), max_size=4),
)
def test_packing_and_duplicates_change_nothing(sizes: list[int], repeats: list[int]) -> None:
    events = _log()
    expected = drive(CurationFold(), as_records(events, per_record=1))
    for at in sorted(repeats, reverse=True):
        events.insert(at + 2, events[at])
    packed = drive(CurationFold(), as_records(events, per_record=sizes[0]))
    wanted = {e.event_id: e.SerializeToString(deterministic=True) for e in expected.events}
    assert {e.event_id: e.SerializeToString(deterministic=True) for e in packed.events} == wanted
    assert dict(packed.objects) == dict(expected.objects)


def test_state_survives_a_snapshot_anywhere_and_is_small_when_closed() -> None:
    fold = CurationFold()
    whole = drive(fold, as_records(_log()))
    state, output = fold.initial(G), Output()
    for record in as_records(_log()):
        fold.apply(state, Batch(record.value, record.key, ROLLOUTS), output)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=CurationState)
    assert output.events == whole.events
    assert fold.closed(state)
    assert state.events == state.assembled == {}
