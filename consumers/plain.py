"""Event bodies as plain values, column by column, with readers compiled from the descriptors.

Reading a protobuf field from Python costs more than everything that is then done with
it, so each field of a body is read once, for a whole block of messages at a time, and
both the typed columns and the JSON text are made from that one reading.

In plain values an enum is its name in lower case without the type's prefix ("tool_call"),
an unset optional field is None, a nested message is a struct, and what would be bulk is
its size: `bytes` become `<name>_bytes`, token ids `<name>_count`. Log-probabilities, of
which there is one for each token id, are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import msgspec
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

Column = Sequence[Any]
_Convert = Callable[[Sequence[Message], Column], Column]

_TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_ENUM)


class EnumNames(dict[int, str]):
    """Number to plain name. A number that the schema does not know is its own name."""

    def __init__(self, enum: EnumDescriptor) -> None:
        prefix = _prefix(enum)
        super().__init__(
            (value.number, "" if value.number == 0 else value.name.removeprefix(prefix).lower())
            for value in enum.values
        )

    def __missing__(self, number: int) -> str:
        return str(number)


def _prefix(enum: EnumDescriptor) -> str:
    """What all value names start with: the enum's own name, as the zero value spells it."""
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


def plain_name(field: FieldDescriptor) -> str:
    """What a field is called among plain values."""
    if field.is_repeated:
        return f"{field.name}_count" if _is_bulk(field) else field.name
    return f"{field.name}_bytes" if field.type == FieldDescriptor.TYPE_BYTES else field.name


def message_of(field: FieldDescriptor) -> Descriptor:
    """The type of a message field."""
    message = field.message_type
    if message is None:
        raise TypeError(f"{field.full_name} holds no message")
    return message


class PlainReader:
    """Reads messages of one type. Compiled once; `columns` and `json` are what runs per block."""

    def __init__(self, descriptor: Descriptor) -> None:
        fields = [field for field in descriptor.fields if not _is_logprobs(field)]
        self.names = tuple(plain_name(field) for field in fields)
        self._get = attrgetter(*(field.name for field in fields))
        self._single = len(fields) == 1
        self._converts = [
            (at, convert) for at, field in enumerate(fields) if (convert := _converter(field))
        ]
        self._struct = msgspec.defstruct(
            descriptor.name,
            [
                (name, Any, "" if _is_text(field) else None)
                for name, field in zip(self.names, fields, strict=True)
            ],
            omit_defaults=True,
            frozen=True,
        )

    def columns(self, messages: Sequence[Message]) -> dict[str, Column]:
        """Plain values by name, each as long as `messages`, which must not be empty."""
        rows = map(self._get, messages)
        columns: list[Column] = [list(rows)] if self._single else list(zip(*rows, strict=True))
        for at, convert in self._converts:
            columns[at] = convert(messages, columns[at])
        return dict(zip(self.names, columns, strict=True))

    def structs(self, columns: Mapping[str, Column]) -> list[msgspec.Struct]:
        """The rows of `columns` as structs with an attribute for each name."""
        return list(map(self._struct, *columns.values()))

    def json(self, columns: Mapping[str, Column]) -> list[bytes]:
        """One JSON object a row. Numbers and booleans are always there and exact; texts, lists
        and messages only where they are not empty."""
        return list(map(_encode, map(self._struct, *columns.values())))


_encode = msgspec.json.Encoder().encode


def _is_bulk(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.type == FieldDescriptor.TYPE_UINT32


def _is_logprobs(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.type == FieldDescriptor.TYPE_FLOAT


def _is_text(field: FieldDescriptor) -> bool:
    return field.type in _TEXT and not field.is_repeated


def _converter(field: FieldDescriptor) -> _Convert | None:
    """How the raw column of a field becomes plain; None where it is plain as it is."""
    if _is_bulk(field):
        return lambda _, column: [len(values) or None for values in column]
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _message_converter(field)
    if field.enum_type is not None:
        names = EnumNames(field.enum_type)
        return lambda _, column: [names[number] for number in column]
    if field.is_repeated:
        return lambda _, column: [list(values) or None for values in column]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda _, column: [len(value) or None for value in column]
    if field.has_presence:
        name = field.name
        return lambda messages, column: [
            None if not value and not message.HasField(name) else value
            for message, value in zip(messages, column, strict=True)
        ]
    return None


def _message_converter(field: FieldDescriptor) -> _Convert:
    reader = PlainReader(message_of(field))
    name = field.name

    def plain(messages: Sequence[Message]) -> list[msgspec.Struct]:
        return reader.structs(reader.columns(messages)) if messages else []

    def repeated(_: Sequence[Message], column: Column) -> Column:
        counts = [len(values) for values in column]
        items = iter(plain(list(chain.from_iterable(column))))
        return [list(islice(items, count)) or None for count in counts]

    def optional(messages: Sequence[Message], column: Column) -> Column:
        present = [message.HasField(name) for message in messages]
        found = iter(plain([value for value, there in zip(column, present, strict=True) if there]))
        return [next(found) if there else None for there in present]

    return repeated if field.is_repeated else optional
