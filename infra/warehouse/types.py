"""ClickHouse's names of types, taken apart."""

import re

_NAME = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PART = re.compile(r"'(?:[^'\\]|\\.)*'|[(),]|[^'(),]+", re.DOTALL)
_INTEGER = re.compile(r"(U?)Int(8|16|32|64|128|256)")


def split(type_name: str) -> tuple[str, list[str]]:
    """`Map(String, Array(UInt8))` as `("Map", ["String", "Array(UInt8)"])`."""
    match = _NAME.fullmatch(type_name)
    if match is None:
        raise ValueError(f"not a type: {type_name}")
    return match[1], _arguments(match[2]) if match[2] else []


def _arguments(text: str) -> list[str]:
    arguments = [""]
    depth = 0
    for part in _PART.findall(text):
        depth += (part == "(") - (part == ")")
        if part == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += part
    return [argument.strip() for argument in arguments]


def unwrap(type_name: str) -> tuple[str, bool]:
    """The type without Nullable and LowCardinality, and whether it takes NULL."""
    name, arguments = split(type_name)
    if name not in ("Nullable", "LowCardinality"):
        return type_name, False
    inner, nullable = unwrap(arguments[0])
    return inner, nullable or name == "Nullable"


def integer_range(name: str) -> tuple[int, int] | None:
    """The bounds of an integer type, None for any other."""
    match = _INTEGER.fullmatch(name)
    if match is None:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
