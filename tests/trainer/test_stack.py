"""The trainer on the embedded stack: real broker, real object store, real death."""

import multiprocessing
import random
import signal
from pathlib import Path

import pytest

from infra.objects import ObjectStore
from infra.settings import Endpoints, Settings
from schemas.topics import CURATION, GROUPS, TRAINING
from tests.trainer.doubles import MemoryLog
from tests.trainer.scene import TINY, Scene
from tests.trainer.test_run import filled, policies, told
from trainer.log import KafkaLog
from trainer.run import TrainReport, train


def upload(scene: Scene, endpoints: Endpoints, known: set[str]) -> None:
    """Put what of the scene is not `known` on the real log, objects first."""
    store = ObjectStore(endpoints)
    for key, content in scene.store.objects.items():
        if key.startswith("records/") and key not in known:
            store.put(key, content)
            known.add(key)
    events = [event for topic in (CURATION, GROUPS) for event in scene.log.events(topic)]
    with KafkaLog(endpoints.kafka) as log:
        log.write([event for event in events if event.event_id not in known])
    known.update(event.event_id for event in events)


def run(endpoints: Endpoints, state: Path) -> TrainReport:
    with KafkaLog(endpoints.kafka) as log:
        return train(log, ObjectStore(endpoints), state, TINY)


def read_back(endpoints: Endpoints) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the trainer told the log, and its policies in the store."""
    copy = MemoryLog()
    with KafkaLog(endpoints.kafka) as log:
        for topic in (CURATION, GROUPS, TRAINING):
            copy.records[topic.name] = list(log.read(topic))
    store = ObjectStore(endpoints)
    return told(copy), {key: store.get(key) for key, _ in store.list("policies/")}


def test_trains_on_the_embedded_stack_as_in_memory(fresh_stack: Settings, tmp_path: Path):
    endpoints = fresh_stack.endpoints()
    scene = filled()
    upload(scene, endpoints, set())
    report = run(endpoints, tmp_path / "state")
    assert [batch.kind for batch in report.batches] == ["supervised", "care"]
    train(scene.log, scene.store, tmp_path / "memory", TINY)
    assert read_back(endpoints) == (told(scene.log), policies(scene.store))
    assert run(endpoints, tmp_path / "state").nothing_new


@pytest.mark.slow
def test_kill_9_at_random_moments(fresh_stack: Settings, tmp_path: Path):
    """Five rounds of new groups, the trainer killed four times in each before it may finish:
    the log and the store are those of a trainer that was left in peace."""
    endpoints = fresh_stack.endpoints()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.trainer.test_stack"])
    chance = random.Random(20)
    state = tmp_path / "state"
    scene = filled()
    known: set[str] = set()
    killed = 0
    for number in range(5):
        scene.group(f"new-{number}", [1.0, -1.0])
        train(scene.log, scene.store, tmp_path / "memory", TINY)
        upload(scene, endpoints, known)
        for _ in range(4):
            child = context.Process(target=run, args=(endpoints, state))
            child.start()
            child.join(chance.uniform(0.05, 0.5))
            child.kill()
            child.join()
            assert child.exitcode in (0, -signal.SIGKILL)
            killed += child.exitcode != 0
        run(endpoints, state)
    assert killed >= 5
    assert read_back(endpoints) == (told(scene.log), policies(scene.store))
