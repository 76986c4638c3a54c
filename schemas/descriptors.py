"""The descriptor set behind every message class.

Classes are built from a committed descriptor set rather than from generated
Python, because generated code is tied to the protobuf release that made it and
this schema must load on 5.29 and on the current release alike.
"""

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

_DATA = resources.files("schemas").joinpath("descriptors.binpb").read_bytes()


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """Today's schema, as protoc compiled it."""
    return descriptor_pb2.FileDescriptorSet.FromString(_DATA)


def _build_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_set().file:
        pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue]  # missing in the stubs
    return pool


POOL = _build_pool()


def export(file_name: str, namespace: dict[str, Any]) -> None:
    """Put the messages, enums and enum values of one .proto file into a module's namespace."""
    file = POOL.FindFileByName(file_name)
    namespace["DESCRIPTOR"] = file
    for name, message in file.message_types_by_name.items():
        namespace[name] = message_factory.GetMessageClass(message)
    for name, enum in file.enum_types_by_name.items():
        namespace[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        namespace.update((value.name, value.number) for value in enum.values)
