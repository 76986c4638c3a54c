"""Columns as given, checked against a table and brought into Arrow: the one way into both adapters.

What ClickHouse or a driver would bend in silence is an InputError here that names table and
column: an integer that does not fit, NULL for a column without NULL, a time without a zone or
outside of the type's range, a column that the table does not have, columns of different length.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.warehouse.protocol import Columns
from infra.warehouse.types import integer_range, split, unwrap
from schemas.errors import InputError

_INTEGERS: dict[str, pa.DataType] = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
}  # fmt: skip
_SCALARS: dict[str, pa.DataType] = {
    "Float32": pa.float32(), "Float64": pa.float64(), "Bool": pa.bool_(),
    "String": pa.binary(), "FixedString": pa.binary(),
    "Date": pa.date32(), "Date32": pa.date32(),
}  # fmt: skip
_TIME_UNITS = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")
MICROSECONDS = pa.timestamp("us", "UTC")
# First and last second, or day, of ClickHouse's types of time.
_DATE_TIME_RANGE = (0, 2**32 - 1)
_DATE_TIME_64_RANGE = (-2_208_988_800, 10_413_791_999)  # 1900-01-01, 2299-12-31
_DATE_RANGES = {"Date": (0, 65_535), "Date32": (-25_567, 120_529)}
_ENUM_NAME = re.compile(r"'((?:[^'\\]|\\.)*)'\s*=")


def to_batch(table: str, types: Mapping[str, str], columns: Columns) -> pa.RecordBatch:
    """One Arrow batch with ClickHouse's `types` (column name to type). Raises InputError."""
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        if name not in types:
            raise InputError(f"{table} has no column {name!r}")
        try:
            arrays[name] = _array(values, types[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{table}.{name} ({types[name]}): {error}") from error
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise InputError(f"{table}: columns of different length: {lengths}")
    return pa.RecordBatch.from_pydict(arrays)


def _array(values: Any, type_name: str) -> pa.Array:
    inner, nullable = unwrap(type_name)
    name, arguments = split(inner)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    elif not isinstance(values, Sequence | np.ndarray | pa.Array):
        values = list(values)
    match name:
        case "Array":
            return _lists(values, arguments[0])
        case "Map":
            return _maps(values, *arguments)
        case "DateTime":
            array = _times(values, *_DATE_TIME_RANGE).cast(pa.timestamp("s", "UTC"), safe=False)
        case "DateTime64":
            unit = pa.timestamp(_TIME_UNITS[int(arguments[0])], "UTC")
            array = _times(values, *_DATE_TIME_64_RANGE).cast(unit, safe=False)
        case "UUID":
            array = pa.array([None if item is None else str(UUID(str(item))) for item in values])
        case "Enum8" | "Enum16":
            array = _enum(values, inner)
        case "Decimal":
            array = _typed(values, pa.decimal128(int(arguments[0]), int(arguments[1])))
        case _ if name in _INTEGERS:
            array = _integers(values, name)
        case _ if name in _SCALARS:
            array = _typed(values, _SCALARS[name])
        case _:
            raise TypeError("planloop does not insert this type")
    if array.null_count and not nullable:
        raise ValueError(f"{array.null_count} NULL for a type without NULL")
    if name == "FixedString":
        _refuse_outside(pc.call_function("binary_length", [array]), 0, int(arguments[0]))
    elif name in _DATE_RANGES:
        _refuse_outside(array.cast(pa.int32()), *_DATE_RANGES[name])
    return array


def _typed(values: Any, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values if values.type == wanted else values.cast(wanted)
    return pa.array(values, type=wanted)


def _integers(values: Any, name: str) -> pa.Array:
    """Integers only: told the type, Arrow would cut floats short without a word."""
    wanted = _INTEGERS[name]
    if not isinstance(values, np.ndarray | pa.Array):
        if any(isinstance(value, float) for value in values):
            raise TypeError("floats where integers are needed")
        return pa.array(values, type=wanted)
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if not (pa.types.is_integer(array.type) or array.null_count == len(array)):
        raise TypeError(f"{array.type} where integers are needed")
    if array.type != wanted:
        _refuse_outside(array, *(integer_range(name) or (0, 0)))
    return array.cast(wanted)


def _times(values: Any, first: int, last: int) -> pa.Array:
    """Aware datetimes, or integers that count UTC microseconds; `first` and `last` in seconds."""
    if isinstance(values, pa.Array) and pa.types.is_timestamp(values.type):
        array = values
    elif any(isinstance(value, datetime) for value in values[:1]) or _after_nulls(values):
        if any(isinstance(value, datetime) and value.tzinfo is None for value in values):
            raise ValueError("a time without a zone; times are UTC")
        array = pa.array(values, type=MICROSECONDS)
    else:
        array = _integers(values, "Int64")
    array = array.cast(MICROSECONDS)
    _refuse_outside(array.cast(pa.int64()), first * 1_000_000, last * 1_000_000 + 999_999)
    return array


def _after_nulls(values: Any) -> bool:
    """Whether the first value that is not None is a datetime."""
    if isinstance(values, pa.Array | np.ndarray) or len(values) == 0 or values[0] is not None:
        return False
    return isinstance(next((value for value in values if value is not None), None), datetime)


def _enum(values: Any, type_name: str) -> pa.Array:
    array = _typed(values, pa.string())
    names = pa.array(_ENUM_NAME.findall(type_name), type=pa.string())
    unknown = set(array.unique().to_pylist()) - set(names.to_pylist()) - {None}
    if unknown:
        raise ValueError(f"no such value: {', '.join(sorted(unknown))}")
    return array


def _lists(values: Any, item_type: str) -> pa.Array:
    if isinstance(values, pa.ListArray | pa.LargeListArray):
        return pa.ListArray.from_arrays(values.offsets, _array(values.values, item_type))
    if any(isinstance(value, str | bytes) for value in values):
        raise TypeError("text where lists are needed")
    items = _array(list(chain.from_iterable(values)), item_type)
    return pa.ListArray.from_arrays(_offsets(values), items)


def _maps(values: Any, key_type: str, item_type: str) -> pa.Array:
    if not all(isinstance(value, Mapping) for value in values):
        raise TypeError("maps are needed")
    keys = _array(list(chain.from_iterable(value.keys() for value in values)), key_type)
    items = _array(list(chain.from_iterable(value.values() for value in values)), item_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items)


def _offsets(values: Any) -> pa.Array:
    return pa.array(accumulate(map(len, values), initial=0), type=pa.int32())


def _refuse_outside(numbers: pa.Array, low: int, high: int) -> None:
    if len(numbers) > numbers.null_count:
        ends = pc.call_function("min_max", [numbers]).as_py()
        if ends["min"] < low or ends["max"] > high:
            raise ValueError(f"{ends['min']}..{ends['max']} is out of range {low}..{high}")
