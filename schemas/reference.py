"""The reference page, docs/events.md, written by `python -m schemas.reference`.

Meanings are the comments of the .proto files, demands are the edge's own tables: nothing
is said in two places.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

from schemas.event_pb2 import Event
from schemas.generate import ROOT, proto_files
from schemas.rules import NUMBERS, REQUIRED, TIMES
from schemas.topics import CATALOGUE, FOREVER, Topic, topic_of

PAGE = ROOT / "docs" / "events.md"

_MESSAGES, _ENUMS = 4, 5
"""Field numbers in FileDescriptorProto, as source locations name things by."""

_INTRODUCTION = """\
# Events

Written by `python -m schemas.reference` from `schemas/*.proto`; change those instead.

A Kafka value is one [`EventBatch`](#eventbatch): events that share the record's key. The
identity of an [`Event`](#event) is (`stream_id`, `seq`), so a second copy changes nothing.
Times are UTC microseconds. Unless a field says otherwise, text is UTF-8, a number is
finite, and an enum has a value of this schema; `schemas/rules.py` lists what the edge asks
beyond that, and [`Reason`](#reason) what it answers.
"""


class _File:
    """A .proto file with its comments."""

    def __init__(self, proto: FileDescriptorProto) -> None:
        self.proto = proto
        self._comments = {
            tuple(location.path): " ".join(
                (location.leading_comments or location.trailing_comments).split()
            )
            for location in proto.source_code_info.location
        }

    def comment(self, *path: int) -> str:
        return self._comments.get(path, "")


def _prose(comment: str) -> str:
    """A comment as one line that Markdown leaves alone."""
    return " ".join(comment.split()).replace("<", "&lt;").replace("|", "\\|")


def page() -> str:
    """The reference as Markdown."""
    files = [_File(proto) for proto in _described().file]
    parts = [_INTRODUCTION, *_topics()]
    for file in files:
        parts.append(f"## {file.proto.name}\n")
        for index, message in enumerate(file.proto.message_type):
            parts += _message(file, index, message)
        for index, enum in enumerate(file.proto.enum_type):
            parts += _enum(file, index, enum)
    return "\n".join(parts)


def _described() -> FileDescriptorSet:
    """The .proto files with source information, `event.proto` first."""
    names = [str(path.relative_to(ROOT)) for path in proto_files()]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        options = [f"-I{ROOT}", "--include_source_info", f"--descriptor_set_out={out}"]
        status = protoc.main(["protoc", *options, *names])
        if status != 0:
            raise RuntimeError(f"protoc failed with status {status}")
        described = FileDescriptorSet.FromString(out.read_bytes())
    described.file.sort(key=lambda file: (file.name != "schemas/event.proto", file.name))
    return described


def _topics() -> Iterator[str]:
    yield "## Topics\n"
    yield "| topic | key | partitions | kept | bodies | |"
    yield "|---|---|---|---|---|---|"
    for topic in CATALOGUE:
        kept = "for ever" if topic.retention_ms == FOREVER else f"{_days(topic)} days"
        bodies = ", ".join(f"`{body}`" for body in sorted(topic.bodies))
        key = f"`{_key(topic)}`"
        yield f"| `{topic.name}` | {key} | {topic.partitions} | {kept} | {bodies} | {topic.about} |"
    yield ""


def _days(topic: Topic) -> int:
    return topic.retention_ms // (24 * 3600 * 1000)


def _key(topic: Topic) -> str:
    """The envelope field that keys a topic."""
    probe = Event(stream_id="stream_id", group_id="group_id")
    return topic.key(probe)


def _message(file: _File, index: int, message: DescriptorProto) -> Iterator[str]:
    yield f"### {message.name}\n"
    if comment := file.comment(_MESSAGES, index):
        yield f"{comment}\n"
    yield "| field | number | type | meaning |"
    yield "|---|---|---|---|"
    for place, field in enumerate(message.field):
        comment = file.comment(_MESSAGES, index, 2, place)
        if message.name == "Event" and field.HasField("oneof_index"):
            comment = comment or f"Body. Travels on `{topic_of(field.name).name}`."
        demands = _demands(f"{message.name}.{field.name}", told=comment)
        meaning = " ".join((comment, *demands)).strip()
        yield f"| `{field.name}` | {field.number} | {_type(field)} | {meaning} |"
    yield ""


def _demands(path: str, told: str) -> Iterator[str]:
    """What the edge asks of one field, beyond what its comment told."""
    if path in REQUIRED:
        yield "Required."
    if path in NUMBERS and "[0, 1]" not in told:
        yield f"`{NUMBERS[path].format('x')}`."
    if path in TIMES:
        yield "From 2010 to 2099." if path in REQUIRED else "0, or from 2010 to 2099."


def _type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        name = field.type_name.rpartition(".")[2]
        kind = f"[{name}](#{name.lower()})"
    else:
        kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {kind}"
    return f"optional {kind}" if field.proto3_optional else kind


def _enum(file: _File, index: int, enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"### {enum.name}\n"
    if comment := file.comment(_ENUMS, index):
        yield f"{comment}\n"
    yield "| value | number | meaning |"
    yield "|---|---|---|"
    for place, value in enumerate(enum.value):
        comment = file.comment(_ENUMS, index, 2, place)
        yield f"| `{value.name}` | {value.number} | {comment} |"
    yield ""


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
