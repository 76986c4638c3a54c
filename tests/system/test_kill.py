"""kill -9 of broker, object store, engine and sink, again and again while a log comes in.

What is on the log and in the tables at the end is what a run without any kill leaves. (The
trainer is killed in `tests/trainer`.)
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from infra.log import Producer
from infra.stack import status
from producers.generator import generate
from producers.importers.imported import import_log
from schemas.errors import InfrastructureAwayError
from tests.system.command import Planloop, tables

KILLS = 20
"""Of each part."""
GROUPS = 80

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def wait_for(found: Callable[[], int | None], what: str, within_s: float = 120.0) -> int:
    deadline = time.monotonic() + within_s
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.2)


def worker_pid(planloop: Planloop, name: str) -> int | None:
    """The process of a worker of `process --follow`."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if str(planloop.state) in words and words[-4:-2] == ["--worker", name]:
            return process.pid
    return None


def part_pid(planloop: Planloop, name: str) -> int | None:
    return next((p.pid for p in status(planloop.settings) if p.name == name), None)


VICTIMS: dict[str, Callable[[Planloop], int | None]] = {
    "broker": lambda planloop: part_pid(planloop, "log"),
    "object store": lambda planloop: part_pid(planloop, "objects"),
    "engine": lambda planloop: worker_pid(planloop, "folds"),
    "sink": lambda planloop: worker_pid(planloop, "warehouse"),
}


def feed(planloop: Planloop, groups: slice) -> None:
    """Put some groups onto the log, as often as it takes: they count once."""
    whole = generate(11, GROUPS, 4)
    some = replace(whole, build=lambda: iter(list(whole.build())[groups]))
    while True:
        producer = Producer(planloop.endpoints.kafka)
        try:
            import_log(some, producer, lambda streams: {})
            return
        except InfrastructureAwayError:
            continue
        finally:
            with suppress(InfrastructureAwayError):
                producer.close()


def test_final_tables_are_those_of_an_undisturbed_run(tmp_path: Path):
    calm, shaken = Planloop(tmp_path / "calm"), Planloop(tmp_path / "shaken")
    try:
        calm("up")
        feed(calm, slice(None))
        calm("process")
        expected = tables(calm)
        assert expected["group_facts"][0] == GROUPS
    finally:
        calm("down")

    chance = random.Random(5)
    victims = [name for name in VICTIMS for _ in range(KILLS)]
    chance.shuffle(victims)
    shaken("up")
    following = shaken.start("process", "--follow")
    try:
        for number, name in enumerate(victims):
            feed(shaken, slice(2 * number, 2 * number + 2))
            time.sleep(chance.uniform(0.0, 1.0))
            find = partial(VICTIMS[name], shaken)
            os.kill(wait_for(find, f"{name} is back"), signal.SIGKILL)
        for name in ("broker", "object store"):
            wait_for(partial(VICTIMS[name], shaken), f"{name} is back")
        following.send_signal(signal.SIGTERM)
        following.communicate(timeout=120)
        shaken("up")
        feed(shaken, slice(None))
        shaken("process")
        assert tables(shaken) == expected
        assert shaken.json("verify")["ok"]
    finally:
        if following.poll() is None:
            for process in (*psutil.Process(following.pid).children(), following):
                process.kill()
        shaken("down")
