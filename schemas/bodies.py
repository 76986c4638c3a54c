"""One checking function for each message type, compiled from the descriptors and the rules.

A check runs for every event that enters without an index, so nothing is looked up while
it runs: each message type gets straight-line Python that reads every field once.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message

from schemas.descriptors import descriptor_set
from schemas.refusal_pb2 import (
    REASON_CLOCK_OUT_OF_RANGE,
    REASON_FORBIDDEN_CHARACTER,
    REASON_INTEGER_OUT_OF_RANGE,
    REASON_MISSING_FIELD,
    REASON_NOT_A_NUMBER,
    REASON_NUMBER_OUT_OF_RANGE,
    REASON_TOO_LARGE,
    REASON_UNKNOWN_ENUM,
)
from schemas.rules import (
    ACROSS_FIELDS,
    CONTENT_IDS,
    FINITE_ACROSS_FIELDS,
    IDENTITIES,
    NUMBERS,
    REQUIRED,
    TIMES,
    Refusal,
)

MAX_INTEGER = 2**63 - 1
"""Largest integer anywhere in an event, so that it fits a signed column."""

MAX_IDENTITY_BYTES = 512

Check = Callable[[Any], Refusal | None]

_PACKAGE = "planloop.v1"
_REPEATED = FieldDescriptorProto.LABEL_REPEATED
_FLOATS = (FieldDescriptorProto.TYPE_DOUBLE, FieldDescriptorProto.TYPE_FLOAT)


def missing(name: str) -> Refusal:
    return Refusal(REASON_MISSING_FIELD, f"{name} is not set")


def identity_fault(name: str, value: str) -> Refusal | None:
    """Whether a string may name something: short and without control characters."""
    if len(value) <= MAX_IDENTITY_BYTES and value.isascii() and value.isprintable():
        return None
    if len(value.encode()) > MAX_IDENTITY_BYTES:
        return Refusal(REASON_TOO_LARGE, f"{name} is longer than {MAX_IDENTITY_BYTES} bytes")
    if any(letter < " " for letter in value):
        return Refusal(REASON_FORBIDDEN_CHARACTER, f"{name} {value!r} holds a control character")
    return None


def _identities_fault(name: str, values: Any) -> Refusal | None:
    return next((fault for value in values if (fault := identity_fault(name, value))), None)


def _enum_fault(name: str, value: int) -> Refusal:
    if value == 0:
        return missing(name)
    return Refusal(REASON_UNKNOWN_ENUM, f"{name} {value} is not in this schema")


def _number_fault(name: str, value: float, bound: str = "range") -> Refusal:
    if not math.isfinite(value):
        return Refusal(REASON_NOT_A_NUMBER, f"{name} is {value}")
    return Refusal(REASON_NUMBER_OUT_OF_RANGE, f"{name} {value} is not in {bound}")


def _time_fault(name: str, value: int) -> Refusal:
    return Refusal(REASON_CLOCK_OUT_OF_RANGE, f"{name} {value} is no time from 2010 to 2099")


def integer_fault(name: str, value: int) -> Refusal:
    return Refusal(REASON_INTEGER_OUT_OF_RANGE, f"{name} {value} is beyond 2^63-1")


class _Compiler:
    """Compiles message types, each once, with those that they contain."""

    def __init__(self) -> None:
        files = descriptor_set().file
        self._messages = {m.name: m for file in files for m in file.message_type}
        self._enums = {
            e.name: frozenset(v.number for v in e.value) for file in files for e in file.enum_type
        }
        self._checks: dict[str, Check | None] = {}

    def bodies(self) -> dict[str, Check]:
        return {
            field.name: self._check_of(_short(field.type_name)) or _passes
            for field in self._messages["Event"].field
            if field.HasField("oneof_index")
        }

    def _check_of(self, name: str) -> Check | None:
        """The check of a message type, None where there is nothing to check."""
        if name not in self._checks:
            self._checks[name] = self._compile(self._messages[name])
        return self._checks[name]

    def _compile(self, message: DescriptorProto) -> Check | None:
        names: dict[str, Any] = dict(_NAMES)
        lines: list[str] = []
        for field in message.field:
            path = f"{message.name}.{field.name}"
            if field.type == field.TYPE_MESSAGE:
                nested = self._check_of(_short(field.type_name))
                names[f"check_{field.name}"] = nested
                lines += _message_lines(path, field, nested)
            elif field.type == field.TYPE_ENUM:
                known = self._enums[_short(field.type_name)]
                names[f"known_{field.name}"] = known - {0} if path in REQUIRED else known
                lines += _enum_lines(path, field)
            elif field.type == field.TYPE_STRING:
                lines += _string_lines(path, field)
            else:
                lines += _number_lines(path, field)
        across = ACROSS_FIELDS.get(message.name)
        if across:
            names["across"] = across
            lines.append("return across(message)")
        if not lines:
            return None
        source = "\n    ".join(["def check(message):", *lines])
        exec(source, names)  # noqa: S102  # made from our own descriptors, as dataclasses are
        return names["check"]


def _message_lines(path: str, field: FieldDescriptorProto, nested: Check | None) -> Iterator[str]:
    value = f"message.{field.name}"
    if path in REQUIRED:
        yield f"if not message.HasField({field.name!r}): return missing({path!r})"
    if nested and field.label == _REPEATED:
        yield f"for item in {value}:"
        yield f"    if fault := check_{field.name}(item): return fault"
    elif nested:
        given = "True" if path in REQUIRED else f"message.HasField({field.name!r})"
        yield f"if {given} and (fault := check_{field.name}({value})): return fault"


def _enum_lines(path: str, field: FieldDescriptorProto) -> Iterator[str]:
    value = f"message.{field.name}"
    if field.label == _REPEATED:
        yield f"for item in {value}:"
        yield f"    if item not in known_{field.name}: return enum_fault({path!r}, item)"
    else:
        yield f"if {value} not in known_{field.name}: return enum_fault({path!r}, {value})"


def _string_lines(path: str, field: FieldDescriptorProto) -> Iterator[str]:
    value = f"message.{field.name}"
    if path in REQUIRED:
        yield f"if not {value}: return missing({path!r})"
    if path not in CONTENT_IDS and (path.endswith(("_id", "_ids")) or path in IDENTITIES):
        fault = "identities_fault" if field.label == _REPEATED else "identity_fault"
        yield f"if fault := {fault}({path!r}, {value}): return fault"


def _number_lines(path: str, field: FieldDescriptorProto) -> Iterator[str]:
    value = f"message.{field.name}"
    repeated = field.label == _REPEATED
    if path in TIMES:
        yield f"value = {value}"
        if path in REQUIRED:
            yield f"if not value: return missing({path!r})"
        yield f"if not ({TIMES[path].format('value', 'value')}): return time_fault({path!r}, value)"
    elif path in NUMBERS:
        bound = NUMBERS[path]
        yield f"value = {value}"
        yield f"if not ({bound.format('value')}):"
        yield f"    return number_fault({path!r}, value, {bound.format('x')!r})"
    elif field.type in _FLOATS and repeated:
        # A finite sum has finite terms only.
        if path not in FINITE_ACROSS_FIELDS:
            yield f"value = sum({value})"
            yield f"if not isfinite(value): return number_fault({path!r}, value)"
    elif field.type in _FLOATS:
        yield f"if not isfinite({value}): return number_fault({path!r}, {value})"
    elif field.type == field.TYPE_UINT64:
        yield f"value = max({value}, default=0)" if repeated else f"value = {value}"
        yield f"if value > MAX_INTEGER: return integer_fault({path!r}, value)"


_NAMES: dict[str, Any] = {
    "MAX_INTEGER": MAX_INTEGER,
    "enum_fault": _enum_fault,
    "identities_fault": _identities_fault,
    "identity_fault": identity_fault,
    "inf": math.inf,
    "integer_fault": integer_fault,
    "isfinite": math.isfinite,
    "missing": missing,
    "number_fault": _number_fault,
    "time_fault": _time_fault,
}
"""What compiled checks may call."""


def _short(type_name: str) -> str:
    return type_name.removeprefix(f".{_PACKAGE}.")


def _passes(message: Message) -> None:
    """The check of a body in which anything goes."""


BODY_CHECKS: dict[str, Check] = _Compiler().bodies()
"""The check of each body, by body name."""
