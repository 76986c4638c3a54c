from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.trainer.scene import TINY, call, policy_turn, record, tool_turn
from trainer.batch import Window, collate, targets_in, windows
from trainer.codec import Sequence
from trainer.learner import DivergedError, Learner, Progress
from trainer.policy import Policy

RECORDS = [record(name) for name in ("a", "bb", "ccc", "dddd", "eeeee", "f")]


def fresh() -> Policy:
    return Policy.create(TINY.model, RECORDS, seed=0)


def cut(policy: Policy, sequence: Sequence | None = None, **changes) -> list[Window]:
    options = {"window": 256, "least_context": 16, "weight": 1.0} | changes
    if sequence is not None:
        return list(windows(sequence, **options))
    return [row for made in RECORDS for row in windows(policy.codec.encode(made), **options)]


def care_rows(policy: Policy) -> list[Window]:
    """Two groups of three, windows of 96 tokens, advantages of both signs."""
    rows = []
    for made, advantage in zip(RECORDS, (1.5, -0.5, -1.0, 0.7, 0.7, -1.4), strict=True):
        sequence = policy.codec.encode(made)
        weight = 1 / (3 * sequence.generated)
        rows += cut(
            policy, sequence, window=96, weight=weight, advantage=advantage, masked_too=True
        )
    return rows


def gradients(policy: Policy) -> list[torch.Tensor]:
    return [p.grad.clone() for p in policy.model.parameters() if p.grad is not None]


def equation_4(policy: Policy, ids: np.ndarray, targets: list[int]) -> torch.Tensor:
    """The objective from the model's full output, term by term."""
    full = policy.model(torch.tensor(ids.tolist())[None]).logits[0].log_softmax(-1)
    return -torch.stack([full[t - 1, int(ids[t])] for t in targets]).mean()


def test_supervised_gradient_is_that_of_equation_4():
    """Over the unmasked turns of the policy and nothing else."""
    policy = fresh()
    sequence = policy.codec.encode(RECORDS[0])
    kept = [t for span in sequence.spans if not span.masked for t in range(span.start, span.end)]
    assert any(span.masked for span in sequence.spans)
    equation_4(policy, sequence.ids, kept).backward()
    expected = gradients(policy)
    norm = torch.linalg.vector_norm(torch.cat([g.flatten() for g in expected])).item()
    outcome = Learner(policy, TINY).supervise(cut(policy, sequence), "b")
    assert outcome.gradient_norm == pytest.approx(norm, rel=1e-5)
    assert outcome.loss == pytest.approx(equation_4(fresh(), sequence.ids, kept).item(), rel=1e-5)


