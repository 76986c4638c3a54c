"""What may change in a released schema: one mutated copy of a small schema for each rule."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)

from schemas.descriptors import descriptor_set
from schemas.evolution import RELEASED, breaking_changes

_F = FieldDescriptorProto


def _schema() -> FileDescriptorSet:
    """message Step { string name = 1; uint32 count = 2; oneof what { string a = 3; string b = 4; }
    optional uint32 told = 5; reserved 8 to 9; reserved "gone"; message Inner { Kind kind = 1; } }
    enum Kind { KIND_UNSPECIFIED = 0; KIND_A = 1; KIND_B = 2; reserved 7; reserved "KIND_OLD"; }"""
    files = FileDescriptorSet()
    file = files.file.add(name="t.proto", package="t", syntax="proto3")
    step = file.message_type.add(name="Step")

    def field(name: str, number: int, kind: int = _F.TYPE_STRING, **more: object) -> None:
        step.field.add(
            name=name, number=number, type=kind, label=_F.LABEL_OPTIONAL, json_name=name, **more
        )

    field("name", 1)
    field("count", 2, _F.TYPE_UINT32)
    field("a", 3, oneof_index=0)
    field("b", 4, oneof_index=0)
    field("told", 5, _F.TYPE_UINT32, oneof_index=1, proto3_optional=True)
    step.oneof_decl.add(name="what")
    step.oneof_decl.add(name="_told")
    step.reserved_range.add(start=8, end=10)
    step.reserved_name.append("gone")
    inner = step.nested_type.add(name="Inner")
    inner.field.add(
        name="kind", number=1, type=_F.TYPE_ENUM, type_name=".t.Kind", label=_F.LABEL_OPTIONAL
    )
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("KIND_UNSPECIFIED", "KIND_A", "KIND_B")):
        kind.value.add(name=name, number=number)
    kind.reserved_range.add(start=7, end=7)
    kind.reserved_name.append("KIND_OLD")
    return files


Change = Callable[[DescriptorProto, EnumDescriptorProto], object]


def _after(change: Change) -> list[str]:
    today = _schema()
    change(today.file[0].message_type[0], today.file[0].enum_type[0])
    return breaking_changes(_schema(), today)


def _remove_count(step: DescriptorProto, *, number: bool, name: bool) -> None:
    del step.field[1]
    if number:
        step.reserved_range.add(start=2, end=3)
    if name:
        step.reserved_name.append("count")


def _remove_kind(kind: EnumDescriptorProto, *, number: bool, name: bool) -> None:
    del kind.value[2]
    if number:
        kind.reserved_range.add(start=2, end=2)
    if name:
        kind.reserved_name.append("KIND_B")


def _add(step: DescriptorProto, number: int) -> None:
    step.field.add(name="new", number=number, type=_F.TYPE_BOOL, label=_F.LABEL_OPTIONAL)


def _leave_oneof(step: DescriptorProto) -> None:
    step.field[3].ClearField("oneof_index")


def _make_told_implicit(step: DescriptorProto) -> None:
    step.field[4].ClearField("oneof_index")
    step.field[4].ClearField("proto3_optional")
    del step.oneof_decl[1]


ALLOWED: dict[str, Change] = {
    "nothing": lambda step, kind: None,
    "a new field": lambda step, kind: _add(step, 20),
    "a new enum value": lambda step, kind: kind.value.add(name="KIND_C", number=3),
    "a field goes, reserved": lambda step, kind: _remove_count(step, number=True, name=True),
    "a value goes, reserved": lambda step, kind: _remove_kind(kind, number=True, name=True),
    "order in the file": lambda step, kind: step.field.sort(key=lambda field: -field.number),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED)
def test_what_may_change(change: Change) -> None:
    assert _after(change) == []


FORBIDDEN: dict[str, tuple[Change, str]] = {
    "renumbered": (
        lambda step, kind: setattr(step.field[0], "number", 30),
        "t.Step.name was number 1 and is now 30",
    ),
    "renamed": (
        lambda step, kind: setattr(step.field[0], "name", "title"),
        "t.Step.name: its number 1 is now title",
    ),
    "type": (
        lambda step, kind: setattr(step.field[1], "type", _F.TYPE_SINT32),
        "t.Step.count: type was uint32 and is now sint32",
    ),
    "label": (
        lambda step, kind: setattr(step.field[0], "label", _F.LABEL_REPEATED),
        "t.Step.name: label was optional and is now repeated",
    ),
    "JSON name": (
        lambda step, kind: setattr(step.field[0], "json_name", "Name"),
        "t.Step.name: JSON name was name and is now Name",
    ),
    "into a oneof": (
        lambda step, kind: setattr(step.field[1], "oneof_index", 0),
        "t.Step.count: oneof was none and is now what",
    ),
    "out of a oneof": (
        lambda step, kind: _leave_oneof(step),
        "t.Step.b: oneof was what and is now none",
    ),
    "presence": (
        lambda step, kind: _make_told_implicit(step),
        "t.Step.told: presence was explicit and is now none",
    ),
    "number not reserved": (
        lambda step, kind: _remove_count(step, number=False, name=True),
        "t.Step.count is gone but its number 2 is not reserved",
    ),
    "name not reserved": (
        lambda step, kind: _remove_count(step, number=True, name=False),
        "t.Step.count is gone but its name is not reserved",
    ),
    "reserved number taken": (
        lambda step, kind: _add(step, 8),
        "t.Step.new takes the reserved number 8",
    ),
    "reservation of a name dropped": (
        lambda step, kind: step.ClearField("reserved_name"),
        "t.Step: the name gone is no longer reserved",
    ),
    "reservation of numbers dropped": (
        lambda step, kind: step.ClearField("reserved_range"),
        "t.Step: numbers 8 to 9 are no longer reserved",
    ),
    "nested message removed": (
        lambda step, kind: step.ClearField("nested_type"),
        "message t.Step.Inner is gone",
    ),
    "enum type of a field": (
        lambda step, kind: setattr(step.nested_type[0].field[0], "type_name", ".t.Other"),
        "t.Step.Inner.kind: type was .t.Kind and is now .t.Other",
    ),
    "enum renamed": (
        lambda step, kind: setattr(kind, "name", "Sort"),
        "enum t.Kind is gone",
    ),
    "enum value renumbered": (
        lambda step, kind: setattr(kind.value[2], "number", 5),
        "t.Kind.KIND_B was number 2 and is now 5",
    ),
    "enum value renamed": (
        lambda step, kind: setattr(kind.value[2], "name", "KIND_Z"),
        "t.Kind.KIND_B: its number 2 now has another name",
    ),
    "enum number not reserved": (
        lambda step, kind: _remove_kind(kind, number=False, name=True),
        "t.Kind.KIND_B is gone but its number 2 is not reserved",
    ),
    "enum name not reserved": (
        lambda step, kind: _remove_kind(kind, number=True, name=False),
        "t.Kind.KIND_B is gone but its name is not reserved",
    ),
    "enum reservation of a number dropped": (
        lambda step, kind: kind.ClearField("reserved_range"),
        "t.Kind: numbers 7 to 7 are no longer reserved",
    ),
    "enum reservation of a name dropped": (
        lambda step, kind: kind.ClearField("reserved_name"),
        "t.Kind: the name KIND_OLD is no longer reserved",
    ),
    "zero means something": (
        lambda step, kind: setattr(kind.value[0], "name", "KIND_NONE"),
        "t.Kind: the zero value is KIND_NONE, not *_UNSPECIFIED",
    ),
}


@pytest.mark.parametrize(("change", "finding"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_must_not_change(change: Change, finding: str) -> None:
    assert finding in _after(change)


def test_a_message_may_not_go_and_a_new_enum_starts_with_unspecified() -> None:
    today = _schema()
    del today.file[0].message_type[:]
    today.file[0].enum_type.add(name="New").value.add(name="NEW_FIRST", number=0)
    assert breaking_changes(_schema(), today) == [
        "message t.Step is gone",
        "message t.Step.Inner is gone",
        "t.New: the zero value is NEW_FIRST, not *_UNSPECIFIED",
    ]


def test_todays_schema_may_follow_the_released_one() -> None:
    released = FileDescriptorSet.FromString(RELEASED.read_bytes())
    assert breaking_changes(released, descriptor_set()) == []


def test_the_command_says_so_too() -> None:
    command = [sys.executable, "-m", "schemas.evolution"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    done = subprocess.run([*command, "--wrong"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


def test_what_a_newer_schema_added_survives_a_reader_of_the_old_one() -> None:
    newer = _schema()
    _add(newer.file[0].message_type[0], 20)
    new, old = _step_class(newer), _step_class(_schema())
    written = new(name="n", new=True).SerializeToString()
    passed_on = old.FromString(written)
    passed_on.count = 3
    read = new.FromString(passed_on.SerializeToString())
    assert (read.name, read.count, read.new) == ("n", 3, True)


def _step_class(files: FileDescriptorSet) -> type:
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue]  # missing in the stubs
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Step"))
