"""The embedded stack: up, down, status, and what they promise."""

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.layout import Layout
from infra.log import Producer, partitions_of, read_range
from infra.processes import living, stop
from infra.settings import Settings
from infra.stack import down, status, up
from schemas.errors import InfrastructureAwayError, InputError
from schemas.topics import CATALOGUE
from tests.conftest import kafka_settings, settings_of

PARTS = ["objects", "log", "warehouse"]


def states(settings: Settings) -> list[str]:
    return [part.state for part in status(settings)]


def await_running(settings: Settings, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while set(states(settings)) != {"running"}:
        assert time.monotonic() < deadline, status(settings)
        time.sleep(0.1)


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A stack that the tests of this module stop and start, one behind the other."""
    settings = settings_of(tmp_path_factory.mktemp("own"))
    yield settings
    down(settings)


def test_everything_listens_on_loopback_only(stack_settings: Settings) -> None:
    running = living(stack_settings.state)
    assert set(running) == {"supervisor", *PARTS}
    listening = {
        name: [c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        for name, process in running.items()
    }
    assert {address.ip for addresses in listening.values() for address in addresses} == {
        "127.0.0.1"
    }
    assert listening["supervisor"] == []
    assert len(listening["objects"]) == 10


def test_secrets_are_on_no_command_line_and_in_no_log(stack_settings: Settings) -> None:
    layout = Layout.load(stack_settings.state)
    assert layout is not None
    assert layout.objects is not None
    assert layout.warehouse is not None
    secrets = (layout.objects.secret_key, layout.objects.access_key, layout.warehouse.password)
    lines = [" ".join(p.cmdline()) for p in living(stack_settings.state).values()]
    logs = [log.read_text(errors="replace") for log in (stack_settings.state / "logs").iterdir()]
    assert len(lines) == len(logs) == 4
    for secret in secrets:
        assert not any(secret in text for text in (*lines, *logs))


def test_files_with_secrets_are_private(stack_settings: Settings) -> None:
    for file in ("stack.json", "objects/s3.json", "supervisor.json", "logs/log.log"):
        assert stat.S_IMODE((stack_settings.state / file).stat().st_mode) == 0o600, file
    assert stat.S_IMODE((stack_settings.state / "objects").stat().st_mode) == 0o700


def test_up_again_changes_nothing(stack_settings: Settings) -> None:
    before = living(stack_settings.state)
    events: list[tuple[str, str]] = []
    endpoints = up(stack_settings, lambda part, event: events.append((part, event)))
    assert endpoints == stack_settings.endpoints()
    assert living(stack_settings.state) == before
    assert [part for part, event in events if event.startswith("ready")] == PARTS


def test_status_of_what_runs(stack_settings: Settings) -> None:
    parts = status(stack_settings)
    assert [part.name for part in parts] == PARTS
    running = living(stack_settings.state)
    for part in parts:
        assert part.state == "running"
        assert part.pid == running[part.name].pid
        assert part.uptime_s is not None
        assert 0 < part.uptime_s < 3600
        with socket.create_connection(("127.0.0.1", part.port or 0), timeout=5):
            pass


def test_the_topics_are_there(stack_settings: Settings) -> None:
    kafka = stack_settings.endpoints().kafka
    for topic in CATALOGUE:
        assert len(partitions_of(kafka, topic.name)) == topic.partitions


def test_other_settings_do_not_touch_a_running_stack(stack_settings: Settings) -> None:
    before = living(stack_settings.state)
    changed = stack_settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:9"})
    with pytest.raises(InputError, match="runs with other settings"):
        up(changed)
    assert living(stack_settings.state) == before


def test_nothing_runs_where_up_never_was(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "never")
    down(settings)
    assert status(settings) == []
    assert not settings.state.exists()


def test_down_and_up_again_keeps_address_and_log(own_stack: Settings) -> None:
    endpoints = up(own_stack)
    producer = Producer(endpoints.kafka)
    for number in range(100):
        producer.send("planloop.rollouts", "key", b"%d" % number, 2)
    producer.close()
    events: list[tuple[str, str]] = []
    down(own_stack, lambda part, event: events.append((part, event)))
    assert [part for part, _ in events] == PARTS[::-1]
    assert living(own_stack.state) == {}
    assert states(own_stack) == ["down"] * 3
    down(own_stack)
    assert up(own_stack) == endpoints
    values = [
        r.value for batch in read_range(endpoints.kafka, "planloop.rollouts", 2) for r in batch
    ]
    assert values == [b"%d" % number for number in range(100)]


def test_a_new_supervisor_adopts_what_lives(own_stack: Settings) -> None:
    up(own_stack)
    before = living(own_stack.state)
    before["supervisor"].kill()
    before["supervisor"].wait(10)
    parts = status(own_stack)
    assert [part.state for part in parts] == ["running"] * 3
    assert all("nobody restarts it" in part.detail for part in parts)
    up(own_stack)
    after = living(own_stack.state)
    assert after["supervisor"] != before["supervisor"]
    assert {name: after[name] for name in PARTS} == {name: before[name] for name in PARTS}


def test_an_adopted_part_is_restarted_too(own_stack: Settings) -> None:
    endpoints = up(own_stack)
    before = living(own_stack.state)["warehouse"]
    before.kill()
    deadline = time.monotonic() + 60
    while living(own_stack.state).get("warehouse", before) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert up(own_stack) == endpoints
    await_running(own_stack)
    assert "restarted 1 times" in [part.detail for part in status(own_stack)]


def test_down_without_a_supervisor(own_stack: Settings) -> None:
    up(own_stack)
    living(own_stack.state)["supervisor"].kill()
    down(own_stack)
    assert living(own_stack.state) == {}


def test_a_part_that_cannot_start_is_named_with_its_log(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    up(settings)
    down(settings)
    layout = Layout.load(tmp_path)
    assert layout is not None
    assert layout.warehouse is not None
    with socket.socket() as intruder:
        intruder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        intruder.bind(("127.0.0.1", layout.warehouse.port))
        intruder.listen()
        with pytest.raises(InfrastructureAwayError, match="warehouse: did not start") as raised:
            up(settings)
    assert "address already in use" in str(raised.value).lower()
    assert "warehouse.log" in str(raised.value)
    assert living(tmp_path) == {}


def test_a_broken_stack_file_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"objects": ')
    for action in (up, down, status, Settings.endpoints):
        with pytest.raises(InputError, match=r"stack\.json cannot be read"):
            action(settings_of(tmp_path))


@pytest.mark.slow
def test_two_ups_at_once_are_one(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from infra.stack import up;"
        "from infra.settings import Settings;"
        "print(up(Settings(state=Path(sys.argv[1]))).kafka)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLANLOOP_")}
    ups = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        answers = {process.communicate(timeout=120)[0] for process in ups}
        assert len(answers) == 1
        assert [process.returncode for process in ups] == [0, 0, 0]
        running = living(tmp_path)
        assert set(running) == {"supervisor", *PARTS}
        marks = [p for p in psutil.process_iter() if _marked(p, tmp_path)]
        assert len(marks) == 4
    finally:
        down(settings_of(tmp_path))


def _marked(process: psutil.Process, state: Path) -> bool:
    try:
        return process.environ().get("PLANLOOP_PART", "").startswith(f"{state}#")
    except psutil.Error:
        return False


@pytest.mark.slow
def test_two_state_directories_never_meet(tmp_path: Path) -> None:
    one, two = settings_of(tmp_path / "one"), settings_of(tmp_path / "two")
    try:
        first, second = up(one), up(two)
        producer = Producer(first.kafka)
        producer.send("planloop.tasks", "key", b"of the first")
        producer.close()
        assert list(read_range(second.kafka, "planloop.tasks", 0)) == []
        down(one)
        assert states(two) == ["running"] * 3
        assert list(read_range(second.kafka, "planloop.tasks", 0)) == []
    finally:
        down(one)
        down(two)


@pytest.mark.slow
def test_a_supervisor_that_hangs_does_not_stop_down(fresh_stack: Settings) -> None:
    living(fresh_stack.state)["supervisor"].suspend()
    down(fresh_stack)
    assert living(fresh_stack.state) == {}


@pytest.mark.slow
def test_a_second_supervisor_does_not_stay(fresh_stack: Settings) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "infra.supervisor", f"--state={fresh_stack.state}"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert second.returncode != 0
    assert "has a supervisor already" in second.stderr


@pytest.mark.kafka
def test_kafka_in_the_brokers_place(tmp_path: Path) -> None:
    settings = kafka_settings(tmp_path)
    try:
        endpoints = up(settings)
        assert [part.name for part in status(settings)] == ["log"]
        producer = Producer(endpoints.kafka)
        producer.send("planloop.tasks", "key", b"kept")
        producer.close()
        process = living(tmp_path)["log"]
        listening = [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert {c.laddr.ip for c in listening} == {"127.0.0.1"}
        stop(process, 0)
        assert up(settings) == endpoints
        [batch] = read_range(endpoints.kafka, "planloop.tasks", 0)
        assert [r.value for r in batch] == [b"kept"]
        down(settings)
        assert up(settings.model_copy(update={"kafka_home": None})) == endpoints
    finally:
        down(settings)
    with pytest.raises(InputError, match="no unpacked Kafka"):
        up(settings.model_copy(update={"kafka_home": tmp_path}))
