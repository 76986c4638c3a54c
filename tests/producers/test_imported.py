import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from infra.log import Producer
from producers.generator import generate
from producers.importers import tau_bench
from producers.importers.imported import (
    ImportedLog,
    ImportRefusedError,
    ImportReport,
    KeyedEvents,
    import_log,
)
from schemas.errors import InfrastructureAwayError
from schemas.topics import TASKS
from tests.producers.logs import tau_bench as runs_of
from tests.producers.logs import write
from tests.producers.reading import events_on, ids_on


def nothing(_: Sequence[str]) -> Mapping[str, int]:
    return {}


@pytest.fixture
def producer(broker: str) -> Iterator[Producer]:
    client = Producer(broker)
    yield client
    client.close()


def fresh_log(tmp_path: Path) -> ImportedLog:
    """A log that no other test has imported."""
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    return tau_bench.read(write(tmp_path / "log.json", runs_of(3, 2)), tenant=tenant)


def groups_of(log: ImportedLog) -> str:
    """What all keys of its groups start with."""
    return next(stream for stream in log.streams if stream.startswith("tau-bench:"))[:21]


def test_a_log_arrives_once_and_again_adds_nothing(
    broker: str, producer: Producer, tmp_path: Path
) -> None:
    log = fresh_log(tmp_path)
    progress: list[tuple[int, int]] = []
    report = import_log(log, producer, nothing, lambda *at: progress.append(at))
    events = sum(len(keyed.events) for keyed in log.build())
    assert report == ImportReport(new=events, known=0, events=events, groups=3, episodes=6)
    assert progress == [(1, 3), (2, 3), (3, 3)]
    sent = [e.event_id for keyed in log.build() for e in keyed.events if e.group_id]
    assert sorted(ids_on(broker, groups_of(log))) == sorted(sent)

    def known(streams: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for event in events_on(broker, groups_of(log)) + events_on(broker, "task:", TASKS):
            if event.stream_id in streams:
                found[event.stream_id] = max(found.get(event.stream_id, 0), event.seq + 1)
        return found

    again = import_log(log, producer, known)
    assert again == ImportReport(new=0, known=events, events=events, groups=3, episodes=6)


def test_an_interrupted_import_is_completed(
    broker: str, producer: Producer, tmp_path: Path
) -> None:
    log = fresh_log(tmp_path)
    episode = next(stream for stream in log.streams if stream.endswith("trial-1"))

    def some(streams: Sequence[str]) -> dict[str, int]:
        return {stream: 3 if stream == episode else 99 for stream in streams}

    report = import_log(log, producer, some)
    assert report.new == 4
    assert ids_on(broker, groups_of(log)) == [f"{episode}#{seq}" for seq in (3, 4, 5, 6)]


def test_one_event_that_the_edge_refuses_keeps_the_whole_log_out(
    broker: str, producer: Producer, tmp_path: Path
) -> None:
    document = runs_of(3, 2)
    document[-1]["traj"][4]["content"] = "x" * 1_100_000
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    log = tau_bench.read(write(tmp_path / "log.json", document), tenant=tenant)
    with pytest.raises(ImportRefusedError, match="nothing was sent") as refused:
        import_log(log, producer, nothing)
    (finding,) = refused.value.findings
    assert finding.where.endswith("trial-1#3")
    assert "TOO_LARGE" in finding.what
    assert ids_on(broker, groups_of(log)) == []


def test_a_log_that_is_away_is_said_so(tmp_path: Path) -> None:
    class Impatient(Producer):
        def flush(self, timeout_s: float = 0.2) -> None:
            super().flush(timeout_s)

    with pytest.raises(InfrastructureAwayError, match="not acknowledged"):
        import_log(fresh_log(tmp_path), Impatient("127.0.0.1:9"), nothing)


def test_large_groups_travel_in_several_records(broker: str, producer: Producer) -> None:
    name = f"large-{uuid.uuid4().hex[:8]}"
    (keyed,) = [k for k in generate(3, 1, 3).build() if k.topic is not TASKS]
    for event in keyed.events:
        event.group_id = name
        if event.HasField("group_opened"):
            event.stream_id, event.event_id = name, f"{name}#0"
        if event.HasField("observation_received"):
            event.observation_received.content = "x" * 100_000
    log = ImportedLog(
        "test", "", 1, 3, [], lambda: iter([KeyedEvents(keyed.topic, name, keyed.events)])
    )
    import_log(log, producer, nothing)
    assert ids_on(broker, name) == [event.event_id for event in keyed.events]
