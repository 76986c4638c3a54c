"""Decoded events to columns of the warehouse's tables. Pure: no clock, no I/O.

A row holds what its event says and nothing about when or how often it was written, so
that writing it again changes nothing. `version` alone depends on the log: the earlier
copy of an event has the higher one, and the warehouse keeps the highest.

Events are grouped by body first; the rows of a block come in that order.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from consumers.plain import Column, PlainReader, message_of, plain_name
from consumers.tables import BODY_TABLES, ENVELOPE, EVENT_TABLE, HOT, TEXTS, BodyTable
from schemas.descriptors import POOL
from schemas.event_pb2 import Event
from schemas.rules import CLOCK_UNTIL
from schemas.topics import BODIES, BODY_NAMES
from schemas.validation import Vetted

Columns = dict[str, pa.Array]
"""A table's part of a block: Arrow arrays of one length by column name."""

_POSITION_BITS, _PARTITION_BITS = 18, 6
_HIGHEST = (1 << 64) - 1


def versions(partition: int, offset: int, events: int) -> range:
    """Row versions of a record's events in order: the earlier on the log, the higher.

    64 bits: offset (40), position in the record (18), partition (6). The partition only
    breaks ties between events that claim one identity under two keys.
    """
    step = 1 << _PARTITION_BITS
    first = _HIGHEST - ((offset << _POSITION_BITS + _PARTITION_BITS) | partition % step)
    return range(first, first - events * step, -step)


