"""`{name:Type}` parameters, written into the statement as literals.

Both adapters render here, so that a statement means the same over HTTP, over the native protocol
and on servers that know no parameters. Every value is checked against its type; text is quoted, so
no value can end its literal.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from infra.warehouse.types import integer_range, split
from schemas.errors import InputError

_PIECE = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/"
    r"|\{\s*(?P<name>\w+)\s*:(?P<type>[^{}]+)\}",
    re.DOTALL,
)
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def render(sql: str, params: Mapping[str, Any] | None) -> str:
    """`sql` with every placeholder outside of strings and comments replaced.

    Raises InputError for a parameter that is missing or does not fit its type.
    """

    def piece(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        if params is None or name not in params:
            raise InputError(f"query parameter {name!r} has no value")
        type_name = match["type"].strip()
        try:
            return literal(params[name], type_name)
        except (TypeError, ValueError) as error:
            raise InputError(f"query parameter {name!r} ({type_name}): {error}") from error

    return _PIECE.sub(piece, sql)


def literal(value: Any, type_name: str) -> str:
    """`value` as SQL of that type. Raises TypeError or ValueError when it does not fit."""
    name, arguments = split(type_name)
    match name:
        case "Nullable":
            return "NULL" if value is None else literal(value, arguments[0])
        case "LowCardinality":
            return literal(value, arguments[0])
        case "Identifier":
            return quote_name(_of(value, str))
        case "String" | "FixedString" | "Enum8" | "Enum16":
            return quote(_of(value, str, bytes))
        case "Float32" | "Float64":
            return repr(float(_of(value, int, float)))
        case "Bool":
            return "true" if _of(value, bool) else "false"
        case "UUID":
            return f"toUUID('{UUID(str(value))}')"
        case "Date" | "Date32":
            return f"to{name}('{_of(value, date).isoformat()}')"
        case "DateTime":
            return f"toDateTime('{_utc(value):%Y-%m-%d %H:%M:%S}', 'UTC')"
        case "DateTime64":
            time = f"{_utc(value):%Y-%m-%d %H:%M:%S.%f}"
            return f"toDateTime64('{time}', {int(arguments[0])}, 'UTC')"
        case "Decimal":
            return f"CAST('{_of(value, Decimal, int)}', '{name}({', '.join(arguments)})')"
        case "Array":
            items = ", ".join(literal(item, arguments[0]) for item in _of(value, list, tuple))
            return f"CAST([{items}], {quote(type_name)})"
        case "Map":
            pairs = [
                f"{literal(key, arguments[0])}, {literal(item, arguments[1])}"
                for key, item in _of(value, dict).items()
            ]
            return f"CAST(map({', '.join(pairs)}), {quote(type_name)})"
        case _:
            return _integer(value, name)


def _integer(value: Any, name: str) -> str:
    bounds = integer_range(name)
    if bounds is None:
        raise TypeError("no literal of this type")
    number = _of(value, int)
    if isinstance(value, bool) or not bounds[0] <= number <= bounds[1]:
        raise ValueError(f"{number} is out of range")
    return str(number) if number >= 0 else f"({number})"


def _of(value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise TypeError(f"{type(value).__name__} where {types[0].__name__} is needed")
    return value


def _utc(value: Any) -> datetime:
    if _of(value, datetime).tzinfo is None:
        raise ValueError("a time without a zone; times are UTC")
    return value.astimezone(UTC)


def quote(text: str | bytes) -> str:
    """A string literal. Bytes are written as digits: a statement is text, and an expression's own
    words are the name of its column."""
    if isinstance(text, bytes):
        return f"unhex('{text.hex()}')"
    return "'" + "".join(_ESCAPES.get(letter, letter) for letter in text) + "'"


def quote_name(name: str) -> str:
    """A database, table or column name that reads back unchanged."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
