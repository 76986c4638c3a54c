import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from infra.settings import Settings
from infra.stack import status
from planloop import DeliveryReport, Device, Episode, EventRefusedError, SpoolFullError
from producers.schedules import default_schedule
from schemas.errors import InputError
from schemas.refusal_pb2 import (
    REASON_CLOCK_OUT_OF_RANGE,
    REASON_FORBIDDEN_CHARACTER,
    REASON_INCONSISTENT,
    REASON_INTEGER_OUT_OF_RANGE,
    REASON_NOT_A_NUMBER,
    REASON_TOO_LARGE,
    Reason,
)
from schemas.rollout_pb2 import COST_UNIT_STEPS, FAILURE_ORIGIN_HARNESS, TERMINATION_ERROR
from tests.producers.reading import events_on, ids_on

NOWHERE = "127.0.0.1:9"
"""An address where nobody listens."""


def device(folder: Path, bootstrap: str = NOWHERE, **choices: Any) -> Device:
    choices = {"timeout_s": 2.0} | choices
    return Device(
        bootstrap=bootstrap, tenant="acme", producer="tests", spool_dir=folder / "spool", **choices
    )


def fresh() -> str:
    return f"dev-{uuid.uuid4().hex[:10]}"


def short_episode(episode: Episode, turns: int = 3) -> None:
    for turn in range(turns):
        call_id = f"c{turn}"
        episode.act(tool="alarms.set", arguments={"time": "07:30"}, call_id=call_id)
        episode.observe("set", tool="alarms.set", call_id=call_id)
    episode.verify(success=True, progress=1.0, verifier="tests", atoms=[("set", True)])
    episode.end()


def test_an_episode_arrives_whole_and_in_order(broker: str, tmp_path: Path) -> None:
    group_id = fresh()
    with device(tmp_path, broker, policy_version="p-1") as sender:
        schedule = default_schedule(COST_UNIT_STEPS)
        sender.open_group(group_id, task_id="t", size=2, schedule=schedule)
        sender.open_group(group_id, task_id="t", size=2, schedule=schedule)
        for member in range(2):
            with sender.episode(
                group_id, f"{group_id}/{member}", task_id="t", member=member, request="Wake me."
            ) as episode:
                short_episode(episode)
        report = sender.flush(20)
    assert report == DeliveryReport(acknowledged=19, spooled=0, refused=0)
    events = events_on(broker, group_id)
    assert len(events) == 19
    for member in range(2):
        mine = [e for e in events if e.stream_id == f"{group_id}/{member}"]
        assert [event.seq for event in mine] == list(range(9))
        assert [event.causation_id for event in mine[1:]] == [e.event_id for e in mine[:-1]]
    assert {event.policy_version for event in events} == {"p-1"}
    acted = next(event.action_taken for event in events if event.HasField("action_taken"))
    assert json.loads(acted.arguments_json) == {"time": "07:30"}


def test_events_wait_while_the_broker_is_away_and_leave_in_order(
    broker: str, tmp_path: Path
) -> None:
    group_id = fresh()
    offline = device(tmp_path, timeout_s=0.3)
    with offline.episode(group_id, f"{group_id}/0", task_id="t") as episode:
        episode.act(text="one")
        episode.act(text="two")
    report = offline.close(timeout=0.5)
    assert (report.acknowledged, report.spooled) == (0, 3)
    assert report.problem
    with device(tmp_path, broker) as online:
        with online.episode(group_id, f"{group_id}/0", task_id="t") as episode:
            assert episode.next_seq == 3, "the restart went on where the device was"
            episode.act(text="three")
            episode.end()
        assert online.flush(20).spooled == 0
    events = events_on(broker, group_id)
    assert [event.seq for event in events] == [0, 1, 2, 3, 4]
    assert [e.action_taken.text for e in events[1:4]] == ["one", "two", "three"]
    assert events[3].causation_id == events[2].event_id


