"""Edge validation: what passes, and every reason for which something does not."""

import math
from collections.abc import Callable, Iterator

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.batch import Batch
from schemas.bodies import BODY_CHECKS, MAX_IDENTITY_BYTES
from schemas.descriptors import descriptor_set
from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.refusal_pb2 import REASON_MISSING_FIELD, Reason
from schemas.rollout_pb2 import FAILURE_ORIGIN_MODEL
from schemas.rules import ACROSS_FIELDS, CLOCK_FROM, CLOCK_UNTIL, NUMBERS, REQUIRED, TIMES
from schemas.scoring_pb2 import (
    CLOSED_BY_COUNT,
    INVALID_REASON_NO_VERDICT,
    REGIME_OUTCOME,
    GroupScored,
)
from schemas.topics import BODIES, MAX_EVENT_BYTES, ROLLOUTS, Topic, topic_of
from schemas.validation import Refusal, check
from tests.builders import (
    SCHEDULE,
    START,
    good_episode,
    good_group,
    group_opened,
)
from tests.hostile import hostile_records

GROUP = "grp-1"
EPISODE = good_episode(GROUP, 0)

Spoil = Callable[[Event], object]


def _bare(body: str) -> Event:
    """An event of a body with nothing in it, in an envelope that is right."""
    event = Stream("s-1", tenant="acme", producer="tests", group_id="s-1").event(START)
    getattr(event, body).SetInParent()
    return event


def _check(event: Event) -> Refusal | None:
    topic: Topic = topic_of(event.WhichOneof("body") or "action_taken")
    return check(event, topic, topic.key(event))


def _reason(event: Event) -> str:
    refusal = _check(event)
    return Reason.Name(refusal.reason) if refusal else ""


def _event(body: str) -> Event:
    copy = Event()
    source = group_opened(GROUP) if body == "group_opened" else None
    copy.CopyFrom(source or next(e for e in EPISODE if e.WhichOneof("body") == body))
    return copy


def test_a_working_rollout_passes() -> None:
    assert [_check(event) for event in good_group(GROUP)] == [None] * 41


def test_a_foreign_policys_actions_pass_without_tokens() -> None:
    events = good_episode(GROUP, 0, tokens=0, tells_tokens=False, tool_errors=2, verified=False)
    assert [_check(event) for event in events] == [None] * len(events)


def test_old_events_pass_and_so_does_a_clock_a_day_ahead() -> None:
    event = _event("action_taken")
    event.occurred_at = CLOCK_FROM
    assert _check(event) is None
    event.occurred_at = event.recorded_at + 24 * 3600 * 1_000_000
    assert _check(event) is None
    event.occurred_at += 1
    assert _reason(event) == "REASON_CLOCK_OUT_OF_RANGE"


def test_content_keeps_every_character() -> None:
    event = _event("action_taken")
    event.action_taken.text = event.action_taken.arguments_json = "\0\x07 not JSON {"
    event.action_taken.call_id = event.action_taken.tool = "\n\0"
    assert _check(event) is None


def test_identities_may_be_written_in_any_script() -> None:
    event = _event("action_taken")
    event.tenant = "café-日本"
    event.producer_version = "1.0\u200b"
    assert _check(event) is None


@pytest.mark.parametrize("name", ["group_id", "tenant", "producer_version", "causation_id"])
@pytest.mark.parametrize("letter", ["\0", "\t", "\n", "\x1f"])
def test_no_identity_holds_a_control_character(name: str, letter: str) -> None:
    event = _event("action_taken")
    setattr(event, name, f"a{letter}b")
    assert _reason(event) == "REASON_FORBIDDEN_CHARACTER"


