import json
import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from schemas.errors import CheckFailedError, InputError
from schemas.event_pb2 import Event
from schemas.rollout_pb2 import DATA_SPLIT_TEST
from schemas.topics import TRAINING
from schemas.training_pb2 import BATCH_KIND_CARE, BATCH_KIND_SUPERVISED
from schemas.validation import check
from streams.batches import batch_digest
from tests.trainer.doubles import Killed, Life, MemoryLog, MemoryStore
from tests.trainer.scene import TINY, Scene, record
from trainer import manifest
from trainer.learner import DivergedError
from trainer.run import TrainReport, train


def filled() -> Scene:
    scene = Scene()
    scene.group("g", [1.0, -0.6, -0.4])
    scene.group("flat", [0.0, 0.0])
    scene.group("h", [0.2, -0.2], successes=2)
    return scene


def run(scene: Scene, state: Path) -> TrainReport:
    return train(scene.log, scene.store, state, TINY)


def told(log: MemoryLog) -> dict[str, bytes]:
    """The trainer's events by identity; one identity has one content."""
    events: dict[str, bytes] = {}
    for event in log.events(TRAINING):
        content = event.SerializeToString(deterministic=True)
        assert events.setdefault(event.event_id, content) == content
    return events


def policies(store: MemoryStore) -> dict[str, bytes]:
    return {key: data for key, data in store.objects.items() if key.startswith("policies/")}


def test_a_run_goes_from_the_log_to_two_policies_and_back(tmp_path):
    scene = filled()
    report = run(scene, tmp_path)
    assert [batch.kind for batch in report.batches] == ["supervised", "care"]
    assert report.left_out == {"groups without advantage": 1}
    bodies = [event.WhichOneof("body") for event in scene.log.events(TRAINING)]
    assert bodies == [
        "policy_published",
        "batch_ready",
        "policy_published",
        "batch_trained",
        "batch_ready",
        "policy_published",
        "batch_trained",
    ]
    events = [Event.FromString(content) for content in told(scene.log).values()]
    published = [event.policy_published for event in events if event.HasField("policy_published")]
    ready = [event.batch_ready for event in events if event.HasField("batch_ready")]
    trained = [event.batch_trained for event in events if event.HasField("batch_trained")]
    assert [p.update for p in published] == [0, 1, 2]
    assert [p.parent_version for p in published] == ["", *[p.policy_version for p in published[:2]]]
    assert [b.kind for b in ready] == [BATCH_KIND_SUPERVISED, BATCH_KIND_CARE]
    for before, body, after, policy in zip(ready, trained, published[1:], published, strict=False):
        assert before.digest == batch_digest(before.rows)
        assert before.policy_version == policy.policy_version == body.from_policy_version
        assert body.to_policy_version == after.policy_version
        assert list(after.batch_ids) == [body.batch_id] == [before.batch_id]
    assert [b.update for b in trained] == [1, 2]
    assert trained[1].groups == 2
    assert trained[1].groups_without_advantage == 1
    assert report.policy_version == published[-1].policy_version
    assert report.batches[1].behaviour == "recomputed"
    for policy in published:
        stored = scene.store.put(policy.weights.key, scene.store.get(policy.weights.key))
        assert stored == policy.weights
    assert scene.log.committed == {("planloop.curation", 0): 7, ("planloop.groups", 0): 3}


def test_its_events_pass_the_edge_and_are_timed_by_their_inputs(tmp_path):
    scene = filled()
    run(scene, tmp_path)
    for event in scene.log.events(TRAINING):
        assert check(event, TRAINING, TRAINING.key(event)) is None
        assert event.occurred_at == event.recorded_at <= scene.now
        assert event.causation_id


def test_the_same_again_adds_nothing(tmp_path):
    scene = filled()
    first = run(scene, tmp_path)
    before = told(scene.log), dict(scene.store.objects)
    again = run(scene, tmp_path)
    assert again.nothing_new
    assert again.policy_version == first.policy_version
    assert (told(scene.log), scene.store.objects) == before


def test_new_events_are_trained_from_the_last_policy_on(tmp_path):
    scene = filled()
    first = run(scene, tmp_path)
    scene.group("i", [0.5, -0.5])
    second = run(scene, tmp_path)
    assert [batch.episodes for batch in second.batches] == [1, 2]
    last = [event.batch_trained for event in scene.log.events(TRAINING)][-1]
    assert last.update == 4
    lineage = {
        event.policy_published.policy_version: event.policy_published.parent_version
        for event in scene.log.events(TRAINING)
        if event.HasField("policy_published")
    }
    assert lineage[lineage[second.policy_version]] == first.policy_version


def test_an_empty_log_trains_nothing(tmp_path):
    report = run(Scene(), tmp_path)
    assert report.nothing_new
    assert report.policy_version == ""


def test_records_with_nothing_to_learn_publish_nothing(tmp_path):
    scene = Scene()
    scene.curate(record("failed"), success=False)
    report = run(scene, tmp_path)
    assert report.nothing_new
    assert not told(scene.log)
    assert not policies(scene.store)


def test_a_record_of_a_held_out_task_does_not_even_reach_the_tokenizer(tmp_path):
    plain, leaking = filled(), filled()
    hidden = record("hidden")
    hidden.split = DATA_SPLIT_TEST
    leaking.curate(hidden)
    report = run(leaking, tmp_path / "leaking")
    assert report.left_out["a record's task is held out"] == 1
    assert report.policy_version == run(plain, tmp_path / "plain").policy_version


