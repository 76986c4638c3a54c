"""From trajectories to what a step takes: windows, the weight of each token, padded tensors.

Each generated token that is to be learned is a target in exactly one window. A
trajectory that fits a window stays whole. A longer one is cut, and each window opens with
the most recent context of its first target; the weights of the tokens are set before the
cut and do not change with it.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.codec import Sequence


@dataclass(frozen=True, slots=True)
class Window:
    """One row of a step: `ids` (n,) int32 and, for each of its k targets, the position in `ids`,
    the weight, the advantage and the behaviour log-probability (NaN: nobody recorded it)."""

    ids: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    advantages: np.ndarray
    behaviour: np.ndarray


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Windows as tensors. `ids` is (rows, longest) padded on the right; the rest is (targets,)
    over all rows. The hidden state at (`rows`, `columns`) predicts `tokens`."""

    ids: Tensor
    rows: Tensor
    columns: Tensor
    tokens: Tensor
    weights: Tensor
    advantages: Tensor
    behaviour: Tensor


def windows(
    sequence: Sequence,
    *,
    window: int,
    least_context: int,
    weight: float,
    advantage: float = 0.0,
    masked_too: bool = False,
) -> Iterator[Window]:
    """Cut a trajectory. Every target gets `weight` and `advantage`.

    Masked turns are context but no targets, unless `masked_too`: equation 10 takes all that
    was generated, equation 4 leaves the erroneous turns out.
    """
    stride = window - least_context
    pieces = [
        (start, min(start + stride, span.end))
        for span in sequence.spans
        if masked_too or not span.masked
        for start in range(max(span.start, 1), span.end, stride)
    ]
    whole = len(sequence.ids) <= window
    taken: list[tuple[int, int]] = []
    first = 0
    for piece in pieces:
        if taken and piece[1] - first > window:
            yield _window(sequence, first, taken, weight, advantage)
            taken = []
        if not taken and not whole:
            first = max(0, piece[0] - least_context)
        taken.append(piece)
    if taken:
        yield _window(sequence, first, taken, weight, advantage)


def _window(
    sequence: Sequence,
    first: int,
    pieces: list[tuple[int, int]],
    weight: float,
    advantage: float,
) -> Window:
    targets = np.concatenate([np.arange(*piece, dtype=np.int64) for piece in pieces])
    return Window(
        sequence.ids[first : pieces[-1][1]],
        targets - first,
        np.full(len(targets), weight, np.float32),
        np.full(len(targets), advantage, np.float32),
        sequence.behaviour[targets],
    )


def collate(rows: Rows[Window], pad: int) -> MicroBatch:
    """Pad on the right: under causal attention, padding reaches no target."""
    longest = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), longest), pad, np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
    numbers = np.repeat(np.arange(len(rows)), [len(row.targets) for row in rows])
    columns = np.concatenate([row.targets for row in rows])
    return MicroBatch(
        ids=torch.from_numpy(ids),
        rows=torch.from_numpy(numbers),
        columns=torch.from_numpy(columns - 1),
        tokens=torch.from_numpy(ids[numbers, columns]),
        weights=torch.from_numpy(np.concatenate([row.weights for row in rows])),
        advantages=torch.from_numpy(np.concatenate([row.advantages for row in rows])),
        behaviour=torch.from_numpy(np.concatenate([row.behaviour for row in rows])),
    )


def micro_batches(rows: Rows[Window], size: int, pad: int) -> Iterator[MicroBatch]:
    """The rows in order of length, `size` at a time, so that little is padded."""
    ordered = sorted(rows, key=lambda row: len(row.ids))
    for start in range(0, len(ordered), size):
        yield collate(ordered[start : start + size], pad)


def steps(rows: Rows[Window], size: int, random: np.random.Generator) -> list[list[Window]]:
    """One pass over the rows: neighbours in length share a step, steps come in random order."""
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    chunks = [order[start : start + size] for start in range(0, len(order), size)]
    return [[rows[index] for index in chunks[number]] for number in random.permutation(len(chunks))]


def targets_in(rows: Rows[Window]) -> int:
    """Tokens that carry gradient."""
    return sum(len(row.targets) for row in rows)


def tokens_in(rows: Rows[Window]) -> int:
    """Tokens that pass through the model."""
    return sum(len(row.ids) for row in rows)