def test_identities_are_measured_one_by_one_in_bytes() -> None:
    event = _event("action_taken")
    for name in ("tenant", "producer", "causation_id", "policy_version"):
        setattr(event, name, "x" * MAX_IDENTITY_BYTES)
    assert _check(event) is None
    event.tenant = "é" * (MAX_IDENTITY_BYTES // 2)
    assert _check(event) is None
    event.tenant += "é"
    assert _reason(event) == "REASON_TOO_LARGE"


def test_the_size_limit_is_exact() -> None:
    event = _event("observation_received")
    event.observation_received.content = "x" * MAX_EVENT_BYTES
    event.observation_received.content = "x" * (2 * MAX_EVENT_BYTES - event.ByteSize())
    assert event.ByteSize() == MAX_EVENT_BYTES
    assert _check(event) is None
    event.observation_received.content += "x"
    assert _reason(event) == "REASON_TOO_LARGE"


@pytest.mark.parametrize(
    ("body", "field", "value", "reason"),
    [
        ("group_opened", "deadline", -1, "CLOCK_OUT_OF_RANGE"),
        ("group_opened", "size", 1, "NUMBER_OUT_OF_RANGE"),
        ("group_opened", "split", 9, "UNKNOWN_ENUM"),
        ("group_opened", "task_id", "", "MISSING_FIELD"),
        ("group_opened", "task_id", "t\0", "FORBIDDEN_CHARACTER"),
        ("episode_started", "episode_id", "another", "IDENTITY_CONFLICT"),
        ("episode_started", "backend", 0, "MISSING_FIELD"),
        ("episode_started", "fidelity", 0, "MISSING_FIELD"),
        ("episode_started", "clock", 0, "MISSING_FIELD"),
        ("episode_started", "clock", -1, "UNKNOWN_ENUM"),
        ("episode_started", "seed", 2**64 - 1, "INTEGER_OUT_OF_RANGE"),
        ("action_taken", "kind", 0, "MISSING_FIELD"),
        ("action_taken", "kind", 99, "UNKNOWN_ENUM"),
        ("action_taken", "latency_us", 2**63, "INTEGER_OUT_OF_RANGE"),
        ("observation_received", "kind", 0, "MISSING_FIELD"),
        ("verification_made", "verifier", "", "MISSING_FIELD"),
        ("verification_made", "progress", -0.1, "NUMBER_OUT_OF_RANGE"),
        ("verification_made", "confidence", 1.0001, "NUMBER_OUT_OF_RANGE"),
        ("verification_made", "confidence", math.inf, "NOT_A_NUMBER"),
        ("verification_made", "progress", math.nan, "NOT_A_NUMBER"),
        ("episode_ended", "termination", 0, "MISSING_FIELD"),
        ("episode_ended", "termination", 6, "MISSING_FIELD"),
        ("episode_ended", "failed", 77, "UNKNOWN_ENUM"),
    ],
)
def test_fields_of_a_rollout(body: str, field: str, value: object, reason: str) -> None:
    event = _event(body)
    setattr(getattr(event, body), field, value)
    assert _reason(event) == f"REASON_{reason}"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("p_low", 0.75, "NUMBER_OUT_OF_RANGE"),
        ("p_low", -0.01, "NUMBER_OUT_OF_RANGE"),
        ("p_high", 1.0, "NUMBER_OUT_OF_RANGE"),
        ("p_high", math.nan, "NOT_A_NUMBER"),
        ("lambda_prog", -1.0, "NUMBER_OUT_OF_RANGE"),
        ("lambda_prog", math.inf, "NOT_A_NUMBER"),
        ("lambda_eff", 1.0, "NUMBER_OUT_OF_RANGE"),
        ("cost_budget", 0.0, "NUMBER_OUT_OF_RANGE"),
        ("cost_budget", -math.inf, "NOT_A_NUMBER"),
        ("cost_unit", 0, "MISSING_FIELD"),
        ("cost_unit", 44, "UNKNOWN_ENUM"),
    ],
)
def test_a_schedule_inside_a_body(field: str, value: object, reason: str) -> None:
    event = group_opened(GROUP)
    setattr(event.group_opened.schedule, field, value)
    assert _reason(event) == f"REASON_{reason}"


def test_a_group_needs_a_schedule_and_its_own_stream() -> None:
    event = group_opened(GROUP)
    event.group_opened.ClearField("schedule")
    assert _reason(event) == "REASON_MISSING_FIELD"
    event = group_opened(GROUP)
    event.stream_id, event.event_id = "else", "else#0"
    assert _reason(event) == "REASON_IDENTITY_CONFLICT"


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([], ""),
        ([(0, 20)], ""),
        ([(0, 7), (7, 20)], ""),
        ([(0, 19)], "REASON_INCONSISTENT"),
        ([(1, 20)], "REASON_INCONSISTENT"),
        ([(0, 21)], "REASON_INCONSISTENT"),
        ([(0, 7), (8, 20)], "REASON_INCONSISTENT"),
        ([(0, 7), (6, 20)], "REASON_INCONSISTENT"),
        ([(0, 20), (20, 20)], "REASON_INCONSISTENT"),
        ([(7, 20), (0, 7)], "REASON_INCONSISTENT"),
    ],
)
def test_policy_spans_cover_the_tokens(spans: list[tuple[int, int]], reason: str) -> None:
    event = _event("action_taken")
    action = event.action_taken
    del action.policy_spans[:]
    for start, end in spans:
        action.policy_spans.add(policy_version="p-1", start=start, end=end)
    assert _reason(event) == reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 10, 19])
def test_log_probabilities_are_numbers(value: float, place: int) -> None:
    event = _event("action_taken")
    event.action_taken.logprobs[place] = value
    assert _reason(event) == "REASON_NOT_A_NUMBER"


def test_infinities_do_not_cancel_out_and_large_numbers_do_not_add_up_to_one() -> None:
    event = _event("action_taken")
    event.action_taken.logprobs[:] = [math.inf, -math.inf, *([0.0] * 18)]
    assert _reason(event) == "REASON_NOT_A_NUMBER"
    event.action_taken.logprobs[:] = [-3.4e38] * 20
    assert _check(event) is None


