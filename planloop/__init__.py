"""planloop: event-sourced streaming for agents that plan on phones.

The few names that device teams import are loaded when they are asked for, so that the
command line does not pay for them and a device does not pay for the command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from producers.delivery import DeliveryReport
    from producers.device import Device
    from producers.device_episode import Episode
    from producers.outbox import EventRefusedError
    from producers.spool import SpoolFullError

__all__ = ["DeliveryReport", "Device", "Episode", "EventRefusedError", "SpoolFullError"]

_HOMES = {
    "DeliveryReport": "producers.delivery",
    "Device": "producers.device",
    "Episode": "producers.device_episode",
    "EventRefusedError": "producers.outbox",
    "SpoolFullError": "producers.spool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
