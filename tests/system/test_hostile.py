"""A file of hostile records through the whole program: nothing stops, each ends with its reason."""

from collections import Counter
from collections.abc import Iterator

import pytest

from consumers.dead_letters import dead_letters
from infra.log import Producer
from schemas.refusal_pb2 import Reason
from schemas.topics import MAX_RECORD_BYTES, ROLLOUTS
from tests.conftest import kafka_settings
from tests.hostile import hostile_records
from tests.system.command import Planloop


@pytest.fixture(params=["tansu", pytest.param("kafka", marks=pytest.mark.kafka)])
def planloop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Planloop]:
    state = tmp_path_factory.mktemp("hostile")
    home = kafka_settings(state).kafka_home if request.param == "kafka" else None
    command = Planloop(state, home)
    try:
        command("up")
        yield command
    finally:
        command("down")


def test_each_hostile_record_ends_where_it_should(planloop: Planloop):
    corpus = [r for r in hostile_records() if len(r.value or b"") <= MAX_RECORD_BYTES]
    producer = Producer(planloop.endpoints.kafka)
    for record in corpus:
        producer._client.produce(ROLLOUTS.name, record.value, record.key, 0)
    producer.close()
    said = planloop.json("process")
    assert "events derived" in said["folds"]

    expected = Counter(Reason.Name(r.expect) for r in corpus if r.expect is not None)
    letters = list(dead_letters(planloop.endpoints.kafka))
    by_offset = {letter.body.offset: letter.body.reason for letter in letters}
    for offset, record in enumerate(corpus):
        if record.expect is not None:
            assert by_offset[offset] == record.expect, record.name
    assert expected
    counted = planloop.rows("SELECT count() AS n FROM dead_letters")
    assert counted == [{"n": len(letters)}]
    listed = planloop("dead-letters", "list", "--json").splitlines()
    assert len(listed) == len(letters)
    assert planloop.json("verify")["ok"]

    again = planloop.json("dead-letters", "requeue", letters[0].letter_id)
    assert again == {"requeued": 1}
    planloop("process")
    assert len(list(dead_letters(planloop.endpoints.kafka))) == len(letters) + 1