def test_a_killed_process_goes_on_with_the_next_number(broker: str, tmp_path: Path) -> None:
    group_id = fresh()
    script = """
import sys
from planloop import Device
device = Device(bootstrap=sys.argv[1], tenant="acme", producer="tests", spool_dir=sys.argv[2])
episode = device.episode(sys.argv[3], sys.argv[3] + "/0", task_id="t")
while True:
    print(episode.act(text="x" * 200), flush=True)
"""
    last = ""
    for round_ in range(1, 4):
        command = [sys.executable, "-c", script, broker, str(tmp_path / "spool"), group_id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                last = line.strip()
                if int(last.rpartition("#")[2]) > 700 * round_:
                    process.send_signal(signal.SIGKILL)
                    break
            last = (process.stdout.read().split() or [last])[-1]
    with device(tmp_path, broker) as survivor:
        survivor.episode(group_id, f"{group_id}/0", task_id="t").end()
        assert survivor.flush(30).spooled == 0
    found = ids_on(broker, group_id)
    assert found == [f"{group_id}/0#{seq}" for seq in range(len(found))]
    assert last in found


def kill_broker(settings: Settings) -> bool:
    """kill -9 the broker if it is running; the supervisor starts it again."""
    log = next(part for part in status(settings) if part.name == "log")
    if log.pid is None or log.state != "running":
        return False
    os.kill(log.pid, signal.SIGKILL)
    return True


def test_a_killed_broker_costs_no_event(fresh_stack: Settings, tmp_path: Path) -> None:
    group_id = fresh()
    bootstrap = fresh_stack.endpoints().kafka
    with device(tmp_path, bootstrap, linger_s=0.01) as sender:
        with sender.episode(group_id, f"{group_id}/0", task_id="t") as episode:
            for turn in range(300):
                episode.act(text=f"turn {turn}")
                if turn in (60, 200):
                    kill_broker(fresh_stack)
                time.sleep(0.002)
            episode.end()
        report = sender.flush(60)
    assert (report.spooled, report.refused) == (0, 0)
    assert ids_on(bootstrap, group_id) == [f"{group_id}/0#{seq}" for seq in range(302)]


@pytest.mark.slow
def test_twenty_kills_at_random_moments_cost_no_event(
    fresh_stack: Settings, tmp_path: Path
) -> None:
    # What an idempotent Kafka producer loses on the embedded broker shows after a few kills.
    random = Random(20)
    group_id = fresh()
    bootstrap = fresh_stack.endpoints().kafka
    kills = turns = 0
    with device(tmp_path, bootstrap, linger_s=0.0, batch_events=5) as sender:
        with sender.episode(group_id, f"{group_id}/0", task_id="t") as episode:
            at = time.monotonic() + 1
            while kills < 20:
                episode.act(text=f"turn {turns}")
                turns += 1
                if time.monotonic() > at:
                    kills += kill_broker(fresh_stack)
                    at = time.monotonic() + random.uniform(0.5, 2.5)
                time.sleep(0.003)
            episode.end()
        report = sender.flush(120)
    assert (report.spooled, report.refused, report.acknowledged) == (0, 0, turns + 2)
    assert ids_on(bootstrap, group_id) == [f"{group_id}/0#{seq}" for seq in range(turns + 2)]


Bad = Callable[[Episode], object]

BAD: dict[str, tuple[Bad, Reason]] = {
    "lone surrogate": (lambda e: e.act(text="\ud83d"), REASON_FORBIDDEN_CHARACTER),
    "lone surrogate in arguments": (
        lambda e: e.act(tool="t", arguments={"x": "\udc00"}),
        REASON_FORBIDDEN_CHARACTER,
    ),
    "NaN": (
        lambda e: e.verify(success=True, progress=float("nan"), verifier="v"),
        REASON_NOT_A_NUMBER,
    ),
    "infinite argument": (
        lambda e: e.act(tool="t", arguments={"x": float("inf")}),
        REASON_NOT_A_NUMBER,
    ),
    "NaN log-probability": (
        lambda e: e.act(text="x", token_ids=[1], logprobs=[float("nan")]),
        REASON_NOT_A_NUMBER,
    ),
    "too large": (lambda e: e.observe("x" * 1_100_000), REASON_TOO_LARGE),
    "negative": (lambda e: e.act(text="x", output_tokens=-1), REASON_INTEGER_OUT_OF_RANGE),
    "2^64": (lambda e: e.act(text="x", output_tokens=2**64), REASON_INTEGER_OUT_OF_RANGE),
    "2^63": (lambda e: e.act(text="x", output_tokens=2**63), REASON_INTEGER_OUT_OF_RANGE),
    "wrong type": (lambda e: e.act(text=5), REASON_INCONSISTENT),  # pyright: ignore
    "not JSON": (lambda e: e.act(tool="t", arguments={"x": object()}), REASON_INCONSISTENT),
    "1970": (lambda e: e.act(text="x", at=1000), REASON_CLOCK_OUT_OF_RANGE),
    "2100": (lambda e: e.act(text="x", at=4_200_000_000_000_000), REASON_CLOCK_OUT_OF_RANGE),
    "nobody failed": (lambda e: e.end(TERMINATION_ERROR), 10),  # pyright: ignore
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_at_once_and_takes_no_number(name: str, tmp_path: Path) -> None:
    bad, reason = BAD[name]
    with device(tmp_path, timeout_s=0.1) as sender:
        with sender.episode("g", "e", task_id="t") as episode:
            with pytest.raises(EventRefusedError) as refused:
                bad(episode)
            assert refused.value.reason == reason
            assert episode.next_seq == 1
            assert episode.act(text="fine") == "e#1"
        sender.close(timeout=0.0)


def test_errors_do_not_repeat_what_an_event_contains(tmp_path: Path) -> None:
    secret = "+49 170 5550123"
    with device(tmp_path, timeout_s=0.1) as sender:
        with sender.episode("g", "e", task_id="t") as episode:
            for bad in (
                lambda: episode.act(text=secret + "\ud83d"),
                lambda: episode.observe(secret * 100_000),
                lambda: episode.act(tool=secret, arguments={secret: float("nan")}),
            ):
                with pytest.raises(EventRefusedError) as refused:
                    bad()
                assert secret not in str(refused.value) + repr(refused.value)
        sender.close(timeout=0.0)


def test_a_full_spool_is_told_to_the_caller_and_keeps_what_it_has(tmp_path: Path) -> None:
    sender = device(tmp_path, timeout_s=0.1, max_spool_bytes=30_000)
    episode = sender.episode("g", "e", task_id="t")
    with pytest.raises(SpoolFullError):
        short_episode(episode, turns=1000)
    assert sender.report().spooled == episode.next_seq
    sender.close(timeout=0.0)


def test_an_exception_ends_the_episode_as_the_harness_error_that_it_is(
    broker: str, tmp_path: Path
) -> None:
    group_id = fresh()
    with device(tmp_path, broker) as sender:
        with (
            pytest.raises(ZeroDivisionError),
            sender.episode(group_id, f"{group_id}/0", task_id="t") as episode,
        ):
            episode.act(text=str(1 // 0))
        assert sender.flush(20).spooled == 0
        with pytest.raises(InputError, match="has ended"):
            sender.episode(group_id, f"{group_id}/0", task_id="t")
    ended = events_on(broker, group_id)[-1].episode_ended
    assert (ended.termination, ended.failed) == (TERMINATION_ERROR, FAILURE_ORIGIN_HARNESS)
    assert ended.detail == "ZeroDivisionError"


def test_threads_share_a_device(broker: str, tmp_path: Path) -> None:
    group_id = fresh()
    reports: list[DeliveryReport] = []
    with device(tmp_path, broker, batch_events=50, on_delivery=reports.append) as sender:

        def tell(member: int) -> None:
            with sender.episode(group_id, f"{group_id}/{member}", task_id="t") as episode:
                short_episode(episode, turns=40)

        threads = [threading.Thread(target=tell, args=(member,)) for member in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sender.flush(30).acknowledged == 6 * 83
    events = events_on(broker, group_id)
    for member in range(6):
        mine = [event.seq for event in events if event.stream_id == f"{group_id}/{member}"]
        assert mine == list(range(83))
    assert reports[-1].spooled == 0
    assert [r.acknowledged for r in reports] == sorted(r.acknowledged for r in reports)


def test_a_device_needs_one_way_to_the_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="to a broker or to a gateway"):
        Device(tenant="t", producer="p", spool_dir=tmp_path)
    with pytest.raises(InputError, match="plain HTTP"):
        Device(gateway="http://example.org", tenant="t", producer="p", spool_dir=tmp_path)


def test_the_device_imports_nothing_that_a_phone_lacks() -> None:
    script = """
import sys
from planloop import Device
import kafka
tops = {name.partition(".")[0] for name in sys.modules}
print(*sorted(tops - set(sys.stdlib_module_names)))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    ours = {"planloop", "producers", "schemas"}
    codecs = {"lz4", "crc32c", "snappy", "xxhash", "zstandard"}  # kafka-python takes them if there
    start_up = {name for name in done.stdout.split() if name.startswith(("_", "__editable__"))}
    assert set(done.stdout.split()) - start_up - codecs == ours | {"google", "kafka"}
