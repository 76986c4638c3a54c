"""May this schema be released after that one? The rules are those of WIRE_JSON.

Records live for ever, in binary on the log and as JSON in reports. So a field keeps its
number, type, label and names as long as it lives; when it goes, its number and its name
are reserved and never mean anything else; an enum's zero means "not said".

    python -m schemas.evolution            compare today's schema with the released one
    python -m schemas.evolution --release  make today's schema the released one, if it may
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)

from schemas.descriptors import descriptor_set

RELEASED = Path(__file__).with_name("released.binpb")


def breaking_changes(released: FileDescriptorSet, today: FileDescriptorSet) -> list[str]:
    """What of `today` readers of `released` data would stumble over, one line a finding."""
    findings: list[str] = []
    messages = _messages(today)
    for name, old in _messages(released).items():
        if name in messages:
            findings += _message_changes(name, old, messages[name])
        else:
            findings.append(f"message {name} is gone")
    enums = _enums(today)
    for name, old in _enums(released).items():
        if name in enums:
            findings += _enum_changes(name, old, enums[name])
        else:
            findings.append(f"enum {name} is gone")
    for name, enum in enums.items():
        findings += _zero_faults(name, enum)
    return findings


def _messages(files: FileDescriptorSet) -> dict[str, DescriptorProto]:
    """Every message by its full name, nested ones included."""
    found: dict[str, DescriptorProto] = {}

    def visit(scope: str, message: DescriptorProto) -> None:
        name = f"{scope}.{message.name}"
        found[name] = message
        for nested in message.nested_type:
            visit(name, nested)

    for file in files.file:
        for message in file.message_type:
            visit(file.package, message)
    return found


def _enums(files: FileDescriptorSet) -> dict[str, EnumDescriptorProto]:
    found = {f"{file.package}.{enum.name}": enum for file in files.file for enum in file.enum_type}
    for scope, message in _messages(files).items():
        found |= {f"{scope}.{enum.name}": enum for enum in message.enum_type}
    return found


def _message_changes(scope: str, old: DescriptorProto, new: DescriptorProto) -> Iterator[str]:
    by_number = {field.number: field for field in new.field}
    by_name = {field.name: field for field in new.field}
    for field in old.field:
        name = f"{scope}.{field.name}"
        same_name = by_name.get(field.name)
        if same_name is not None and same_name.number != field.number:
            yield f"{name} was number {field.number} and is now {same_name.number}"
        elif same_name is not None:
            yield from _field_changes(name, (old, field), (new, same_name))
        elif field.number in by_number:
            yield f"{name}: its number {field.number} is now {by_number[field.number].name}"
        else:
            yield from _unreserved(name, field.name, field.number, new, last_included=0)
    for kept in old.reserved_range:
        for number in set(range(kept.start, kept.end)) & set(by_number):
            yield f"{scope}.{by_number[number].name} takes the reserved number {number}"
        if not _covered(kept.start, kept.end - 1, new, last_included=0):
            yield f"{scope}: numbers {kept.start} to {kept.end - 1} are no longer reserved"
    for kept in set(old.reserved_name) - set(new.reserved_name):
        yield f"{scope}: the name {kept} is no longer reserved"


def _field_changes(
    name: str,
    old: tuple[DescriptorProto, FieldDescriptorProto],
    new: tuple[DescriptorProto, FieldDescriptorProto],
) -> Iterator[str]:
    """What changed in a field that kept name and number."""
    was, now = _traits(*old), _traits(*new)
    for trait, value in was.items():
        if value != now[trait]:
            yield f"{name}: {trait} was {value or 'none'} and is now {now[trait] or 'none'}"


def _traits(message: DescriptorProto, field: FieldDescriptorProto) -> dict[str, str]:
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    return {
        "type": field.type_name or kind,
        "label": label,
        "presence": "explicit" if field.proto3_optional else "",
        "JSON name": field.json_name,
        "oneof": message.oneof_decl[field.oneof_index].name if in_oneof else "",
    }


def _enum_changes(scope: str, old: EnumDescriptorProto, new: EnumDescriptorProto) -> Iterator[str]:
    by_name = {value.name: value.number for value in new.value}
    numbers = set(by_name.values())
    for value in old.value:
        name = f"{scope}.{value.name}"
        if value.name in by_name:
            if by_name[value.name] != value.number:
                yield f"{name} was number {value.number} and is now {by_name[value.name]}"
        elif value.number in numbers:
            yield f"{name}: its number {value.number} now has another name"
        else:
            yield from _unreserved(name, value.name, value.number, new, last_included=1)
    for kept in old.reserved_range:
        if not _covered(kept.start, kept.end, new, last_included=1):
            yield f"{scope}: numbers {kept.start} to {kept.end} are no longer reserved"
    for kept in set(old.reserved_name) - set(new.reserved_name):
        yield f"{scope}: the name {kept} is no longer reserved"


def _unreserved(
    name: str,
    short: str,
    number: int,
    new: DescriptorProto | EnumDescriptorProto,
    *,
    last_included: int,
) -> Iterator[str]:
    if not _covered(number, number, new, last_included=last_included):
        yield f"{name} is gone but its number {number} is not reserved"
    if short not in new.reserved_name:
        yield f"{name} is gone but its name is not reserved"


def _covered(
    first: int, last: int, new: DescriptorProto | EnumDescriptorProto, *, last_included: int
) -> bool:
    """Whether one reserved range holds first to last. Descriptors give the end of a message's
    range as the number after it, and of an enum's as the last one in it (`last_included`)."""
    return any(
        kept.start <= first and last < kept.end + last_included for kept in new.reserved_range
    )


def _zero_faults(name: str, enum: EnumDescriptorProto) -> Iterator[str]:
    zero = next((value.name for value in enum.value if value.number == 0), "missing")
    if not zero.endswith("_UNSPECIFIED"):
        yield f"{name}: the zero value is {zero}, not *_UNSPECIFIED"


def main(arguments: list[str]) -> int:
    """Exit status: 0 nothing breaks, 1 something does, 2 wrong usage."""
    if arguments not in ([], ["--release"]):
        sys.stderr.write("usage: python -m schemas.evolution [--release]\n")
        return 2
    today = descriptor_set()
    findings = breaking_changes(FileDescriptorSet.FromString(RELEASED.read_bytes()), today)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    if findings:
        return 1
    if arguments:
        RELEASED.write_bytes(today.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
