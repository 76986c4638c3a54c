"""Where two messages differ: the first field, in the order of the schema, and both values."""

import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

_SHOWN = 80


def first_difference(recorded: Message, derived: Message) -> str:
    """One line for people: "group_scored.members[1].reward: recorded 3ff0000000000000 (1.0),
    derived ...". Floats are told apart by their bits as a float64, big-endian hex."""
    for line in _differences(recorded, derived, ""):
        return line
    return "unknown fields"


def _differences(recorded: Message, derived: Message, path: str) -> Iterator[str]:
    for field in recorded.DESCRIPTOR.fields:
        name = f"{path}{field.name}"
        one, other = getattr(recorded, field.name), getattr(derived, field.name)
        if field.is_repeated:
            if len(one) != len(other):
                yield f"{name}: recorded {len(one)} items, derived {len(other)}"
            for index, (left, right) in enumerate(zip(one, other, strict=False)):
                yield from _different_values(left, right, f"{name}[{index}]")
            continue
        there = not field.has_presence or recorded.HasField(field.name)
        here = not field.has_presence or derived.HasField(field.name)
        if there != here:
            values = (_shown(one) if there else "nothing", _shown(other) if here else "nothing")
            yield f"{name}: recorded {values[0]}, derived {values[1]}"
        elif there:
            yield from _different_values(one, other, name)


def _different_values(recorded: Any, derived: Any, name: str) -> Iterator[str]:
    if isinstance(recorded, Message):
        yield from _differences(recorded, derived, f"{name}.")
    elif isinstance(recorded, float):
        if not same_bits(recorded, derived):
            yield f"{name}: recorded {bits(recorded)}, derived {bits(derived)}"
    elif recorded != derived:
        yield f"{name}: recorded {_shown(recorded)}, derived {_shown(derived)}"


def same_bits(one: float, other: float) -> bool:
    """Whether two float64 are the same number bit for bit (0.0 and -0.0 are not)."""
    return struct.pack(">d", one) == struct.pack(">d", other)


def bits(value: float) -> str:
    """A float64 as its sixteen hex digits and its decimal value."""
    return f"{struct.pack('>d', value).hex()} ({value!r})"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return bits(value)
    text = f"a {value.DESCRIPTOR.name}" if isinstance(value, Message) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
