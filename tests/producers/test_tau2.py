import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from producers.importers import tau2
from producers.importers.imported import ImportedLog, ImportRefusedError
from schemas.event_pb2 import Event
from schemas.rollout_pb2 import (
    CLOCK_KIND_MEASURED,
    COST_UNIT_OUTPUT_TOKENS,
    FAILURE_ORIGIN_MODEL,
    OBSERVATION_KIND_OTHER_ACTOR,
    OBSERVATION_KIND_TOOL_RESULT,
    OBSERVATION_KIND_USER_MESSAGE,
    TERMINATION_BUDGET,
    TERMINATION_DONE,
    TERMINATION_ERROR,
)
from schemas.validation import check
from tests.producers.logs import TAU2, tau2_simulation, write
from tests.producers.logs import tau2 as results_of


def events_of(log: ImportedLog) -> list[Event]:
    return [event for keyed in log.build() for event in keyed.events]


def read(tmp_path: Path, document: Any) -> ImportedLog:
    return tau2.read(write(tmp_path / "log.json", document))


@pytest.mark.skipif(not TAU2, reason="../shared/data/tau2-bench is not on this machine")
def test_published_simulations() -> None:
    found: Counter[str] = Counter()
    for path in TAU2:
        log = tau2.read(path)
        for keyed in log.build():
            for event in keyed.events:
                assert check(event, keyed.topic, keyed.key) is None
                found[str(event.WhichOneof("body"))] += 1
                found["successes"] += event.verification_made.success
                if event.HasField("action_taken"):
                    assert event.action_taken.HasField("output_tokens")
    assert found["episode_ended"] == found["group_opened"] == 120
    assert found["successes"] == 71


def test_an_episode_is_told_step_by_step(tmp_path: Path) -> None:
    log = read(tmp_path, results_of(1, 2))
    task, opened, *steps = events_of(log)
    specified = task.task_specified
    assert (specified.goal, specified.family) == ("No data.", "telecom")
    assert json.loads(specified.initial_conditions_json) == {"roaming": False}
    assert list(specified.completion_criteria) == [
        "the database ends as the expected writes leave it",
        'assert_data {"on":true}',
        "the agent says roaming",
        "Agent is polite.",
    ]
    assert opened.group_opened.size == 2
    assert opened.group_opened.schedule.cost_unit == COST_UNIT_OUTPUT_TOKENS
    assert opened.policy_version == "gpt-4.1"
    assert opened.harness_version == "tau2-bench/llm_agent@b02b509367"
    first = [event for event in steps if event.stream_id.endswith("trial-0")]
    started = first[0].episode_started
    assert (started.request, started.instructions) == ("My data is off.", "Be helpful.")
    assert started.clock == CLOCK_KIND_MEASURED
    observed = [e.observation_received for e in first if e.HasField("observation_received")]
    assert [(o.kind, o.tool, o.content) for o in observed] == [
        (OBSERVATION_KIND_OTHER_ACTOR, "", "Hi! How can I help you today?"),
        (OBSERVATION_KIND_OTHER_ACTOR, "check_bar", "{}"),
        (OBSERVATION_KIND_OTHER_ACTOR, "check_bar", "no service"),
        (OBSERVATION_KIND_USER_MESSAGE, "", "It says no service."),
        (OBSERVATION_KIND_TOOL_RESULT, "enable_roaming", "on"),
        (OBSERVATION_KIND_TOOL_RESULT, "get_line", "no such line"),
        (OBSERVATION_KIND_USER_MESSAGE, "", "###STOP###"),
    ]
    assert [o.error_code for o in observed] == ["", "", "", "", "", "tool_error", ""]
    acted = [e for e in first if e.HasField("action_taken")]
    assert [(e.action_taken.tool, e.action_taken.output_tokens) for e in acted] == [
        ("", 21),
        ("enable_roaming", 40),
        ("get_line", 0),
        ("", 4),
    ]
    assert acted[0].action_taken.latency_us == 1_000_000
    verified = next(e.verification_made for e in first if e.HasField("verification_made"))
    assert (verified.success, verified.progress) == (True, 1.0)
    assert [atom.name for atom in verified.atoms] == [
        "database",
        "action enable_roaming_0",
        'assert_data {"on":true}',
        "Agent is polite.",
    ]
    assert list(verified.evidence) == [acted[1].event_id], "only what the check compares decides"


def test_times_without_a_zone_are_utc(tmp_path: Path) -> None:
    document = results_of(1, 2)
    document["simulations"][1]["start_time"] = "2025-08-01T18:23:59+02:00"
    events = events_of(read(tmp_path, document))
    starts = [event.occurred_at for event in events if event.HasField("episode_started")]
    moment = datetime(2025, 8, 1, 16, 24, tzinfo=UTC).timestamp()
    assert starts == [moment * 1_000_000, (moment - 1) * 1_000_000]
    opened = next(event for event in events if event.HasField("group_opened"))
    assert opened.occurred_at == starts[1]
    assert opened.group_opened.deadline == max(e.occurred_at for e in events) + 3600 * 1_000_000


