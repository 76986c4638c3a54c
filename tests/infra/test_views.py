"""The warehouse's tables and views on the real engine: what they say, and that copies,
their order, their time and their merges change nothing."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from consumers.blocks import Blocks
from consumers.tables import TABLES
from consumers.writer import (
    Checksum,
    TableWriter,
    checksum,
)
from infra.log import Record
from infra.settings import Endpoints
from infra.warehouse import Warehouse
from schemas.event_pb2 import Event
from schemas.topics import ROLLOUTS
from tests.consumers.history import derived, on_the_log, rollouts, whole
from tests.consumers.rollouts import NOON, SECOND, Rollout, as_records, done, opened
from tests.warehouses import fresh_database

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "warehouse.md"

PROMISED = {
    "events": "event_id stream_id seq kind",
    "episodes": "episode_id group_id task_id valid invalid_reason success progress cost steps "
    "tool_calls output_tokens policy harness schedule started_at ended_at",
    "groups": "group_id task_id regime size valid successes success_rate reward_std anchor p_low "
    "p_high lambda_prog lambda_eff cost_unit cost_budget",
    "members": "group_id episode_id valid success progress cost reward advantage",
    "tool_calls": "episode_id seq tool error_code latency_us",
    "dead_letters": "reason topic partition offset recorded_at detail raw_bytes event_id",
    "training_records": "record_id episode_id outcome",
    "policies": "policy parent update",
    "lag": "consumer topic partition position end lag seconds_behind",
    "regimes": "policy capability regime groups episodes successes success_rate mean_cost",
    "costs": "policy tokens_per_success tool_calls_per_success",
    "competence": "policy scope name success_rate",
}


@pytest.fixture
def warehouse(stack: Endpoints) -> Iterator[Warehouse]:
    with fresh_database(stack.warehouse_url) as fresh:
        yield fresh


def _write(warehouse: Warehouse, records: Sequence[Record]) -> None:
    writer = TableWriter(warehouse)
    writer.write(records)
    writer.flush()
    assert writer.refused == 0


def _views(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every view's rows as text, in an order of their own."""
    names = warehouse.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
    )
    return {
        name: sorted(warehouse.raw(f"SELECT * FROM {name}", "JSONEachRow").decode().splitlines())
        for (name,) in names
    }


def _checksums(warehouse: Warehouse) -> dict[str, Checksum]:
    return {table: checksum(warehouse, table) for table in TABLES}


def _stored(warehouse: Warehouse, table: str = "event_facts") -> int:
    return warehouse.rows(f"SELECT count() FROM {table}")[0][0]


def test_the_document_says_what_the_warehouse_has(warehouse: Warehouse) -> None:
    documented: dict[str, list[tuple[str, str]]] = {}
    for section in re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]:
        name = re.match(r"`(\w+)`", section)
        if name:
            documented[name[1]] = re.findall(
                r"^\| `(\w+)` \| `(.+?)` \| .+ \|$", section, re.MULTILINE
            )
    there: dict[str, list[tuple[str, str]]] = {}
    for view, column, kind in warehouse.rows(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()"
        " AND table IN (SELECT name FROM system.tables"
        " WHERE database = currentDatabase() AND engine = 'View') ORDER BY table, position"
    ):
        there.setdefault(view, []).append((column, kind))
    assert documented == there


def test_promised_columns_can_be_asked_for_by_name(warehouse: Warehouse) -> None:
    for view, columns in PROMISED.items():
        assert warehouse.rows(f"SELECT {', '.join(columns.split())} FROM {view}") == []


def test_rows_bring_every_column_of_every_table(warehouse: Warehouse) -> None:
    blocks = Blocks()
    brought: dict[str, set[str]] = {}
    for block in [*blocks.add(on_the_log(whole())), *blocks.drain()]:
        for table, columns in block.tables().items():
            brought[table] = set(columns)
    for table in TABLES:
        columns = warehouse.rows(
            "SELECT name FROM system.columns"
            " WHERE database = currentDatabase() AND table = {table:String}",
            {"table": table},
        )
        assert brought[table] == {name for (name,) in columns}


def test_nothing_mutable_is_in_a_key_and_nothing_is_partitioned(warehouse: Warehouse) -> None:
    for table in TABLES:
        ((partition, key, engine),) = warehouse.rows(
            "SELECT partition_key, sorting_key, engine_full FROM system.tables"
            " WHERE database = currentDatabase() AND name = {table:String}",
            {"table": table},
        )
        columns = key.split(", ")
        assert (partition, columns[0]) == ("", "tenant")
        assert set(columns) <= {
            "tenant", "stream_id", "seq", "group_id", "episode_id", "fold", "position",
        }  # fmt: skip
        assert "ReplacingMergeTree(version)" in engine
        assert "non_replicated_deduplication_window = 1000" in engine