@pytest.mark.parametrize("missing", ["token_ids", "logprobs"])
def test_tokens_and_log_probabilities_come_together(missing: str) -> None:
    event = _event("action_taken")
    event.action_taken.ClearField(missing)
    event.action_taken.ClearField("policy_spans")
    assert _reason(event) == "REASON_INCONSISTENT"


def test_a_clock_event_cannot_close_every_group() -> None:
    event = _bare("clock_advanced")
    assert _reason(event) == "REASON_MISSING_FIELD"
    event.clock_advanced.now = START
    assert _check(event) is None
    for now in (CLOCK_UNTIL - 1, CLOCK_UNTIL, -1):
        event.clock_advanced.now = now
        assert _reason(event) == "REASON_CLOCK_OUT_OF_RANGE"


def _scored() -> Event:
    event = _bare("group_scored")
    group = event.group_scored
    group.CopyFrom(
        GroupScored(
            task_id="task-1",
            regime=REGIME_OUTCOME,
            schedule=SCHEDULE,
            size=2,
            valid=1,
            successes=1,
            success_rate=1.0,
            closed_by=CLOSED_BY_COUNT,
            closed_at=START,
        )
    )
    group.members.add(episode_id="ep-1", valid=True, success=True)
    group.members.add(episode_id="ep-2", invalid_reason=INVALID_REASON_NO_VERDICT)
    return event


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda e: None, ""),
        (lambda e: setattr(e.group_scored, "successes", 2), "REASON_INCONSISTENT"),
        (lambda e: setattr(e.group_scored, "valid", 3), "REASON_INCONSISTENT"),
        (lambda e: setattr(e.group_scored.members[1], "valid", True), "REASON_INCONSISTENT"),
        (lambda e: setattr(e.group_scored.members[1], "reward", math.nan), "REASON_NOT_A_NUMBER"),
        (
            lambda e: setattr(e.group_scored.members[0], "output_tokens", 2**63),
            "REASON_INTEGER_OUT_OF_RANGE",
        ),
        (lambda e: setattr(e.group_scored.members[0], "episode_id", ""), "REASON_MISSING_FIELD"),
        (lambda e: setattr(e.group_scored.schedule, "p_low", 0.9), "REASON_NUMBER_OUT_OF_RANGE"),
        (lambda e: setattr(e.group_scored, "closed_at", 5), "REASON_CLOCK_OUT_OF_RANGE"),
    ],
)
def test_derived_events_are_checked_down_to_their_members(spoil: Spoil, reason: str) -> None:
    event = _scored()
    spoil(event)
    assert _reason(event) == reason


def test_repeated_integers_and_identities_are_checked() -> None:
    event = _bare("failure_diagnosed")
    diagnosed = event.failure_diagnosed
    diagnosed.origin = FAILURE_ORIGIN_MODEL
    diagnosed.erroneous_seqs.extend([3, 2**63 - 1])
    assert _check(event) is None
    diagnosed.erroneous_seqs.append(2**63)
    assert _reason(event) == "REASON_INTEGER_OUT_OF_RANGE"
    event = _bare("release_proposed")
    event.release_proposed.release_id = "r-1"
    event.release_proposed.added_record_ids.extend(["a", "b\0"])
    assert _reason(event) == "REASON_FORBIDDEN_CHARACTER"


def test_memory_belongs_to_somebody() -> None:
    event = _bare("memory_deleted")
    event.memory_deleted.unit_id = "u-1"
    assert _reason(event) == "REASON_MISSING_FIELD"
    scope = event.memory_deleted.scope
    scope.workspace, scope.user = "w", "u"
    assert _reason(event) == "REASON_MISSING_FIELD"
    scope.agent = "a"
    assert _check(event) is None


def test_every_reason_of_the_edge_is_reachable() -> None:
    found = {
        refusal.reason
        for record in hostile_records()
        for _, refusal in Batch(record.value, record.key, ROLLOUTS).refusals
    }
    by_fold = {"WRONG_TENANT", "GROUP_UNKNOWN", "SEQUENCE_GAP", "AFTER_END", "IDENTITY_CONFLICT"}
    names = {Reason.Name(reason).removeprefix("REASON_") for reason in found}
    assert names | by_fold | {"UNSPECIFIED"} == {
        name.removeprefix("REASON_")
        for name in Reason.keys()  # noqa: SIM118  # an enum, not a dict
    }


