"""Small result files of the two formats, correct to begin with; tests then break them."""

import gzip
import json
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[3] / "shared" / "data"
AIRLINE = SHARED / "tau-bench" / "gpt-4o-airline.json.gz"
TAU2 = sorted((SHARED / "tau2-bench" / "results").glob("*.json.gz"))

Document = Any


def call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def tau_bench_run(task_id: int, trial: int, reward: float = 1.0) -> dict[str, Any]:
    """A run of one tool call that is the expected one where the reward is 1."""
    wanted = {"reservation_id": f"R{task_id}"}
    done = wanted if reward == 1 else {"reservation_id": "other"}
    actions = [{"name": "cancel_reservation", "kwargs": wanted}]
    return {
        "task_id": task_id,
        "trial": trial,
        "reward": reward,
        "info": {
            "task": {
                "user_id": "mia",
                "instruction": f"Cancel R{task_id}.",
                "actions": actions,
                "outputs": [],
            },
            "source": "user",
            "user_cost": 0.1,
            "reward_info": {"reward": reward, "info": {"r_actions": reward}, "actions": actions},
        },
        "traj": [
            {"role": "system", "content": "As an airline agent, you can help."},
            {"role": "user", "content": "Please cancel my trip."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("call_1", "cancel_reservation", done)],
            },
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "name": "cancel_reservation",
                "content": "done" if reward == 1 else "Error: reservation not found",
            },
            {"role": "assistant", "content": "It is cancelled."},
            {"role": "user", "content": "###STOP###"},
        ],
    }


def tau_bench(tasks: int = 2, trials: int = 2) -> list[dict[str, Any]]:
    return [
        tau_bench_run(task, trial, float((task + trial) % 2 == 0))
        for trial in range(trials)
        for task in range(tasks)
    ]


def tau2(tasks: int = 2, trials: int = 2) -> dict[str, Any]:
    return {
        "timestamp": "2025-08-01T16:00:00",
        "info": {
            "git_commit": "b02b509367e8436f956c334741ac7cf7c9f5dabe",
            "num_trials": trials,
            "agent_info": {"implementation": "llm_agent", "llm": "gpt-4.1"},
            "user_info": {"implementation": "user_simulator", "llm": "gpt-4.1"},
            "environment_info": {"domain_name": "telecom", "policy": "Be helpful."},
        },
        "tasks": [_tau2_task(task) for task in range(tasks)],
        "simulations": [
            tau2_simulation(task, trial) for task in range(tasks) for trial in range(trials)
        ],
    }


def _tau2_task(number: int) -> dict[str, Any]:
    return {
        "id": f"[mobile_data]task {number}",
        "user_scenario": {"instructions": {"domain": "telecom", "reason_for_call": "No data."}},
        "ticket": None,
        "initial_state": {"roaming": False},
        "evaluation_criteria": {
            "actions": [_tau2_action()],
            "env_assertions": [{"func_name": "assert_data", "arguments": {"on": True}}],
            "communicate_info": ["roaming"],
            "nl_assertions": ["Agent is polite."],
            "reward_basis": ["DB", "ENV_ASSERTION"],
        },
    }


def _tau2_action() -> dict[str, Any]:
    return {
        "action_id": "enable_roaming_0",
        "requestor": "assistant",
        "name": "enable_roaming",
        "arguments": {"line": "L1", "note": "x"},
        "compare_args": ["line"],
    }


def tau2_simulation(task: int, trial: int, reward: float = 1.0) -> dict[str, Any]:
    """The agent greets, the user looks at the phone, the agent makes two calls in one message."""
    held = reward == 1
    at = iter(range(60))

    def message(role: str, **fields: Any) -> dict[str, Any]:
        return {"role": role, "timestamp": f"2025-08-01T16:24:{next(at):02d}.5"} | fields

    def tool_call(call_id: str, name: str, arguments: dict[str, Any], by: str) -> dict[str, Any]:
        return {"id": call_id, "name": name, "arguments": arguments, "requestor": by}

    return {
        "id": f"{task}-{trial}",
        "task_id": f"[mobile_data]task {task}",
        "trial": trial,
        "seed": 300,
        "start_time": "2025-08-01T16:24:00",
        "end_time": "2025-08-01T16:25:00.25",
        "termination_reason": "user_stop",
        "reward_info": {
            "reward": reward,
            "db_check": {"db_match": held},
            "action_checks": [{"action": _tau2_action(), "action_match": held}],
            "env_assertions": [
                {
                    "env_assertion": {"func_name": "assert_data", "arguments": {"on": True}},
                    "met": held,
                }
            ],
            "nl_assertions": [{"nl_assertion": "Agent is polite.", "met": True}],
            "communicate_checks": None,
            "reward_basis": ["DB", "ENV_ASSERTION"],
            "reward_breakdown": {"DB": reward, "ENV_ASSERTION": reward},
        },
        "messages": [
            message("assistant", content="Hi! How can I help you today?", usage=None),
            message("user", content="My data is off.", usage={"completion_tokens": 7}),
            message(
                "assistant",
                content="Look at the status bar.",
                usage={"completion_tokens": 21, "prompt_tokens": 5},
            ),
            message("user", content=None, tool_calls=[tool_call("u1", "check_bar", {}, "user")]),
            message("tool", id="u1", requestor="user", content="no service", error=False),
            message("user", content="It says no service."),
            message(
                "assistant",
                content="One moment.",
                usage={"completion_tokens": 40, "prompt_tokens": 9},
                tool_calls=[
                    tool_call("a1", "enable_roaming", {"line": "L1", "note": "y"}, "assistant"),
                    tool_call("a2", "get_line", {"line": "L1"}, "assistant"),
                ],
            ),
            message("tool", id="a1", requestor="assistant", content="on", error=False),
            message("tool", id="a2", requestor="assistant", content="no such line", error=True),
            message("assistant", content="Done.", usage={"completion_tokens": 4}),
            message("user", content="###STOP###"),
        ],
    }


def write(path: Path, document: Document) -> Path:
    """Write a document as JSON, packed where the name says so."""
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
