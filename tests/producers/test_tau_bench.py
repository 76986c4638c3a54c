import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from producers.importers import recognise, tau_bench
from producers.importers.imported import ImportedLog, ImportRefusedError
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.rollout_pb2 import (
    ACTION_KIND_MESSAGE,
    ACTION_KIND_TOOL_CALL,
    COST_UNIT_TOOL_CALLS,
    DATA_SPLIT_DEV,
    TERMINATION_BUDGET,
    TERMINATION_DONE,
    Schedule,
)
from schemas.scoring_pb2 import REGIME_EFFICIENCY, REGIME_OUTCOME, REGIME_PROGRESS
from schemas.validation import check
from tests.producers.folding import scored
from tests.producers.logs import AIRLINE, call, tau_bench_run, write
from tests.producers.logs import tau2 as tau2_results
from tests.producers.logs import tau_bench as runs_of


def events_of(log: ImportedLog) -> list[Event]:
    return [event for keyed in log.build() for event in keyed.events]


def read(tmp_path: Path, document: Any, **choices: Any) -> ImportedLog:
    return tau_bench.read(write(tmp_path / "log.json", document), **choices)


def findings_of(tmp_path: Path, document: Any) -> dict[str, str]:
    with pytest.raises(ImportRefusedError) as refused:
        read(tmp_path, document)
    return {finding.where: finding.what for finding in refused.value.findings}


def bodies(events: list[Event], name: str) -> list[Any]:
    return [getattr(event, name) for event in events if event.HasField(name)]  # pyright: ignore


@pytest.mark.skipif(not AIRLINE.exists(), reason="../shared/data/tau-bench is not on this machine")
def test_published_rollouts_of_gpt_4o() -> None:
    log = tau_bench.read(AIRLINE)
    keyed = list(log.build())
    events = [event for part in keyed for event in part.events]
    assert (log.groups, log.episodes) == (50, 200)
    assert [check(event, part.topic, part.key) for part in keyed for event in part.events].count(
        None
    ) == len(events)
    actions = bodies(events, "action_taken")
    assert sum(action.kind == ACTION_KIND_TOOL_CALL for action in actions) == 1164
    assert {group.size for group in bodies(events, "group_opened")} == {4}
    successes: dict[str, int] = defaultdict(int)
    for event in events:
        successes[event.group_id] += event.verification_made.success
    del successes[""]
    assert sum(successes.values()) == 84
    groups = [e.group_scored for e in scored(log) if e.HasField("group_scored")]
    regimes = Counter(group.regime for group in groups)
    assert regimes == {REGIME_PROGRESS: 14, REGIME_OUTCOME: 22, REGIME_EFFICIENCY: 14}
    assert sum(group.valid for group in groups) == 200
    ended = Counter(body.termination for body in bodies(events, "episode_ended"))
    assert ended == {TERMINATION_DONE: 195, TERMINATION_BUDGET: 5}


def test_an_episode_is_told_step_by_step(tmp_path: Path) -> None:
    events = events_of(read(tmp_path, [tau_bench_run(7, 0), tau_bench_run(7, 1, 0.0)]))
    task, opened, *steps = events
    assert task.task_specified.goal == "Cancel R7."
    assert task.task_specified.family == "airline"
    assert list(task.task_specified.capabilities) == ["argument_grounding", "verified_completion"]
    assert "cancel_reservation" not in str(task), "a task prescribes no trajectory"
    assert opened.group_opened.size == 2
    assert opened.group_opened.schedule.cost_budget == 30
    first = [event for event in steps if event.stream_id.endswith("trial-0")]
    assert [event.WhichOneof("body") for event in first] == [
        "episode_started",
        "action_taken",
        "observation_received",
        "action_taken",
        "observation_received",
        "verification_made",
        "episode_ended",
    ]
    started, acted, observed, said, stopped, verified, _ = first
    assert started.episode_started.request == "Please cancel my trip."
    assert started.episode_started.instructions == "As an airline agent, you can help."
    assert json.loads(acted.action_taken.arguments_json) == {"reservation_id": "R7"}
    assert acted.causation_id == started.event_id
    assert observed.causation_id == acted.event_id
    assert said.action_taken.kind == ACTION_KIND_MESSAGE
    assert stopped.observation_received.content == "###STOP###"
    assert not acted.action_taken.HasField("output_tokens")
    assert (verified.verification_made.success, verified.verification_made.progress) == (True, 1.0)
    assert list(verified.verification_made.evidence) == [acted.event_id]
    times = [event.occurred_at for event in first]
    assert times == sorted(times)
    assert all(event.recorded_at == event.occurred_at for event in events)
    assert opened.group_opened.deadline == max(times) + 3600 * 1_000_000
    failed = [event for event in steps if event.stream_id.endswith("trial-1")]
    assert failed[2].observation_received.error_code == "tool_error"
    assert failed[5].verification_made.progress == 0.0
    assert [atom.satisfied for atom in failed[5].verification_made.atoms] == [False]