def test_what_the_views_say_of_a_small_history(warehouse: Warehouse) -> None:
    _write(warehouse, on_the_log(whole()))
    assert warehouse.rows(
        "SELECT group_id, regime, size, valid, successes FROM groups ORDER BY group_id"
    ) == [("g1", "outcome", 2, 2, 1), ("g2", "progress", 2, 2, 0)]
    assert warehouse.rows(
        "SELECT episode_id, valid, invalid_reason, success, tool_calls FROM episodes ORDER BY 1"
    ) == [
        ("e1", True, "", True, 2),
        ("e2", True, "", False, 2),
        ("e3", True, "", False, 2),
        ("e4", False, "no_verdict", False, 2),
        ("e5", True, "", False, 2),
    ]
    assert warehouse.rows("SELECT replaces_episode_id, reason, missing FROM refills") == [
        ("e4", "no_verdict", 1)
    ]
    assert warehouse.rows(
        "SELECT scope, name, groups, successes FROM competence ORDER BY scope"
    ) == [("capability", "booking", 2, 1), ("task", "task-1", 2, 1)]
    assert warehouse.rows("SELECT kind, to_policy, loss FROM batches") == [("care", "p1", 0.7)]
    assert warehouse.rows("SELECT advantage FROM batch_rows ORDER BY position") == [
        (0.1 + 0.2,),
        (-(0.1 + 0.2),),
    ]
    assert warehouse.rows(
        "SELECT reason, topic, partition, offset, raw_bytes FROM dead_letters"
    ) == [("wrong_key", ROLLOUTS.name, 2, 7, 3)]
    assert warehouse.rows("SELECT outcome, masked_seqs, object_key FROM training_records") == [
        ("retained", [3, 5], "records/ab.pb")
    ]
    assert warehouse.rows("SELECT policy, parent, batch_ids FROM policies") == [
        ("p1", "p0", ["b1"])
    ]


def test_a_call_has_its_answer_or_none(warehouse: Warehouse) -> None:
    _write(warehouse, as_records(rollouts()))
    calls = warehouse.rows(
        "SELECT seq, tool, error_code, latency_us FROM tool_calls"
        " WHERE episode_id = 'e4' ORDER BY seq"
    )
    assert calls == [(1, "search", None, None), (2, "search", "timeout", 0)]
    assert _count(warehouse, "tool_calls") == 10


def _count(warehouse: Warehouse, view: str) -> int:
    return warehouse.rows(f"SELECT count() FROM {view}")[0][0]


def test_an_answer_under_a_call_id_used_again_belongs_to_the_call_before_it(
    warehouse: Warehouse,
) -> None:
    rollout = Rollout("g1", "e1")
    rollout.writer.act(rollout.at, tool="search", arguments_json="{}", call_id="same")
    for error in ("", "denied"):
        rollout.writer.act(rollout.at, tool="search", arguments_json="{}", call_id="same")
        rollout.writer.observe(rollout.at, "x", tool="search", call_id="same", error_code=error)
    _write(warehouse, as_records(rollout.events))
    assert warehouse.rows("SELECT seq, answer_seq, error_code FROM tool_calls ORDER BY seq") == [
        (1, None, None),
        (2, 3, ""),
        (4, 5, "denied"),
    ]


def _again(records: Sequence[Record]) -> list[Record]:
    """The same events sent once more, later on the log."""
    return [replace(record, offset=record.offset + 1000) for record in records]


def _shuffled(records: Sequence[Record]) -> list[Record]:
    mixed = list(records)
    random.Random(4).shuffle(mixed)
    return mixed


@pytest.mark.parametrize("copy", [list, _again, _shuffled])
def test_copies_of_every_event_change_no_view(
    warehouse: Warehouse, copy: Callable[[Sequence[Record]], list[Record]]
) -> None:
    records = on_the_log(whole())
    _write(warehouse, records)
    views, sums, rows = _views(warehouse), _checksums(warehouse), _stored(warehouse)
    for record in copy(records):
        _write(warehouse, [record])
    assert (_views(warehouse), _checksums(warehouse)) == (views, sums)
    assert _stored(warehouse) > rows
    for table in TABLES:
        warehouse.execute(f"OPTIMIZE TABLE {table} FINAL")
    assert (_views(warehouse), _checksums(warehouse)) == (views, sums)
    assert _stored(warehouse) == rows


def _claim(event: Event, request: str, at: int, offset: int) -> list[Record]:
    claimed = Event()
    claimed.CopyFrom(event)
    claimed.episode_started.request = request
    claimed.occurred_at = claimed.recorded_at = at
    return as_records([claimed], first_offset=offset)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_the_first_on_the_log_wins_whatever_is_written_first(
    warehouse: Warehouse, order: Sequence[int], merged: bool
) -> None:
    january, february = (
        int(datetime(2026, *day, 23, 59, 59, tzinfo=UTC).timestamp()) * SECOND
        for day in ((1, 31), (2, 1))
    )
    start = done("g1", "e1").events[0]
    claims = [
        _claim(start, "first", january, 5),
        _claim(start, "second", february, 6),
        _claim(start, "third", february + 40 * 86_400 * SECOND, 700),
    ]
    for index in order:
        _write(warehouse, claims[index])
    if merged:
        warehouse.execute("OPTIMIZE TABLE event_facts FINAL")
    assert warehouse.rows(
        "SELECT JSONExtractString(body, 'request'), toMonth(occurred_at) FROM events"
    ) == [("first", 1)]
    assert _stored(warehouse) == (1 if merged else 3)


