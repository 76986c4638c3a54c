"""The topic catalogue and the events that it is about."""

from schemas.event_pb2 import Event
from schemas.topics import BODIES, BODY_NAMES, BY_NAME, CATALOGUE, topic_of


def test_each_body_has_exactly_one_topic() -> None:
    taken = [body for topic in CATALOGUE for body in topic.bodies]
    assert sorted(taken) == sorted(BODIES)
    assert all(body in topic_of(body).bodies for body in BODIES)


def test_body_numbers_fit_the_byte_that_an_index_gives_them() -> None:
    assert all(0 < number < 256 for number in BODIES.values())
    assert {BODY_NAMES[number]: number for number in BODIES.values()} == BODIES


def test_names_are_unique_and_every_topic_has_a_key_and_a_partition() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    probe = Event(stream_id="s", group_id="g")
    for topic in CATALOGUE:
        assert topic.name.startswith("planloop.")
        assert topic.partitions > 0
        assert topic.key(probe) in ("s", "g")
        assert int(topic.config["max.message.bytes"]) > 0