def test_care_gradient_is_that_of_equation_10():
    """Over all that was generated, masked turns included, at the ratio 1 of a first step."""
    policy = fresh()
    sequence = policy.codec.encode(RECORDS[0])
    generated = [t for span in sequence.spans for t in range(span.start, span.end)]
    assert len(generated) == sequence.generated
    (-0.7 / 4 * -equation_4(policy, sequence.ids, generated)).neg().backward()
    expected = gradients(policy)
    weight = 1 / (4 * sequence.generated)
    rows = cut(policy, sequence, weight=weight, advantage=-0.7, masked_too=True)
    outcome, _ = Learner(policy, replace(TINY, gradient_clip=1e9)).optimise(rows, 1, "b", None)
    assert outcome.loss == pytest.approx(0.7 / 4, rel=1e-5)
    for one, other in zip(gradients(policy), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def turns(observation: str, masked_answer: str, last: str) -> list:
    return [
        call("cal.find", '{"day": 3}'),
        tool_turn("dentist at 9"),
        policy_turn(masked_answer, masked=True),
        tool_turn(observation),
        policy_turn("You see the dentist at 9."),
        tool_turn(last),
    ]


def train_on(observation: str, masked_answer: str, last: str, kept: int) -> dict[str, bytes]:
    """Weights after one step on the first `kept` spans of a trajectory of these turns."""
    policy = fresh()
    sequence = policy.codec.encode(record("p", turns(observation, masked_answer, last)))
    sequence = Sequence(sequence.ids, sequence.spans[:kept], sequence.behaviour)
    Learner(policy, TINY).supervise(cut(policy, sequence), "b")
    return policy.files()


def test_observations_and_masked_turns_are_context_but_no_target():
    base = train_on("ok", "It is at 8.", "ok", kept=3)
    # Nothing is learnt about what follows the last turn, ...
    assert train_on("ok", "It is at 8.", "something else entirely", kept=3) == base
    # ... nor, looking at the first turn only, about a masked answer or an observation, ...
    first = train_on("ok", "It is at 8.", "ok", kept=1)
    assert train_on("later", "No idea, really.", "ok", kept=1) == first
    # ... and yet both are in the context of the turn that follows them.
    assert train_on("later", "It is at 8.", "ok", kept=3) != base
    assert train_on("ok", "No idea, really.", "ok", kept=3) != base


@pytest.mark.parametrize("kind", ["supervised", "care"])
@pytest.mark.parametrize("rows_per_micro_batch", [1, 2, 3])
def test_micro_batches_change_nothing(kind, rows_per_micro_batch):
    """Loss, gradient and one update equal those of the whole batch."""
    results = []
    for size in (rows_per_micro_batch, 120):
        policy = fresh()
        learner = Learner(policy, replace(TINY, rows_per_step=120, rows_per_micro_batch=size))
        if kind == "care":
            outcome, _ = learner.optimise(care_rows(policy), 2, "b", None)
        else:
            outcome = learner.supervise(cut(policy), "b")
        results.append((outcome, gradients(policy), list(policy.model.parameters())))
    (split, split_gradients, split_weights), (whole, whole_gradients, whole_weights) = results
    assert split.loss == pytest.approx(whole.loss, rel=1e-5, abs=1e-7)
    assert split.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-4)
    for one, other in zip(split_gradients, whole_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    for one, other, gradient in zip(split_weights, whole_weights, whole_gradients, strict=True):
        # Adam's first step is a sign: where a gradient is all rounding, so is the step.
        told = gradient.abs() > 1e-4
        torch.testing.assert_close(one[told], other[told], rtol=0, atol=2e-5)


def test_care_raises_what_was_better_than_its_group():
    policy = fresh()
    sequences = [policy.codec.encode(made) for made in RECORDS[:2]]

    def log_prob(sequence: Sequence) -> float:
        row = cut(policy, sequence, masked_too=True)[0]
        targets = row.targets.tolist()
        with torch.no_grad():
            return -equation_4(policy, row.ids, targets).item()

    before = [log_prob(sequence) for sequence in sequences]
    rows = [
        row
        for sequence, advantage in zip(sequences, (1.0, -1.0), strict=True)
        for row in cut(
            policy,
            sequence,
            weight=1 / (2 * sequence.generated),
            advantage=advantage,
            masked_too=True,
        )
    ]
    state = None
    for number in range(8):
        outcome, state = Learner(policy, TINY).optimise(rows, 1, f"b{number}", state)
        assert outcome.clipped_share == 0
    after = [log_prob(sequence) for sequence in sequences]
    assert after[0] - before[0] > after[1] - before[1]


def test_recorded_behaviour_of_the_same_policy_clips_nothing_and_loses_nothing():
    """With its own log-probabilities recorded, the ratio is 1 and equals the recomputed one."""
    policy = fresh()
    rows = care_rows(policy)
    results = []
    for recorded in (True, False):
        policy = fresh()
        learner = Learner(policy, replace(TINY, rows_per_micro_batch=1))
        if recorded:
            rows = [_recorded(policy, row) for row in rows]
        outcome, _ = learner.optimise(rows, 2, "b", None)
        results.append((outcome.loss, outcome.clipped_share, policy.files()))
    assert results[0] == results[1]


def _recorded(policy: Policy, row: Window) -> Window:
    with torch.no_grad():
        log_probs = policy.log_probs(collate([row], pad=0)).numpy()
    return Window(row.ids, row.targets, row.weights, row.advantages, log_probs)


def test_optimiser_goes_on_where_it_was():
    """Two updates in one process, or with the state saved in between: the same weights."""
    policy, other = fresh(), fresh()
    rows = care_rows(policy)
    learner = Learner(policy, TINY)
    _, state = learner.optimise(rows, 2, "b1", None)
    learner.optimise(rows, 2, "b2", state)
    _, state = Learner(other, TINY).optimise(rows, 2, "b1", None)
    reloaded = Policy.load(other.files())
    _, last = Learner(reloaded, TINY).optimise(rows, 2, "b2", state)
    assert reloaded.files() == policy.files()
    assert last != state


def test_rows_without_targets_change_nothing():
    policy = fresh()
    before = policy.files()
    outcome, _ = Learner(policy, TINY).optimise([_empty(policy)], 1, "b", None)
    assert outcome.loss == 0
    assert outcome.gradient_norm == 0
    assert policy.files() == before


def _empty(policy: Policy) -> Window:
    row = cut(policy)[0]
    none = np.zeros(0, np.float32)
    return Window(row.ids, np.zeros(0, np.int64), none, none, none)


@pytest.mark.parametrize("kind", ["loss", "gradient norm"])
def test_what_is_not_finite_stops_the_update(kind):
    policy = fresh()
    weight = policy.model.model.embed_tokens.weight
    rows = cut(policy)
    if kind == "loss":
        with torch.no_grad():
            weight[:] = torch.nan
    else:
        weight.register_hook(lambda gradient: gradient * torch.inf)
    before = policy.files()
    with pytest.raises(DivergedError, match=f"the {kind} of b7 step 0 is"):
        Learner(policy, TINY).supervise(rows, "b7")
    assert policy.files() == before


def test_progress_is_told_step_by_step():
    policy = fresh()
    told: list[Progress] = []
    rows = cut(policy)
    outcome = Learner(policy, TINY, told.append).supervise(rows, "b")
    assert [progress.step for progress in told] == list(range(1, told[0].steps + 1))
    assert told[-1].stage == "supervised"
    assert told[-1].tokens_per_second > 0
    mean = sum(p.loss for p in told) / len(told)
    assert outcome.loss == pytest.approx(mean, rel=0.2)
    assert outcome.tokens == sum(len(row.ids) for row in rows)
    assert targets_in(rows) > 0
