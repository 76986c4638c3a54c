"""Records whose index lies: folds may be misled about that record, but they go on."""

import pytest

from consumers.curation import CurationFold
from infra.log import Record
from schemas.batch import encode
from schemas.event_pb2 import Run
from schemas.topics import BODIES, ROLLOUTS
from streams.groups import GroupFold
from streams.host import Host
from tests.builders import START, good_episode, group_opened
from tests.hostile import hostile_records, plain

EPISODE = good_episode("g1", 0)


def index(**fields: object) -> bytes:
    run = Run(stream_id="g1/ep-0", tenant="acme")
    for name, value in fields.items():
        setattr(run, name, value)
    encoded = run.SerializeToString()
    return b"\x12" + bytes((len(encoded),)) + encoded


ONE = plain(EPISODE[1])
GARBAGE = b"\x0a\x04\x0a\x7fab"

FORGED = {
    "garbage for an index behind one event": ONE + b"\x12\x04\x0a\x7fab",
    "garbage for an index behind a batch": plain(*EPISODE) + b"\x12\x04\x0a\x7fab",
    "an event that does not parse": GARBAGE + index(bodies=bytes([BODIES["episode_started"]])),
    "another body": ONE + index(first_seq=1, bodies=bytes([BODIES["verification_made"]])),
    "a body that nobody knows": ONE + index(first_seq=1, bodies=bytes([200])),
    "no body": ONE + index(first_seq=1),
    "a run without events": ONE + index(bodies=bytes([23])) + index(),
    "the largest sequence number": ONE + index(first_seq=2**64 - 1, bodies=bytes([23])),
    "more tokens than there are": ONE
    + index(first_seq=1, bodies=bytes([23]), output_tokens=2**64 - 1),
    "a time before all times": ONE + index(bodies=bytes([23]), earliest=-(2**63), latest=2**63 - 1),
    "an end before the start": ONE + index(bodies=bytes([BODIES["episode_ended"]])),
    "a whole episode of one event": ONE + index(bodies=bytes([22, 23, 25, 26])),
}


def records(*values: bytes | None, key: bytes | None = b"g1") -> list[Record]:
    return [Record("planloop.rollouts", 0, n, key, value, START) for n, value in enumerate(values)]


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("together", [True, False], ids=["in one poll", "one by one"])
def test_a_forged_index_stops_nothing(name: str, together: bool):
    host = Host(ROLLOUTS, [GroupFold(), CurationFold()])
    opened = encode([group_opened("g1", size=2)])
    log = records(
        opened, FORGED[name], encode(EPISODE), FORGED[name], encode(good_episode("g1", 1))
    )
    for part in [log] if together else [[record] for record in log]:
        host.apply(part)
        restored = Host(ROLLOUTS, [GroupFold(), CurationFold()])
        assert restored.restore(host.snapshot())
    assert host.next_offset == len(log)


def test_the_hostile_corpus_goes_through_both_folds_and_a_checkpoint():
    host = Host(ROLLOUTS, [GroupFold(), CurationFold()])
    corpus = hostile_records()
    for offset, record in enumerate(corpus):
        host.apply([Record("planloop.rollouts", 0, offset, record.key, record.value, START)])
    assert host.next_offset == len(corpus)
    assert Host(ROLLOUTS, [GroupFold(), CurationFold()]).restore(host.snapshot())


def test_a_key_that_is_no_text_is_refused_with_or_without_an_index():
    for value in (ONE, encode([EPISODE[1]]), encode(EPISODE)):
        host = Host(ROLLOUTS, [GroupFold()])
        output = host.apply(records(value, value, key=b"\xff\xfe"))
        assert [event.dead_letter.offset for event in output.events] == [0, 1]