@pytest.mark.parametrize(
    ("reason", "termination", "failed"),
    [
        ("agent_stop", TERMINATION_DONE, 0),
        ("max_steps", TERMINATION_BUDGET, 0),
        ("too_many_errors", TERMINATION_ERROR, FAILURE_ORIGIN_MODEL),
    ],
)
def test_termination_reasons(reason: str, termination: int, failed: int, tmp_path: Path) -> None:
    document = results_of(1, 1)
    document["simulations"][0] = tau2_simulation(0, 0, 0.0) | {"termination_reason": reason}
    ended = events_of(read(tmp_path, document))[-1].episode_ended
    assert (ended.termination, ended.failed, ended.detail) == (termination, failed, reason)


def test_progress_is_the_share_of_satisfied_checks(tmp_path: Path) -> None:
    document = results_of(1, 1)
    document["simulations"][0] = tau2_simulation(0, 0, 0.0)
    events = events_of(read(tmp_path, document))
    verified = next(e.verification_made for e in events if e.HasField("verification_made"))
    assert (verified.success, verified.progress) == (False, 0.25)


def test_a_single_trial_waits_for_a_second_member(tmp_path: Path) -> None:
    opened = events_of(read(tmp_path, results_of(1, 1)))[1]
    assert opened.group_opened.size == 2
    assert opened.group_opened.deadline > opened.occurred_at


Break = Callable[[dict[str, Any]], object]


def _simulation(document: dict[str, Any], position: int = 0) -> dict[str, Any]:
    return document["simulations"][position]


CONTRADICTIONS: dict[str, tuple[Break, str, str]] = {
    "no termination reason": (
        lambda d: _simulation(d).pop("termination_reason"),
        "$.simulations[0].termination_reason",
        "no termination reason",
    ),
    "unknown termination reason": (
        lambda d: _simulation(d).update(termination_reason="cosmic_ray"),
        "$.simulations[0].termination_reason",
        "unknown",
    ),
    "no reward": (
        lambda d: _simulation(d).update(reward_info=None),
        "$.simulations[0].reward_info.reward",
        "no reward",
    ),
    "reward contradicts its parts": (
        lambda d: _simulation(d)["reward_info"].update(reward=0.0),
        "$.simulations[0].reward_info",
        "its parts multiply to 1.0",
    ),
    "a trial twice": (
        lambda d: _simulation(d, 1).update(trial=0),
        "$.simulations[1]",
        "is also at $.simulations[0]",
    ),
    "all runs under one task id": (
        lambda d: [s.update(task_id="[mobile_data]task 0") for s in d["simulations"]],
        "$.simulations",
        "unequal numbers of trials",
    ),
    "a task twice": (
        lambda d: d["tasks"][1].update(id="[mobile_data]task 0"),
        "$.tasks[1]",
        "is also at $.tasks[0]",
    ),
    "a task that is not there": (
        lambda d: _simulation(d).update(task_id="other"),
        "$.simulations[0].task_id",
        "no task",
    ),
    "unequal trials": (
        lambda d: d["simulations"].pop(),
        "$.simulations",
        "unequal numbers of trials",
    ),
    "result without call": (
        lambda d: _simulation(d)["messages"][7].update(id="zz"),
        "$.simulations[0].messages[7]",
        "without its call",
    ),
    "call without result": (
        lambda d: _simulation(d)["messages"].pop(8),
        "$.simulations[0].messages[6]",
        "call a2 has no result",
    ),
    "empty trajectory": (
        lambda d: _simulation(d).update(messages=[]),
        "$.simulations[0].messages",
        "empty",
    ),
    "no time": (
        lambda d: _simulation(d)["messages"][2].update(timestamp="soon"),
        "$.simulations[0].messages[2].timestamp",
        "no time",
    ),
    "ends before it starts": (
        lambda d: _simulation(d).update(end_time="2025-07-01T00:00:00"),
        "$.simulations[0]",
        "ends before it starts",
    ),
    "no simulations": (lambda d: d["simulations"].clear(), "$.simulations", "no simulations"),
    "another shape": (
        lambda d: d["info"].pop("agent_info"),
        "$.info",
        "missing required field `agent_info`",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_file_that_contradicts_itself_is_refused_with_the_place(
    name: str, tmp_path: Path
) -> None:
    break_it, where, what = CONTRADICTIONS[name]
    document = results_of(2, 2)
    break_it(document)
    with pytest.raises(ImportRefusedError) as refused:
        read(tmp_path, document)
    findings = {finding.where: finding.what for finding in refused.value.findings}
    assert where in findings
    assert what in findings[where]


def test_content_decides_identities(tmp_path: Path) -> None:
    document = results_of(2, 2)
    one = tau2.read(write(tmp_path / "a.json", document))
    two = tau2.read(write(tmp_path / "b.json.gz", document))
    assert [e.SerializeToString(deterministic=True) for e in events_of(one)] == [
        e.SerializeToString(deterministic=True) for e in events_of(two)
    ]
    assert set(one.streams) == {event.stream_id for event in events_of(one)}
