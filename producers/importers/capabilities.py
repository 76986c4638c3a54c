"""Which capabilities a task exercises (section 2.3.1 of the report), read off the tools that
its expected actions use.

A task that names no tool still asks for a verified completion, so no task comes out empty.
"""

from collections.abc import Sequence

_READS = ("get_", "search_", "find_", "list_", "check_", "can_", "show_", "run_speed_test")
_COMPUTES = ("calculate", "think")
_HAND_OVER = "transfer_to_human_agents"


def of_expected(tools: Sequence[str]) -> list[str]:
    """Capabilities in the report's order, from the tool names of the expected actions."""
    reads = [tool for tool in tools if tool.startswith(_READS)]
    writes = [t for t in tools if t not in reads and t not in _COMPUTES and t != _HAND_OVER]
    found = {
        "information_acquisition": bool(reads),
        "tool_routing": len(set(tools)) > 1 or _HAND_OVER in tools,
        "argument_grounding": bool(writes),
        "multi_step": len(tools) > 1,
        "state_tracking": len(writes) > 1,
        "recovery": any(tool.startswith(("toggle_", "reset_", "reseat_")) for tool in tools),
    }
    return [name for name, holds in found.items() if holds] + ["verified_completion"]
