import math
from dataclasses import replace

import pytest

from schemas.errors import CheckFailedError, InputError
from schemas.governance_pb2 import (
    CURATION_OUTCOME_FOR_REVIEW,
    CURATION_OUTCOME_REMOVED,
)
from schemas.rollout_pb2 import DATA_SPLIT_DEV, DATA_SPLIT_TEST, DATA_SPLIT_TRAIN
from schemas.topics import MAX_EVENT_BYTES
from schemas.training_pb2 import TURN_ROLE_POLICY, TURN_ROLE_TOOL, TrainingRecord, Turn
from streams.batches import batch_digest
from tests.trainer.scene import TINY, Scene, call, policy_turn, record, tool_turn
from trainer import history
from trainer.config import ConfigError, TrainConfig
from trainer.forming import Formed, Former
from trainer.policy import Policy
from trainer.publish import ready_event

POLICY = Policy.create(TINY.model, [record("a"), record("b")], seed=0)


def former(scene: Scene, config: TrainConfig = TINY) -> Former:
    return Former(history.read(scene.log), scene.store, POLICY, config)


def care(scene: Scene, config: TrainConfig = TINY) -> Formed:
    formed = former(scene, config).care("p")
    assert formed is not None
    return formed


def supervised(scene: Scene, config: TrainConfig = TINY) -> Formed:
    formed = former(scene, config).supervised("p")
    assert formed is not None
    return formed


def episodes(formed: Formed) -> list[str]:
    return [row.episode_id for row in formed.body.rows]


def test_only_successes_that_were_retained_and_are_not_held_out_supervise(scene):
    good = scene.curate(record("good"))
    scene.curate(record("failed"), success=False)
    scene.curate(record("doubted"), outcome=CURATION_OUTCOME_FOR_REVIEW)
    scene.curate(record("removed"), outcome=CURATION_OUTCOME_REMOVED)
    scene.curate(record("dev"), split=DATA_SPLIT_DEV)
    scene.curate(record("test"), split=DATA_SPLIT_TEST)
    formed = supervised(scene)
    assert episodes(formed) == ["good"]
    assert formed.body.rows[0].source_event_id == good.event_id
    assert formed.body.rows[0].weight == 1


def test_a_record_that_says_it_is_held_out_is_held_out(scene):
    hidden = record("hidden")
    hidden.split = DATA_SPLIT_TEST
    scene.curate(hidden, split=DATA_SPLIT_TRAIN)
    asked = former(scene)
    assert asked.supervised("p") is None
    assert asked.left_out == {"a record's task is held out": 1}


def test_equal_contents_supervise_once(scene):
    for name in ("first", "second"):
        scene.curate(record(name), content_digest="same")
    scene.curate(record("other"), content_digest="different")
    assert episodes(supervised(scene)) == ["first", "other"]


def test_masked_turns_are_no_targets_of_equation_4(scene):
    scene.curate(record("a"))
    sequence = POLICY.codec.encode(record("a"))
    unmasked = sum(span.end - span.start for span in sequence.spans if not span.masked)
    assert supervised(scene).body.trained_tokens == unmasked < sequence.generated


def test_a_demonstration_that_is_all_masked_is_named(scene):
    scene.curate(record("a", [policy_turn("wrong", masked=True), tool_turn("no")]))
    asked = former(scene)
    assert asked.supervised("p") is None
    assert asked.left_out == {"no trainable tokens": 1}


def test_groups_are_left_out_for_their_advantage_never_for_their_success(scene):
    scene.group("saturated", [0.02, -0.02], successes=2)
    scene.group("hopeless", [0.3, -0.3], successes=0)
    scene.group("equal", [0.0, 0.0], successes=1)
    scene.group("mixed", [1.0, -1.0], successes=1)
    formed = care(scene)
    assert {row.group_id for row in formed.body.rows} == {"saturated", "hopeless", "mixed"}
    assert formed.groups == 3
    assert formed.groups_without_advantage == 1


def test_advantages_are_taken_as_they_were_scored(scene):
    odd = [1 / 3, -0.1234567890123456, -1e-17]
    scene.group("g", odd)
    assert [row.advantage for row in care(scene).body.rows] == odd


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_an_advantage_that_is_no_number_is_refused(scene, wrong):
    event = scene.group("g", [1.0, -1.0])
    event.group_scored.members[1].advantage = wrong
    told = history.read(scene.log)
    told.groups["g"] = event
    with pytest.raises(InputError, match=r"g/scored#0 has an advantage that is not a number"):
        Former(told, scene.store, POLICY, TINY).check()


