"""kill -9 under a producer: nothing acknowledged is lost, nothing comes out of order."""

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from infra.log import Producer, partitions_of, read_range
from infra.processes import alive, living
from infra.settings import Settings
from infra.stack import down, status, up
from schemas.errors import InfrastructureAwayError
from tests.conftest import kafka_settings

TOPIC = "planloop.rollouts"
ROUND = 500


class Killer(threading.Thread):
    """Kills parts of a stack at seeded moments until it is told to stop."""

    def __init__(self, state: Path, parts: list[str], seed: int, pauses_s: tuple[float, float]):
        super().__init__()
        self.kills = 0
        self._state = state
        self._parts = parts
        self._random = random.Random(seed)
        self._pauses_s = pauses_s
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._random.uniform(*self._pauses_s)):
            running = living(self._state)
            for name in self._parts:
                if name in running:
                    running[name].kill()
                    self.kills += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def produce(bootstrap: str, seconds: float) -> tuple[int, set[int]]:
    """Send numbers in rounds. Returns how many, and those whose round was acknowledged whole."""
    producer = Producer(bootstrap)
    acknowledged: set[int] = set()
    sent = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        numbers = range(sent, sent + ROUND)
        sent += ROUND
        for number in numbers:
            producer.send(TOPIC, f"key {number % 7}", b"%d" % number)
        try:
            producer.flush(60)
        except InfrastructureAwayError:
            continue
        acknowledged.update(numbers)
    with suppress(InfrastructureAwayError):  # the killer is still at work
        producer.close()
    return sent, acknowledged


def firsts(bootstrap: str) -> dict[bytes, list[int]]:
    """For each key the numbers on the log, each where it appears first."""
    seen: dict[bytes, dict[int, None]] = {}
    for partition in partitions_of(bootstrap, TOPIC):
        for batch in read_range(bootstrap, TOPIC, partition):
            for record in batch:
                seen.setdefault(record.key or b"", {}).setdefault(int(record.value or b"-1"))
    return {key: list(numbers) for key, numbers in seen.items()}


def check(settings: Settings, parts: list[str], seed: int, pauses_s: tuple[float, float]) -> None:
    bootstrap = settings.endpoints().kafka
    killer = Killer(settings.state, parts, seed, pauses_s)
    killer.start()
    try:
        sent, acknowledged = produce(bootstrap, 20)
    finally:
        killer.stop()
    assert up(settings).kafka == bootstrap
    found = firsts(bootstrap)
    numbers = {number for of_key in found.values() for number in of_key}
    assert killer.kills >= 3
    assert len(acknowledged) >= ROUND
    assert acknowledged <= numbers <= set(range(sent))
    assert all(of_key == sorted(of_key) for of_key in found.values())
    assert all(part.state == "running" for part in status(settings))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "parts", [["log"], ["objects"], ["objects", "log", "warehouse"]], ids="-".join
)
def test_the_embedded_log(fresh_stack: Settings, parts: list[str], seed: int) -> None:
    if "warehouse" in parts:
        check_once(fresh_stack, parts, seed)
    else:
        check(fresh_stack, parts, seed, (0.7, 4.0))


def check_once(settings: Settings, parts: list[str], seed: int) -> None:
    """All at once, in the middle of a round, and then `up`."""
    bootstrap = settings.endpoints().kafka
    rng = random.Random(seed)
    sent, acknowledged = produce(bootstrap, 2)
    producer = Producer(bootstrap)
    for number in range(sent, sent + 20_000):
        producer.send(TOPIC, f"key {number % 7}", b"%d" % number)
    time.sleep(rng.uniform(0, 0.3))
    running = living(settings.state)
    for name in ("supervisor", *parts):
        running[name].kill()
    while any(alive(process) for process in running.values()):
        time.sleep(0.01)
    assert {part.state for part in status(settings)} == {"down"}
    assert up(settings).kafka == bootstrap
    producer.flush(60)
    producer.close()
    acknowledged.update(range(sent, sent + 20_000))
    found = firsts(bootstrap)
    numbers = {number for of_key in found.values() for number in of_key}
    assert acknowledged == numbers
    assert all(of_key == sorted(of_key) for of_key in found.values())


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka(tmp_path: Path) -> None:
    settings = kafka_settings(tmp_path)
    try:
        up(settings)
        check(settings, ["log"], 1, (6.0, 12.0))
    finally:
        down(settings)
