"""The parts of the embedded stack: how each is configured, started and known to be ready."""

from pathlib import Path

from infra.layout import Layout
from infra.parts.kafka import Kafka
from infra.parts.objects import Objects
from infra.parts.part import Command, Part
from infra.parts.tansu import Tansu
from infra.parts.warehouse import WarehousePart

__all__ = ["Command", "Part", "parts_of"]


def parts_of(state: Path, layout: Layout) -> list[Part]:
    """The parts of a layout in the order of their start: each stands on those before it."""
    parts: list[Part] = []
    if layout.objects is not None:
        parts.append(Objects(state, layout.objects))
    if layout.log is not None:
        kafka = layout.log.kind == "kafka"
        parts.append(Kafka(state, layout.log) if kafka else Tansu(layout.log))
    if layout.warehouse is not None:
        parts.append(WarehousePart(state, layout.warehouse))
    return parts