def test_rules_name_fields_that_exist() -> None:
    fields = {
        f"{message.name}.{field.name}": field
        for file in descriptor_set().file
        for message in file.message_type
        for field in message.field
    }
    assert set(NUMBERS) | set(TIMES) | REQUIRED <= set(fields)
    assert set(ACROSS_FIELDS) <= {path.partition(".")[0] for path in fields}
    assert set(BODY_CHECKS) == {
        path.partition(".")[2]
        for path, field in fields.items()
        if path.startswith("Event.") and field.HasField("oneof_index")
    }


def _fill(message: Message) -> None:
    """Give every field of a message, at every depth, something that passes."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            held = getattr(message, field.name)
            _fill(held.add() if field.is_repeated else held)
            continue
        value = _SPECIAL.get(f"{message.DESCRIPTOR.name}.{field.name}", _USUAL[field.cpp_type])
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


_USUAL = {
    FieldDescriptor.CPPTYPE_STRING: "x",
    FieldDescriptor.CPPTYPE_ENUM: 1,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.5,
    FieldDescriptor.CPPTYPE_FLOAT: 0.5,
    FieldDescriptor.CPPTYPE_BOOL: False,
    FieldDescriptor.CPPTYPE_INT32: 1,
    FieldDescriptor.CPPTYPE_INT64: START,
    FieldDescriptor.CPPTYPE_UINT32: 2,
    FieldDescriptor.CPPTYPE_UINT64: 2,
}
_SPECIAL = {
    "DeadLetter.key": b"k",
    "DeadLetter.raw": b"r",
    "GroupScored.successes": 1,
    "GroupScored.valid": 1,
    "MemoryWritten.content": b"c",
    "PolicySpan.end": 1,
    "PolicySpan.start": 0,
    "Schedule.p_low": 0.25,
}


def _parts(message: Message) -> Iterator[Message]:
    """A message and every message in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from _parts(part)


def _spoilt(body: str, kinds: set[int], value: float) -> Iterator[tuple[str, str]]:
    """Each field of the types, at any depth, set to a value: its name and what comes of it."""
    places = [
        (index, field)
        for index, part in enumerate(_parts(_full(body)))
        for field in part.DESCRIPTOR.fields
        if field.cpp_type in kinds
    ]
    for index, field in places:
        message = _full(body)
        part = list(_parts(message))[index]
        if field.is_repeated:
            getattr(part, field.name)[0] = value
        else:
            setattr(part, field.name, value)
        refusal = BODY_CHECKS[body](message)
        reason = "" if refusal is None else Reason.Name(refusal.reason).removeprefix("REASON_")
        yield f"{part.DESCRIPTOR.name}.{field.name}", reason


def _full(body: str) -> Message:
    message = getattr(Event(), body)
    _fill(message)
    return message


@pytest.mark.parametrize("body", BODIES)
def test_what_holds_for_every_field_of_every_body(body: str) -> None:
    assert BODY_CHECKS[body](_full(body)) is None
    floats = {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}
    for value in (math.nan, math.inf, -math.inf):
        for name, reason in _spoilt(body, floats, value):
            assert (name, reason) == (name, "NOT_A_NUMBER")
    for value in (99, -1):
        for name, reason in _spoilt(body, {FieldDescriptor.CPPTYPE_ENUM}, value):
            assert (name, reason) == (name, "UNKNOWN_ENUM")
    for name, reason in _spoilt(body, {FieldDescriptor.CPPTYPE_UINT64}, 2**63):
        assert (name, reason) == (name, "INTEGER_OUT_OF_RANGE")
    for name, reason in _spoilt(body, {FieldDescriptor.CPPTYPE_ENUM}, 0):
        assert name not in REQUIRED or reason == "MISSING_FIELD"


@pytest.mark.parametrize("body", BODIES)
def test_what_is_required_is_required(body: str) -> None:
    for index, part in enumerate(_parts(_full(body))):
        for field in part.DESCRIPTOR.fields:
            if f"{part.DESCRIPTOR.name}.{field.name}" in REQUIRED:
                message = _full(body)
                list(_parts(message))[index].ClearField(field.name)
                refusal = BODY_CHECKS[body](message)
                assert refusal is not None
                assert refusal.reason == REASON_MISSING_FIELD


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_whatever_make_the_edge_stumble(value: bytes, key: bytes) -> None:
    batch = Batch(value, key, ROLLOUTS)
    assert batch.refusals or batch.runs


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_to_a_good_record_never_raises(data: st.DataObject) -> None:
    value = bytearray(b"".join(b"\x0a" + _framed(event) for event in EPISODE[:3]))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    batch = Batch(bytes(value), GROUP.encode(), ROLLOUTS, trust=False)
    assert batch.refusals or batch.runs
    for run in batch.runs:
        for position in range(run.start, run.start + len(run.bodies)):
            assert check(batch.event(position), ROLLOUTS, GROUP) is None


def _framed(event: Event) -> bytes:
    raw = event.SerializeToString()
    return bytes((len(raw) & 0x7F | 0x80, len(raw) >> 7)) + raw