def test_several_calls_of_a_message_are_several_actions(tmp_path: Path) -> None:
    run = tau_bench_run(1, 0)
    run["traj"][2]["content"] = "Both at once."
    run["traj"][2]["tool_calls"].append(call("call_2", "get_user_details", {"user_id": "mia"}))
    result = {"role": "tool", "tool_call_id": "call_2", "name": "x", "content": "{}"}
    run["traj"].insert(4, result)
    events = events_of(read(tmp_path, [run]))
    acted = [e for e in events if e.HasField("action_taken")][:2]
    assert [e.action_taken.tool for e in acted] == ["cancel_reservation", "get_user_details"]
    assert [e.action_taken.text for e in acted] == ["Both at once.", ""]
    observed = [e for e in events if e.HasField("observation_received")]
    assert [e.causation_id for e in observed[:2]] == [e.event_id for e in acted]


def test_the_last_call_may_lack_its_result(tmp_path: Path) -> None:
    run = tau_bench_run(1, 0)
    run["traj"] = run["traj"][:3]
    assert len(events_of(read(tmp_path, [run]))) == 6


def test_content_decides_identities(tmp_path: Path) -> None:
    document = runs_of(3, 2)
    plain = write(tmp_path / "a.json", document)
    packed = write(tmp_path / "renamed.json.gz", document)
    one, two = events_of(tau_bench.read(plain)), events_of(tau_bench.read(packed))
    assert [e.SerializeToString(deterministic=True) for e in one] == [
        e.SerializeToString(deterministic=True) for e in two
    ]
    assert len({event.event_id for event in one}) == len(one)
    other = events_of(read(tmp_path, runs_of(2, 2)))
    groups = {event.group_id for event in one if event.group_id}
    assert groups.isdisjoint(event.group_id for event in other)
    tasks = {event.event_id for event in one if event.HasField("task_specified")}
    assert tasks & {event.event_id for event in other}, "the same task keeps its name"


def test_streams_are_named_before_events_are_built(tmp_path: Path) -> None:
    log = read(tmp_path, runs_of(3, 2))
    assert set(log.streams) == {event.stream_id for event in events_of(log)}
    assert len(log.streams) == 3 + 3 + 6


def test_callers_choices_are_part_of_the_identity(tmp_path: Path) -> None:
    document = runs_of()
    mine = Schedule(
        p_low=0.1,
        p_high=0.5,
        lambda_prog=1,
        lambda_eff=0.2,
        cost_unit=COST_UNIT_TOOL_CALLS,
        cost_budget=10,
    )
    logs = [
        read(tmp_path, document),
        read(tmp_path, document, schedule=mine),
        read(tmp_path, document, policy_version="gpt-9"),
        read(tmp_path, document, split=DATA_SPLIT_DEV),
        read(tmp_path, document, tenant="acme"),
    ]
    groups = [frozenset(e.group_id for e in events_of(log) if e.group_id) for log in logs]
    assert len(set(groups)) == len(logs)
    assert {e.schedule_version for e in events_of(logs[1]) if e.group_id} != {
        e.schedule_version for e in events_of(logs[0]) if e.group_id
    }


Break = Callable[[list[dict[str, Any]]], object]

