from hypothesis import given
from hypothesis import strategies as st

from schemas.event_pb2 import Event
from schemas.topics import CURATION, GROUPS
from tests.trainer.doubles import MemoryLog
from tests.trainer.scene import Scene, record
from trainer import history


def scene() -> Scene:
    made = Scene()
    for name in ("g", "h"):
        made.group(name, [1.0, -1.0])
    return made


EVENTS = [event for topic in (CURATION, GROUPS) for event in scene().log.events(topic)]


@given(st.lists(st.sampled_from(EVENTS)).flatmap(lambda more: st.permutations(EVENTS + more)))
def test_order_and_repetition_change_nothing(events: list[Event]):
    log = MemoryLog()
    log.write(events)
    told = history.read(log)
    assert [event.event_id for event in told.demonstrations()] == ["record:g/0#0", "record:h/0#0"]
    assert [event.event_id for event in told.scored()] == ["g/scored#0", "h/scored#0"]


def test_a_later_decision_about_a_record_stands():
    made = Scene()
    first = made.curate(record("a"))
    second = Event()
    second.CopyFrom(first)
    second.seq, second.event_id = 1, "record:a#1"
    second.record_curated.success = False
    made.log.write([second, first])
    assert not list(history.read(made.log).demonstrations())


def test_positions_are_the_next_offsets():
    made = scene()
    assert history.read(made.log).positions == {(CURATION.name, 0): 4, (GROUPS.name, 0): 2}


def test_what_the_edge_refuses_is_counted():
    made = scene()
    event = made.curate(record("a"))
    event.record_curated.ClearField("record_id")
    event.event_id, event.seq = "record:a#1", 1
    made.log.write([event])
    assert history.read(made.log).refused == 1


def test_foreign_policies_are_not_ours_to_go_on_from():
    made = scene()
    event = Event(stream_id="policy:x", event_id="policy:x#0", producer="somebody")
    event.occurred_at = event.recorded_at = made.now
    event.tenant = "local"
    event.policy_published.policy_version = "x"
    made.log.write([event])
    assert history.read(made.log).policy_version is None
