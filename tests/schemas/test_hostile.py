"""The hostile corpus at the edge: each record ends as it says, trusted or not."""

import pytest

from schemas.batch import Batch
from schemas.topics import ROLLOUTS
from tests.hostile import HostileRecord, hostile_records

CORPUS = hostile_records()


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("record", CORPUS, ids=lambda record: record.name)
def test_the_edge_answers_as_expected(record: HostileRecord, trust: bool) -> None:
    batch = Batch(record.value, record.key, ROLLOUTS, trust=trust)
    expected = [] if record.by_fold or not record.expect else [(record.position, record.expect)]
    assert [(position, refusal.reason) for position, refusal in batch.refusals] == expected
    assert all(refusal.detail for _, refusal in batch.refusals)
    if not expected:
        assert batch.runs
    elif record.position in (None, 0):
        assert not batch.runs


@pytest.mark.parametrize("record", CORPUS, ids=lambda record: record.name)
def test_what_is_refused_can_be_kept_byte_for_byte(record: HostileRecord) -> None:
    batch = Batch(record.value, record.key, ROLLOUTS)
    for position, _ in batch.refusals:
        if position is not None:
            assert record.value is not None
            assert batch.raw(position) in record.value


def test_the_corpus_is_seeded() -> None:
    assert hostile_records(3) == hostile_records(3)
    assert [r.name for r in hostile_records(3)] != [r.name for r in hostile_records(4)]