CONTRADICTIONS: dict[str, tuple[Break, str, str]] = {
    "no reward": (lambda runs: runs[1].pop("reward"), "$[1].reward", "no reward"),
    "reward is null": (lambda runs: runs[1].update(reward=None), "$[1].reward", "no reward"),
    "reward is text": (
        lambda runs: runs[1].update(reward="1.0"),
        "$[1].reward",
        "not a finite number",
    ),
    "reward is true": (
        lambda runs: runs[1].update(reward=True),
        "$[1].reward",
        "not a finite number",
    ),
    "reward is 7": (lambda runs: runs[1].update(reward=7.0), "$[1].reward", "outside [0, 1]"),
    "rewards contradict": (
        lambda runs: runs[0]["info"]["reward_info"].update(reward=0.0),
        "$[0].info.reward_info.reward",
        "where the run says",
    ),
    "success that was never judged": (
        lambda runs: runs[0]["info"].update(reward_info=None),
        "$[0].info.reward_info",
        "absent",
    ),
    "one task id, several tasks": (
        lambda runs: runs[2]["info"]["task"].update(instruction="Something else."),
        "$[2].info.task",
        "differs from the task of $[0]",
    ),
    "a trial twice": (lambda runs: runs[2].update(trial=0), "$[2]", "is also at $[0]"),
    "unequal trials": (lambda runs: runs.pop(), "$", "unequal numbers of trials"),
    "result without call": (
        lambda runs: runs[1]["traj"][3].update(tool_call_id="call_9"),
        "$[1].traj[3]",
        "without its call",
    ),
    "call without result": (
        lambda runs: runs[1]["traj"].pop(3),
        "$[1].traj[2]",
        "call call_1 has no result",
    ),
    "two calls, one id": (
        lambda runs: runs[1]["traj"][2]["tool_calls"].append(call("call_1", "x", {})),
        "$[1].traj[2]",
        "two calls under one id",
    ),
    "empty trajectory": (lambda runs: runs[3].update(traj=[]), "$[3].traj", "empty"),
    "unknown role": (
        lambda runs: runs[0]["traj"][4].update(role="critic"),
        "$[0].traj[4].role",
        "unknown role",
    ),
    "negative trial": (lambda runs: runs[0].update(trial=-1), "$[0].trial", "negative"),
    "another shape": (
        lambda runs: runs[3]["traj"][0].update(content=5),
        "$[3].traj[0].content",
        "Expected `str | null`",
    ),
    "no trajectory": (lambda runs: runs[0].pop("traj"), "$[0]", "missing required field `traj`"),
    "no runs": (lambda runs: runs.clear(), "$", "no runs"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_file_that_contradicts_itself_is_refused_with_the_place(
    name: str, tmp_path: Path
) -> None:
    break_it, where, what = CONTRADICTIONS[name]
    document = runs_of(2, 2)
    break_it(document)
    findings = findings_of(tmp_path, document)
    assert where in findings
    assert what in findings[where]


def test_all_runs_under_one_task_id_are_refused(tmp_path: Path) -> None:
    document = runs_of(4, 1)
    for run in document:
        run["task_id"] = 0
    findings = findings_of(tmp_path, document)
    assert {"$[1]", "$[1].info.task", "$[2].info.task", "$[3].info.task"} <= set(findings)


def test_every_finding_is_counted_and_the_first_hundred_are_listed(tmp_path: Path) -> None:
    document = [run | {"reward": None} for run in runs_of(130, 1)]
    with pytest.raises(ImportRefusedError) as refused:
        read(tmp_path, document)
    assert (len(refused.value.findings), refused.value.more) == (100, 30)
    assert "130 finding(s)" in str(refused.value)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"hello", "not JSON"),
    "empty": (b"", "not JSON"),
    "truncated": (json.dumps(runs_of()).encode()[:-40], "not JSON"),
    "NaN": (json.dumps([tau_bench_run(0, 0, math.nan)]).encode(), "NaN is no JSON number"),
    "lone surrogate": (
        json.dumps([tau_bench_run(0, 0)]).replace("It is", "\\ud83d is").encode(),
        "lone surrogate",
    ),
    "not UTF-8": (json.dumps(runs_of()).encode().replace(b"It is", b"\xff\xfe"), "not JSON"),
    "truncated gzip": (gzip.compress(json.dumps(runs_of()).encode())[:-20], "broken gzip"),
    "corrupt gzip": (b"\x1f\x8b" + b"x" * 40, "broken gzip"),
    "deep": (b"[" * 100_000, "Expected `object`"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    data, what = UNREADABLE[name]
    path = tmp_path / "log.json"
    path.write_bytes(data)
    with pytest.raises(ImportRefusedError, match="refused whole, nothing was sent") as refused:
        tau_bench.read(path)
    assert what in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read none\.json"):
        tau_bench.read(tmp_path / "none.json")


def test_formats_are_recognised_by_content(tmp_path: Path) -> None:
    assert recognise(write(tmp_path / "x.json.gz", runs_of())) == "tau-bench"
    assert recognise(write(tmp_path / "y.json", tau2_results())) == "tau2"
    with pytest.raises(InputError, match="is not a log"):
        recognise(write(tmp_path / "z.json", {"rows": []}))