def test_death_at_any_moment_loses_and_repeats_nothing(tmp_path):
    """Ended before or after any one effect and run again, the log and the store are as if
    nothing had happened."""
    undisturbed = filled()
    life = Life()
    undisturbed.log.life = undisturbed.store.life = life
    run(undisturbed, tmp_path / "undisturbed")
    expected = told(undisturbed.log), policies(undisturbed.store)
    moments = [moment / 2 for moment in range(2 * life.effects)]
    assert len(moments) > 30
    for moment in moments:
        scene = filled()
        scene.log.life = scene.store.life = Life(ends_at=moment)
        state = tmp_path / str(moment)
        with pytest.raises(Killed):
            run(scene, state)
        scene.log.life = scene.store.life = Life()
        run(scene, state)
        assert (told(scene.log), policies(scene.store)) == expected, moment


def test_what_arrives_between_death_and_rerun_waits_for_its_own_batch(tmp_path):
    """The batch that was announced is trained with the rows that were announced."""
    scene = filled()
    life = Life()
    scene.log.life = life
    life.ends_at = 1.5  # the first policy and the first batch are announced
    with pytest.raises(Killed):
        run(scene, tmp_path)
    scene.log.life = Life()
    announced = scene.log.events(TRAINING)[-1].batch_ready
    scene.group("late", [1.0, -1.0])
    report = run(scene, tmp_path)
    assert [(batch.kind, batch.redone) for batch in report.batches] == [
        ("supervised", True),
        ("supervised", False),
        ("care", False),
    ]
    assert report.batches[0].batch_id == announced.batch_id
    rows = [
        row.episode_id
        for event in scene.log.events(TRAINING)
        if event.batch_ready.kind == BATCH_KIND_SUPERVISED
        for row in event.batch_ready.rows
    ]
    assert sorted(rows) == ["flat/0", "g/0", "h/0", "h/1", "late/0"]


def test_a_lost_state_directory_repeats_nothing(tmp_path):
    scene = filled()
    run(scene, tmp_path / "one")
    before = told(scene.log)
    assert run(scene, tmp_path / "two").nothing_new
    assert told(scene.log) == before


def test_an_update_that_was_not_told_is_told_again(tmp_path):
    scene = filled()
    run(scene, tmp_path)
    scene.log.records[TRAINING.name] = scene.log.records[TRAINING.name][:-2]
    report = run(scene, tmp_path)
    assert report.told_again
    assert report.nothing_new
    assert len(told(scene.log)) == 7


def test_another_log_under_the_same_state_is_refused(tmp_path):
    run(filled(), tmp_path)
    with pytest.raises(InputError, match="the log ends before that"):
        run(Scene(), tmp_path)


def test_the_manifest_commits_everything_together(tmp_path):
    scene = filled()
    report = run(scene, tmp_path)
    last = manifest.load(tmp_path / "manifest.json")
    assert last is not None
    assert last.policy_version == report.policy_version
    assert last.update == 2
    assert last.seed == TINY.seed
    assert last.schedule_version == "phi-1"
    assert last.optimiser in scene.store.objects
    assert last.positions["planloop.groups/0"] == 3
    told_last = [event.event_id for event in scene.log.events(TRAINING)][-2:]
    assert [event.event_id for event in last.events] == told_last


def test_a_diverged_update_publishes_nothing(tmp_path):
    scene = filled()
    wild = replace(TINY, supervised_learning_rate=1e30)
    with pytest.raises(DivergedError, match=r"of supervised-[0-9a-f]{16} step"):
        train(
            scene.log, scene.store, tmp_path, replace(wild, rows_per_step=1, rows_per_micro_batch=1)
        )
    events = scene.log.events(TRAINING)
    assert [event.WhichOneof("body") for event in events] == ["policy_published", "batch_ready"]
    assert not (tmp_path / "manifest.json").exists()
    report = run(scene, tmp_path)
    assert report.batches[0].redone


def test_a_window_longer_than_the_policy_is_refused(tmp_path):
    scene = filled()
    run(scene, tmp_path)
    scene.group("i", [0.5, -0.5])
    wide = replace(TINY, model=replace(TINY.model, context_length=512), window=300)
    with pytest.raises(InputError, match="set `window` to 256 or less"):
        train(scene.log, scene.store, tmp_path, wide)


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_weights_that_are_not_those_published_are_refused(tmp_path, damage):
    scene = filled()
    version = run(scene, tmp_path).policy_version
    key = f"policies/{version}/model.safetensors"
    if damage == "gone":
        del scene.store.objects[key]
    else:
        scene.store.objects[key] = scene.store.objects[key][:-1] + b"\x7f"
    with pytest.raises(CheckFailedError, match="not there or is not what was published"):
        run(scene, tmp_path)


def test_one_trainer_at_a_time(tmp_path):
    scene = filled()

    def on_progress(_: object) -> None:
        with pytest.raises(InputError, match="another trainer holds"):
            train(scene.log, scene.store, tmp_path, TINY)

    train(scene.log, scene.store, tmp_path, TINY, on_progress)


def test_it_leaves_torch_as_it_was(tmp_path):
    torch.set_num_threads(1)
    run(filled(), tmp_path)
    assert not torch.are_deterministic_algorithms_enabled()


def digests(everything: dict[str, bytes]) -> dict[str, str]:
    return {name: sha256(content).hexdigest() for name, content in everything.items()}


CHILD = """
import json, sys
from pathlib import Path
from tests.trainer.test_run import digests, filled, policies, run, told
scene = filled()
run(scene, Path(sys.argv[1]))
print(json.dumps(digests({**told(scene.log), **policies(scene.store)})))
"""


def test_another_process_gives_the_same_bytes(tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "there")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    scene = filled()
    run(scene, tmp_path / "here")
    here = {**told(scene.log), **policies(scene.store)}
    assert json.loads(child.stdout) == digests(here)
    assert len(here) > 15
