"""The warehouse's tables: which column comes from where in an event.

`event_facts` has a row for every event. A body that people ask about has a table of its
own besides. The columns named here are those of the migrations, which add the types.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class BodyTable(NamedTuple):
    """A table fed by one body. `columns` maps a column to a path in the body's plain values;
    with `each`, a repeated field, there is a row for each of its items, `items` maps columns to
    paths in the item, and a column `position` numbers them. `envelope` maps columns to fields of
    the event."""

    name: str
    body: str
    envelope: Mapping[str, str]
    columns: Mapping[str, str]
    each: str = ""
    items: Mapping[str, str] = MappingProxyType({})


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _inside(parent: str, names: str) -> dict[str, str]:
    return {name: f"{parent}.{name}" for name in names.split()}


_IDENTITY = _same("tenant stream_id seq")
_DERIVED = {"tenant": "tenant", "group_id": "group_id", "fold": "producer_version"}
_VERSIONS = {
    "policy": "policy_version",
    "harness": "harness_version",
    "schedule": "schedule_version",
}
_AT = _same("occurred_at")

EVENT_TABLE = "event_facts"

ENVELOPE = (
    _IDENTITY
    | _same("group_id correlation_id causation_id occurred_at recorded_at producer")
    | _same("producer_version")
    | _VERSIONS
)

HOT: dict[str, dict[str, str]] = {
    "action_taken": {"action": "kind"} | _same("tool call_id latency_us output_tokens"),
    "observation_received": {"observation": "kind"} | _same("tool call_id error_code latency_us"),
}
"""Columns of `event_facts` beside the envelope, by the body that fills them."""

TEXTS: dict[str, tuple[str, ...]] = {
    "action_taken": ("text", "arguments_json"),
    "observation_received": ("content",),
    "episode_started": ("request", "instructions"),
}
"""The fields whose lengths in characters add up to an event's `text_length`."""

BODY_TABLES: tuple[BodyTable, ...] = (
    BodyTable(
        "episode_facts",
        "episode_assembled",
        _DERIVED | _VERSIONS,
        _same("episode_id task_id valid invalid_reason success progress cost steps tool_calls")
        | _same("output_tokens errors termination started_at ended_at last_seq verification_id"),
    ),
    BodyTable(
        "group_facts",
        "group_scored",
        _DERIVED | _VERSIONS,
        _same("task_id regime size valid successes success_rate reward_mean reward_std anchor")
        | _same("epsilon progress_std closed_by capabilities split closed_at")
        | _inside("schedule", "p_low p_high lambda_prog lambda_eff cost_unit cost_budget"),
    ),
    BodyTable(
        "member_facts",
        "group_scored",
        _DERIVED,
        _same("task_id regime capabilities"),
        "members",
        _same("episode_id valid invalid_reason success progress cost reward reward_term advantage")
        | _same("output_tokens tool_calls steps")
        | {"policy": "policy_version"},
    ),
    BodyTable(
        "competence_facts",
        "competence_measured",
        _IDENTITY | _same("group_id") | {"policy": "policy_version"} | _AT,
        _same("scope name episodes successes success_rate regime"),
    ),
    BodyTable(
        "record_facts",
        "record_curated",
        _IDENTITY | _same("group_id") | {"policy": "policy_version"} | _AT,
        _same("record_id episode_id task_id outcome reasons capabilities success backend fidelity")
        | _same("masked_seqs supervised_turns first_event_id last_event_id evidence")
        | _same("content_digest failure_kind split")
        | {"object_key": "object.key", "object_sha256": "object.sha256"},
    ),
    BodyTable(
        "policy_facts",
        "policy_published",
        _IDENTITY | _AT,
        _same("policy_version parent_version update architecture parameters batch_ids")
        | {"object_key": "weights.key", "object_sha256": "weights.sha256"}
        | {"object_bytes": "weights.bytes"},
    ),
    BodyTable(
        "batch_facts",
        "batch_ready",
        _IDENTITY | _AT,
        _same("batch_id kind policy_version trained_tokens digest"),
    ),
    BodyTable(
        "batch_row_facts",
        "batch_ready",
        _IDENTITY,
        _same("batch_id"),
        "rows",
        _same("episode_id group_id source_event_id advantage weight"),
    ),
    BodyTable(
        "update_facts",
        "batch_trained",
        _IDENTITY | _AT,
        _same("batch_id kind from_policy_version to_policy_version update loss gradient_norm")
        | _same("clipped_share trained_tokens groups episodes groups_without_advantage"),
    ),
    BodyTable(
        "dead_letter_facts",
        "dead_letter",
        _IDENTITY | _same("recorded_at"),
        _same("reason detail topic partition offset raw_bytes object_key refused_by")
        | {"position": "index", "record_at": "record_time"},
    ),
)

TABLES: tuple[str, ...] = (EVENT_TABLE, *(table.name for table in BODY_TABLES))
"""Every table that is a function of the log alone: what a rebuild fills and compares."""
