"""Curation, like scoring, depends on the events and their order, not on how they are packed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.curation import CurationFold
from schemas.event_pb2 import Event
from streams.driver import drive
from tests.streams.test_groups import a_busy_log, records


def packed(sizes: list[int]) -> list[list[Event]]:
    log = a_busy_log()
    result: list[list[Event]] = []
    size = iter(sizes)
    while log:
        room, key = next(size, 5), log[0].group_id
        some: list[Event] = []
        while log and len(some) < room and log[0].group_id == key:
            some.append(log.pop(0))
        result.append(some)
    return result


def curated(sizes: list[int]) -> tuple[list[bytes], list[tuple[str, bytes]]]:
    output = drive(CurationFold(), records(*packed(sizes)))
    events = [event.SerializeToString(deterministic=True) for event in output.events]
    return events, output.objects


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=120))
def test_how_events_are_packed_changes_no_record(sizes: list[int]):
    assert curated(sizes) == curated([1] * 200)