def test_a_schedule_that_breaks_the_order_is_refused(scene):
    event = scene.group("g", [1.0, -1.0])
    event.group_scored.schedule.lambda_eff = 1.0
    told = history.read(scene.log)
    told.groups["g"] = event
    with pytest.raises(ConfigError, match="lambda_eff below 1"):
        Former(told, scene.store, POLICY, TINY).check()


def test_every_rollout_and_every_group_weighs_the_same(scene):
    """Long or short, cut or whole: the tokens of a rollout add up to 1 / G_eff."""
    long = [policy_turn("word " * 60), tool_turn("ok " * 40), policy_turn("end " * 50)]
    scene.curate(record("g/0", long), group_id="g")
    scene.curate(record("g/1", [policy_turn("no")]), group_id="g", success=False)
    scene.curate(record("g/2"), group_id="g", success=False)
    scene.score("g", [1.0, -0.4, -0.6], invalid=1)
    scene.group("h", [0.5, -0.5])
    formed = care(scene)
    assert len(formed.rows) > len(formed.body.rows)
    sums: dict[float, float] = {}
    for row in formed.rows:
        for weight, advantage in zip(row.weights, row.advantages, strict=True):
            key = round(float(advantage), 3)
            sums[key] = sums.get(key, 0.0) + float(weight)
    third, half = pytest.approx(1 / 3, abs=1e-5), pytest.approx(1 / 2, abs=1e-5)
    assert sums == {1.0: third, -0.4: third, -0.6: third, 0.5: half, -0.5: half}
    by_episode: dict[str, float] = {}
    for row in formed.body.rows:
        by_episode[row.episode_id] = by_episode.get(row.episode_id, 0.0) + row.weight
    assert set(by_episode.values()) == {1.0}
    assert "g/3" not in by_episode


def test_masked_turns_are_targets_of_equation_10(scene):
    scene.group("g", [1.0, -1.0])
    generated = [POLICY.codec.encode(record(f"g/{number}")).generated for number in (0, 1)]
    assert care(scene).body.trained_tokens == sum(generated)


def test_members_held_back_leave_the_denominator_alone(scene):
    scene.curate(record("g/0"), group_id="g")
    scene.curate(record("g/1"), group_id="g", success=False, outcome=CURATION_OUTCOME_FOR_REVIEW)
    scene.score("g", [1.0, -1.0])
    formed = care(scene)
    assert episodes(formed) == ["g/0"]
    assert sum(float(row.weights.sum()) for row in formed.rows) == pytest.approx(1 / 2)


def test_a_duplicate_is_still_a_member_of_its_group(scene):
    scene.curate(record("g/0"), group_id="g")
    scene.curate(
        record("g/1"),
        group_id="g",
        outcome=CURATION_OUTCOME_REMOVED,
        reasons=["duplicate:g/0"],
    )
    scene.score("g", [1.0, -1.0])
    assert episodes(care(scene)) == ["g/0", "g/1"]


def test_a_group_waits_for_all_its_members_to_be_curated(scene):
    scene.curate(record("g/0"), group_id="g")
    scene.score("g", [1.0, -1.0])
    asked = former(scene)
    assert asked.care("p") is None
    assert asked.waiting == {"groups with members not yet curated": 1}
    scene.curate(record("g/1"), group_id="g", success=False)
    assert episodes(care(scene)) == ["g/0", "g/1"]


def test_held_out_groups_are_never_trained_on(scene):
    scene.group("seen", [1.0, -1.0])
    for number in (0, 1):
        scene.curate(record(f"hidden/{number}"), group_id="hidden", split=DATA_SPLIT_TEST)
    scene.score("hidden", [1.0, -1.0], split=DATA_SPLIT_TEST)
    assert {row.group_id for row in care(scene).body.rows} == {"seen"}


def test_budgets_take_the_oldest_whole_groups(scene):
    for name in ("c", "a", "b"):
        scene.group(name, [1.0, -1.0])
    asked = former(scene, replace(TINY, care_token_budget=1, supervised_token_budget=1))
    formed = asked.care("p")
    assert formed is not None
    assert episodes(formed) == ["c/0", "c/1"]
    assert asked.waiting == {"groups beyond the budget": 2}
    formed = asked.supervised("p")
    assert formed is not None
    assert episodes(formed) == ["c/0"]