def test_sums_count_every_group_and_episode_once(warehouse: Warehouse) -> None:
    events = rollouts()
    events += derived(events)
    _write(warehouse, on_the_log(events))
    _write(warehouse, on_the_log(events, first_offset=500, per_record=2))
    assert warehouse.rows(
        "SELECT capability, regime, groups, episodes, successes, success_rate FROM regimes"
        " ORDER BY capability, regime"
    ) == [
        ("", "outcome", 1, 2, 1, 0.5),
        ("", "progress", 1, 2, 0, 0.0),
        ("booking", "outcome", 1, 2, 1, 0.5),
        ("booking", "progress", 1, 2, 0, 0.0),
    ]
    told = warehouse.rows("SELECT sum(output_tokens), sum(tool_calls) FROM episodes WHERE valid")
    assert warehouse.rows("SELECT episodes, successes, output_tokens, tool_calls FROM costs") == [
        (4, 1, *told[0])
    ]
    assert warehouse.rows("SELECT tokens_per_success, tool_calls_per_success FROM costs") == told


def test_tokens_that_nobody_told_are_null_and_not_free(warehouse: Warehouse) -> None:
    events = rollouts()
    for event in events:
        if event.stream_id == "e2" and event.HasField("action_taken"):
            event.action_taken.ClearField("output_tokens")
    _write(warehouse, on_the_log(events + derived(events)))
    assert warehouse.rows("SELECT output_tokens FROM episodes WHERE episode_id = 'e2'") == [(None,)]
    assert warehouse.rows("SELECT output_tokens, tokens_per_success, tool_calls FROM costs") == [
        (None, None, 8)
    ]


def test_a_newer_fold_takes_the_place_of_the_older(warehouse: Warehouse) -> None:
    events = rollouts()
    older = derived(events)
    newer: list[Event] = []
    for event in older:
        if event.HasField("group_scored") or event.HasField("episode_assembled"):
            copy = Event()
            copy.CopyFrom(event)
            copy.producer_version = "10"
            copy.stream_id = f"{event.group_id}/scored.10"
            copy.event_id = f"{copy.stream_id}#{copy.seq}"
            newer.append(copy)
    _write(warehouse, on_the_log(events + older))
    counts = [_count(warehouse, view) for view in ("groups", "members", "episodes")]
    _write(warehouse, on_the_log(newer, first_offset=300))
    assert [_count(warehouse, view) for view in ("groups", "members", "episodes")] == counts
    for view in ("groups", "members", "episodes"):
        assert warehouse.rows(f"SELECT DISTINCT fold FROM {view}") == [("10",)]


def test_numbers_and_texts_come_back_as_they_were(warehouse: Warehouse) -> None:
    rollout = Rollout("g1", "e1").call("búsqueda\\'\n\t\"", '{"a": 1}', result="☃ \x00 \\N NULL")
    observation = rollout.events[-1].observation_received
    observation.latency_us = 2**63 - 1
    _write(warehouse, as_records(rollout.events))
    ((tool, latency, content),) = warehouse.rows(
        "SELECT tool, latency_us, JSONExtractString(body, 'content') FROM events"
        " WHERE kind = 'observation_received'"
    )
    assert (tool, latency, content) == ("búsqueda\\'\n\t\"", 2**63 - 1, "☃ \x00 \\N NULL")


def test_times_are_exact_to_the_microsecond_in_utc(warehouse: Warehouse) -> None:
    event = opened("g1")
    event.occurred_at = event.recorded_at = NOON + 123_457
    _write(warehouse, as_records([event]))
    assert warehouse.rows("SELECT occurred_at FROM events") == [
        (datetime.fromtimestamp(NOON / SECOND, UTC).replace(microsecond=123_457),)
    ]


def test_tenants_with_the_same_names_stay_apart(warehouse: Warehouse) -> None:
    events = rollouts()
    both: list[Event] = []
    for tenant in ("local", "other"):
        for event in events:
            copy = Event()
            copy.CopyFrom(event)
            copy.tenant = tenant
            both.append(copy)
    _write(warehouse, as_records(both))
    assert warehouse.rows("SELECT tenant, count() FROM events GROUP BY tenant ORDER BY tenant") == [
        ("local", len(events)),
        ("other", len(events)),
    ]
    assert _count(warehouse, "tool_calls") == 20
