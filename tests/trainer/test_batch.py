import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.scene import TINY, record
from trainer.batch import collate, micro_batches, steps, targets_in, windows
from trainer.codec import Sequence, Span
from trainer.policy import Policy


@st.composite
def sequences(draw):
    """Trajectories with turns of the policy (some masked) and of others, in any lengths."""
    ids, spans = [1], []
    for generated, length in draw(
        st.lists(st.tuples(st.booleans(), st.integers(1, 60)), min_size=1, max_size=12)
    ):
        if generated:
            spans.append(Span(len(ids), len(ids) + length, draw(st.booleans())))
        ids += range(len(ids), len(ids) + length)
    return Sequence(
        np.arange(len(ids), dtype=np.int32), tuple(spans), np.arange(len(ids), dtype=np.float32)
    )


@given(sequences(), st.integers(8, 80), st.integers(1, 7), st.booleans())
def test_each_generated_token_is_a_target_once(sequence, window, least_context, masked_too):
    cut = list(
        windows(
            sequence,
            window=window,
            least_context=least_context,
            weight=0.5,
            advantage=-1.0,
            masked_too=masked_too,
        )
    )
    wanted = [
        token
        for span in sequence.spans
        if masked_too or not span.masked
        for token in range(span.start, span.end)
    ]
    # ids[i] == i, so the ids of the targets are their places in the trajectory.
    assert [int(row.ids[t]) for row in cut for t in row.targets] == wanted
    for row in cut:
        places = row.ids[row.targets]
        assert len(row.ids) <= window
        assert row.targets[0] >= min(least_context, places[0])
        assert np.array_equal(np.diff(row.ids), np.ones(len(row.ids) - 1))
        assert np.array_equal(row.behaviour, places.astype(np.float32))
        assert (row.weights == 0.5).all()
        assert (row.advantages == -1.0).all()
    if len(sequence.ids) <= window:
        assert all(row.ids[0] == 0 for row in cut)
        assert len(cut) <= 1


@given(sequences(), st.integers(8, 80))
def test_the_windows_of_a_rollout_add_up_to_one(sequence, window):
    """However a rollout is cut, it weighs as much as one that is not."""
    if sequence.generated:
        weight = 1 / sequence.generated
        cut = windows(sequence, window=window, least_context=4, weight=weight, masked_too=True)
        assert sum(row.weights.sum() for row in cut) == pytest.approx(1, abs=1e-5)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy.create(TINY.model, [record("a"), record("b")], seed=0)


def rows_of(policy: Policy, *names: str):
    return [
        row
        for name in names
        for row in windows(
            policy.codec.encode(record(name)), window=96, least_context=16, weight=1.0
        )
    ]


def test_padding_changes_no_log_probability(policy):
    rows = rows_of(policy, "a", "bb", "ccc")
    assert len({len(row.ids) for row in rows}) > 1
    together = policy.log_probs(collate(rows, pad=0))
    alone = torch.cat([policy.log_probs(collate([row], pad=0)) for row in rows])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    other_pad = policy.log_probs(collate(rows, pad=7))
    assert torch.equal(together, other_pad)


def test_micro_batches_and_steps_hold_every_row_once(policy):
    rows = rows_of(policy, "a", "bb", "ccc", "dddd")
    taken = list(micro_batches(rows, 3, pad=0))
    assert sum(len(batch.tokens) for batch in taken) == targets_in(rows)
    a_pass = steps(rows, 3, np.random.default_rng(0))
    assert sorted(id(row) for step in a_pass for row in step) == sorted(map(id, rows))