def rows(
    events: Sequence[Event], vetted: Sequence[Vetted], version: Sequence[int]
) -> dict[str, Columns]:
    """The columns that events add to each table; tables without a row are left out.

    `vetted` is what the edge's check read of each event, `version` its row version.
    """
    read = _Read(*zip(*vetted, strict=True))
    places = _by_body(read.number)
    order = list(chain.from_iterable(places.values()))
    envelope = _envelope(events, read, order)
    envelope["version"] = pa.array(np.array(version, np.uint64)[order])
    block: dict[str, Columns] = {}
    parts: list[Columns] = []
    start = 0
    for number, at in places.items():
        body = BODY_NAMES[number]
        plain = _READERS[body].columns([read.body[place] for place in at])
        parts.append(_event_part(body, plain, len(at)))
        for table in _TABLES_OF.get(body, ()):
            own = {name: array.slice(start, len(at)) for name, array in envelope.items()}
            block[table.name] = table.columns(own, plain)
        start += len(at)
    columns = {name: envelope[field] for name, field in ENVELOPE.items()}
    columns |= {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
    block[EVENT_TABLE] = columns | {"version": envelope["version"]}
    return block


class _Read(NamedTuple):
    """Vetted events by column."""

    stream_id: Sequence[str]
    seq: Sequence[int]
    tenant: Sequence[str]
    occurred_at: Sequence[int]
    number: Sequence[int]
    body: Sequence[Message]


def _by_body(numbers: Sequence[int]) -> dict[int, list[int]]:
    """The places of each body, bodies in the order of their first event."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, number in enumerate(numbers):
        places[number].append(place)
    return places


class _ArrowType:
    """Arrow arrays for the plain values of one field."""

    def __init__(self, field: FieldDescriptor, column: str) -> None:
        scalar = _ARROW_TYPES[field.type]
        self.type: pa.DataType = pa.list_(scalar) if field.is_repeated else scalar
        self.default: Any = "" if scalar == pa.string() else field.default_value
        self._repeated = field.is_repeated
        self._time = column.endswith("_at")

    def array(self, values: Column) -> pa.Array:
        if self._time:
            return times(values)
        if self._repeated:
            values = [items or () for items in values]
        return pa.array(values, self.type)


def times(values: Column) -> pa.Array:
    """UTC microseconds as timestamps; what is no time (0, or beyond the edge's clock) is null."""
    numbers = np.fromiter(values, np.int64, len(values))
    unknown = (numbers <= 0) | (numbers >= CLOCK_UNTIL)
    return pa.array(numbers.view("datetime64[us]"), mask=unknown if unknown.any() else None)


_ARROW_TYPES: dict[int, pa.DataType] = {
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_ENUM: pa.string(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
}


def _field(descriptor: Descriptor, path: str) -> FieldDescriptor:
    """The field at the end of a dotted path."""
    *parents, name = path.split(".")
    for parent in parents:
        descriptor = message_of(descriptor.fields_by_name[parent])
    return descriptor.fields_by_name[name]


class _Picker:
    """Columns of a table, each from a path in plain values."""

    def __init__(self, descriptor: Descriptor, columns: Mapping[str, str]) -> None:
        self._columns = [
            (name, path.split("."), _ArrowType(_field(descriptor, path), name))
            for name, path in columns.items()
        ]

    def pick(self, plain: Mapping[str, Column]) -> Columns:
        picked: Columns = {}
        for name, (head, *rest), arrow in self._columns:
            values = plain[head]
            for attribute in rest:
                values = [
                    arrow.default if value is None else getattr(value, attribute)
                    for value in values
                ]
            picked[name] = arrow.array(values)
        return picked


class _TableRows:
    """A body table, compiled: envelope arrays and plain values of its body in, columns out."""

    def __init__(self, table: BodyTable) -> None:
        self.name = table.name
        self._envelope = table.envelope
        body = message_of(_FIELDS[table.body])
        self._own = _Picker(body, table.columns)
        self._each = table.each
        if table.each:
            self._item = message_of(body.fields_by_name[table.each])
            self._items = _Picker(self._item, table.items)

    def columns(self, envelope: Columns, plain: Mapping[str, Column]) -> Columns:
        own = {name: envelope[field] for name, field in self._envelope.items()}
        own["version"] = envelope["version"]
        own |= self._own.pick(plain)
        if not self._each:
            return own
        lists = [items or () for items in plain[self._each]]
        parent = pa.array(np.repeat(np.arange(len(lists)), [len(items) for items in lists]))
        structs = list(chain.from_iterable(lists))
        items = {
            name: [getattr(item, name) for item in structs]
            for name in map(plain_name, self._item.fields)
        }
        columns = {name: array.take(parent) for name, array in own.items()}
        columns["position"] = pa.array(
            chain.from_iterable(map(range, map(len, lists))), pa.uint32()
        )
        return columns | self._items.pick(items)


_EVENT: Descriptor = POOL.FindMessageTypeByName("planloop.v1.Event")
_FIELDS = {name: _field(_EVENT, name) for name in BODIES}
_READERS = {name: PlainReader(message_of(field)) for name, field in _FIELDS.items()}
_TABLES_OF = {
    name: [_TableRows(table) for table in BODY_TABLES if table.body == name] for name in BODIES
}

_VETTED_FIELDS = ("stream_id", "seq", "tenant", "occurred_at")
_UNREAD_FIELDS = sorted(
    {*ENVELOPE.values(), *chain.from_iterable(table.envelope.values() for table in BODY_TABLES)}
    - set(_VETTED_FIELDS)
)
_read_envelope = attrgetter(*_UNREAD_FIELDS)
_ENVELOPE_TYPES = {
    name: _ArrowType(_field(_EVENT, name), name) for name in (*_VETTED_FIELDS, *_UNREAD_FIELDS)
}


def _envelope(events: Sequence[Event], read: _Read, order: Sequence[int]) -> Columns:
    """Arrays of the events' envelopes in the given order, by field."""
    vetted = [list(map(getattr(read, name).__getitem__, order)) for name in _VETTED_FIELDS]
    unread = zip(*map(_read_envelope, map(events.__getitem__, order)), strict=True)
    columns = zip(_ENVELOPE_TYPES.items(), chain(vetted, unread), strict=True)
    return {name: arrow.array(values) for (name, arrow), values in columns}


_HOT_TYPES = {
    column: _ArrowType(_field(message_of(_FIELDS[body]), path), column).type
    for body, columns in HOT.items()
    for column, path in columns.items()
}


def _event_part(body: str, plain: Mapping[str, Column], rows: int) -> Columns:
    """What the rows of one body have in `event_facts` beside the envelope."""
    hot = HOT.get(body, {})
    part: Columns = {"kind": pa.repeat(pa.scalar(body), rows)}
    for column, arrow in _HOT_TYPES.items():
        if column in hot:
            part[column] = pa.array(plain[hot[column]], arrow)
        elif arrow == pa.string():
            part[column] = pa.repeat(pa.scalar(""), rows)
        else:
            part[column] = pa.nulls(rows, arrow)
    lengths = np.zeros(rows, np.uint32)
    for name in TEXTS.get(body, ()):
        lengths += np.fromiter(map(len, plain[name]), np.uint32, rows)
    part["text_length"] = pa.array(lengths)
    part["body"] = pa.array(_READERS[body].json(plain), pa.binary())
    return part
