"""Events to columns: exact values, stable order of versions, and blocks cut by records alone."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from consumers import blocks as cut
from consumers.blocks import Block, Blocks
from consumers.plain import PlainReader
from consumers.rows import rows, times, versions
from consumers.tables import BODY_TABLES, EVENT_TABLE, TABLES
from infra.log import Record
from schemas.descriptors import POOL
from schemas.event_pb2 import Event, EventBatch
from schemas.refusal_pb2 import REASON_EMPTY_RECORD, REASON_UNPARSEABLE
from schemas.rollout_pb2 import (
    ACTION_KIND_TOOL_CALL,
    ActionTaken,
    GroupOpened,
    PolicySpan,
    Schedule,
    VerificationMade,
)
from schemas.scoring_pb2 import EpisodeAssembled
from schemas.topics import BODIES, GROUPS, ROLLOUTS
from tests.consumers.history import on_the_log, rollouts, whole
from tests.consumers.rollouts import NOON, as_records, done, opened

OFFSETS = st.integers(0, 2**40 - 1)


def _json(message: Message) -> dict[str, Any]:
    reader = PlainReader(POOL.FindMessageTypeByName(message.DESCRIPTOR.full_name))
    (text,) = reader.json(reader.columns([message]))
    return json.loads(text)


def _tables(records: Sequence[Record]) -> dict[str, list[dict[str, Any]]]:
    """Rows by table of records of one partition, in the order of their identity."""
    opened_blocks = Blocks()
    full = [*opened_blocks.add(records), *opened_blocks.drain()]
    found: dict[str, list[dict[str, Any]]] = {}
    for block in full:
        for name, columns in block.tables().items():
            found.setdefault(name, []).extend(pa.table(columns).to_pylist())
    return {name: sorted(some, key=lambda row: -row["version"]) for name, some in found.items()}


@given(OFFSETS, OFFSETS, st.integers(1, 2**18), st.integers(0, 63))
def test_the_earlier_copy_has_the_higher_version(
    offset: int, other: int, events: int, partition: int
) -> None:
    numbers = versions(partition, offset, events)
    assert len(numbers) == events
    assert 0 <= numbers[-1] <= numbers[0] < 2**64
    assert (numbers[-1] > versions(partition, other, 1)[0]) == (offset < other)
    assert numbers[0] != versions(partition ^ 1, offset, 1)[0]


def test_plain_values_are_names_counts_and_exact_numbers() -> None:
    action = ActionTaken(
        kind=ACTION_KIND_TOOL_CALL,
        tool="book",
        token_ids=[1, 2, 3],
        logprobs=[-0.5, -0.5, -0.5],
        policy_spans=[PolicySpan(policy_version="p0", end=3)],
        output_tokens=0,
    )
    assert _json(action) == {
        "kind": "tool_call",
        "tool": "book",
        "token_ids_count": 3,
        "policy_spans": [{"policy_version": "p0", "start": 0, "end": 3}],
        "output_tokens": 0,
        "latency_us": 0,
    }


def test_an_optional_number_that_is_not_set_is_not_zero() -> None:
    assert "output_tokens" not in _json(ActionTaken(tool="x"))
    assert _json(EpisodeAssembled(output_tokens=0))["output_tokens"] == 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_to_the_last_bit(value: float) -> None:
    made = _json(VerificationMade(progress=value))
    assert math.copysign(1, made["progress"]) == math.copysign(1, value)
    assert made["progress"] == value


def test_a_message_that_is_not_there_is_left_out() -> None:
    assert "schedule" not in _json(GroupOpened(size=2))
    schedule = _json(GroupOpened(schedule=Schedule(p_low=0.25)))["schedule"]
    assert schedule["p_low"] == 0.25


def test_an_unknown_time_is_null() -> None:
    assert times([0, NOON, -1, 2**62]).is_valid().to_pylist() == [False, True, False, False]
    assert times([NOON]).cast(pa.int64()).to_pylist() == [NOON]


@pytest.mark.parametrize("body", BODIES)
def test_every_body_has_rows_even_when_it_is_empty(body: str) -> None:
    event = Event(stream_id="s", event_id="s#0", tenant="local", occurred_at=NOON, recorded_at=NOON)
    getattr(event, body).SetInParent()
    vetted = ("s", 0, "local", NOON, BODIES[body], getattr(event, body))
    tables = rows([event], [vetted], [7])
    assert set(tables) == {EVENT_TABLE} | {t.name for t in BODY_TABLES if t.body == body}
    assert tables[EVENT_TABLE]["kind"].to_pylist() == [body]
    assert tables[EVENT_TABLE]["version"].to_pylist() == [7]


def test_the_history_reaches_every_table() -> None:
    tables = _tables(on_the_log(whole()))
    reached = {name: len(some) for name, some in tables.items()}
    assert set(reached) == set(TABLES)
    assert reached["member_facts"] == 5
    assert reached["batch_row_facts"] == 2


def test_members_carry_their_group_and_their_number() -> None:
    members = _tables(on_the_log(whole()))["member_facts"]
    assert [(m["group_id"], m["episode_id"], m["position"]) for m in members] == [
        ("g1", "e1", 0),
        ("g1", "e2", 1),
        ("g2", "e3", 0),
        ("g2", "e4", 1),
        ("g2", "e5", 2),
    ]
    assert [m["regime"] for m in members] == ["outcome"] * 2 + ["progress"] * 3


def test_an_event_says_the_same_however_it_is_packed() -> None:
    events = rollouts()
    one, many = (_tables(as_records(events, per_record=n)) for n in (1, 25))
    for row in one[EVENT_TABLE] + many[EVENT_TABLE]:
        del row["version"]
    assert sorted(one[EVENT_TABLE], key=str) == sorted(many[EVENT_TABLE], key=str)


def test_a_copy_in_the_same_record_comes_second() -> None:
    first, second = done("g1", "e1").events[0], Event()
    second.CopyFrom(first)
    second.episode_started.request = "something else"
    record = as_records([first, second], per_record=2)
    copies = _tables(record)[EVENT_TABLE]
    assert "book a flight" in str(copies[0]["body"])
    assert copies[0]["version"] > copies[1]["version"]


def _cut(records: Sequence[Record], sizes: Sequence[int]) -> list[tuple[str, int]]:
    blocks, found, at = Blocks(), [], 0
    for size in [*sizes, len(records)]:
        found += blocks.add(records[at : at + size])
        at += size
    return [(block.token, block.events) for block in [*found, *blocks.drain()]]


@given(st.lists(st.integers(1, 12), max_size=8))
def test_blocks_are_cut_by_records_and_not_by_polls(sizes: list[int]) -> None:
    records = [
        replace(record, offset=3 * record.offset)
        for record in as_records([e for n in range(8) for e in done("g1", f"e{n}").events])
    ]
    assert _cut(records, sizes) == _cut(records, [])


def test_a_full_block_is_named_by_the_offsets_that_it_covers() -> None:
    events = done("g1", "e1").events
    records = as_records(events * (cut.BLOCK_EVENTS // len(events) + 2), per_record=50)
    (full, rest) = _cut(records, [])
    first, last = full[0].rsplit(":", 1)[1].split("-")
    assert (first, full[1] >= cut.BLOCK_EVENTS) == ("0", True)
    assert rest[0].startswith(f"{ROLLOUTS.name}:0:{int(last) + 1}-")


def test_what_is_refused_does_not_take_its_neighbours_with_it() -> None:
    events = done("g1", "e1").events
    events[2].observation_received.kind = 99  # type: ignore[assignment]
    (record,) = as_records(events, per_record=len(events))
    block = Block(ROLLOUTS, 0, record.offset)
    block.add(record)
    assert block.events == len(events) - 1
    (refused,) = block.refused
    assert (refused.position, refused.raw) == (2, events[2].SerializeToString())


def test_nan_never_gets_in() -> None:
    (event, *_) = [e for e in done("g1", "e1").events if e.HasField("verification_made")]
    event.verification_made.progress = math.nan
    block = Block(ROLLOUTS, 0, 0)
    block.add(as_records([event])[0])
    assert (block.events, len(block.refused), block.tables()) == (0, 1, {})


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda value: None, REASON_EMPTY_RECORD),
        (lambda value: b"", REASON_EMPTY_RECORD),
        (lambda value: value[:-3], REASON_UNPARSEABLE),
    ],
)
def test_a_record_that_is_refused_whole_keeps_its_bytes(
    spoil: Callable[[bytes], bytes | None], reason: int
) -> None:
    value = EventBatch(events=done("g1", "e1").events).SerializeToString()
    spoilt = spoil(value)
    block = Block(GROUPS, 0, 4)
    block.add(Record(GROUPS.name, 0, 4, b"g1", spoilt, NOON))
    assert [(r.position, r.refusal.reason, r.raw) for r in block.refused] == [
        (None, reason, spoilt or b"")
    ]
    assert (block.events, block.records, block.last) == (0, 1, 4)


def test_an_opened_group_keeps_its_schedule_in_the_body() -> None:
    (row,) = _tables(as_records([opened("g1")]))[EVENT_TABLE]
    body = json.loads(row["body"])
    assert body["schedule"]["cost_unit"] == "tool_calls"