def test_a_batch_fits_into_an_event(scene):
    for number in range(700):
        scene.curate(record(f"{number:03}{'e' * 400}", [policy_turn("ok")]))
    asked = former(scene)
    formed = asked.supervised("p")
    assert formed is not None
    assert formed.body.ByteSize() < MAX_EVENT_BYTES
    assert len(formed.body.rows) + asked.waiting["records beyond the budget"] == 700
    assert len(formed.body.rows) < 700


def sampled(episode_id: str, ids: list[int], logprobs: list[float] | None) -> TrainingRecord:
    return TrainingRecord(
        record_id=f"record:{episode_id}",
        episode_id=episode_id,
        context_token_ids=range(20, 40),
        split=DATA_SPLIT_TRAIN,
        turns=[
            Turn(role=TURN_ROLE_POLICY, token_ids=ids, logprobs=logprobs),
            Turn(role=TURN_ROLE_TOOL, token_ids=[41]),
        ],
    )


def test_behaviour_is_recorded_or_recomputed_and_the_batch_says_which(scene):
    scene.curate(sampled("own/0", [50, 51], [-1.0, -2.0]), group_id="own")
    scene.curate(sampled("own/1", [52], [-3.0]), group_id="own", success=False)
    scene.score("own", [1.0, -1.0])
    formed = care(scene)
    assert formed.behaviour == "recorded"
    assert [row.behaviour.tolist() for row in formed.rows] == [[-1.0, -2.0], [-3.0]]
    scene.group("foreign", [1.0, -1.0])
    assert care(scene).behaviour == "mixed"


def test_a_recorded_rollout_is_never_cut(scene):
    """What the sampler saw is what the ratio is computed from, so long as it fits the policy."""
    fits, too_long = list(range(50, 250)), list(range(50, 300))
    scene.curate(sampled("g/0", fits, [-1.0] * len(fits)), group_id="g")
    scene.curate(sampled("g/1", too_long, [-1.0] * len(too_long)), group_id="g", success=False)
    scene.score("g", [1.0, -1.0])
    asked = former(scene)
    formed = asked.care("p")
    assert formed is not None
    assert [len(row.ids) for row in formed.rows] == [220]
    assert asked.left_out == {"a rollout is longer than the policy's context": 1}


def test_a_batch_is_formed_again_from_its_rows(scene):
    scene.group("g", [1.0, -1.0])
    scene.curate(record("h/0", [call("a", "{}"), tool_turn("x"), policy_turn("y")]))
    for formed in (supervised(scene), care(scene)):
        again = former(scene).again(ready_event(formed, "local"))
        assert again.body == formed.body
        assert again.occurred_at == formed.occurred_at
        assert [row.ids.tolist() for row in again.rows] == [row.ids.tolist() for row in formed.rows]
        tampered = ready_event(formed, "local")
        tampered.batch_ready.rows[0].weight = 0.5
        with pytest.raises(CheckFailedError, match="does not match its own rows"):
            former(scene).again(tampered)


def test_a_record_that_is_not_what_was_curated_is_refused(scene):
    event = scene.curate(record("a"))
    key = event.record_curated.object.key
    scene.store.objects[key] += b"\x00"
    with pytest.raises(CheckFailedError, match="is not what record:a#0 announced"):
        former(scene).supervised("p")


def test_digest_tells_every_bit_of_every_row(scene):
    scene.group("g", [1.0, -1.0])
    body = care(scene).body
    assert body.digest == batch_digest(body.rows)
    assert body.batch_id == f"care-{body.digest[:16]}"
    seen = {body.digest, batch_digest(body.rows[::-1]), batch_digest(body.rows[:1])}
    for field, value in (
        ("episode_id", "x"),
        ("group_id", "x"),
        ("source_event_id", "x"),
        ("advantage", math.nextafter(1.0, 2.0)),
        ("weight", 0.5),
    ):
        rows = [type(row).FromString(row.SerializeToString()) for row in body.rows]
        setattr(rows[0], field, value)
        seen.add(batch_digest(rows))
    assert len(seen) == 8
