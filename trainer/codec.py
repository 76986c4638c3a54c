"""Trajectories as token sequences: which tokens the policy generated, and which it only read.

Where our own policy acted, the ids that its sampler saw and produced are taken as they
are; nothing is tokenised again. A foreign policy's trajectory is written out in the
same form and encoded. Text from outside can never become a mark: marks are put in by id,
and text is encoded with marks switched off.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from schemas.errors import InputError
from schemas.training_pb2 import (
    TURN_ROLE_OTHER_ACTOR,
    TURN_ROLE_POLICY,
    TURN_ROLE_TOOL,
    TURN_ROLE_USER,
    TrainingRecord,
    Turn,
)

PAD, END, CALL, ERROR = "<|pad|>", "<|end|>", "<|call|>", "<|error|>"
INSTRUCTIONS = "<|instructions|>"
ROLE_MARKS = {
    TURN_ROLE_POLICY: "<|policy|>",
    TURN_ROLE_TOOL: "<|tool|>",
    TURN_ROLE_USER: "<|user|>",
    TURN_ROLE_OTHER_ACTOR: "<|other|>",
}
MARKS = (PAD, END, CALL, ERROR, INSTRUCTIONS, *ROLE_MARKS.values())


class UnfitRecordError(InputError):
    """A training record that cannot be turned into tokens of this policy. `message` is a
    reason shared by all records of its kind, fit for counting."""

    failed = "record"


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, end) that the policy generated in one turn."""

    start: int
    end: int
    masked: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One trajectory. `ids` is (n,) int32; `behaviour` is (n,) float32, the log-probability of
    each generated token under the policy that sampled it, NaN where nobody recorded it."""

    ids: np.ndarray
    spans: tuple[Span, ...]
    behaviour: np.ndarray

    @property
    def generated(self) -> int:
        """T of equation 10: tokens that the policy generated, masked turns included."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def recorded(self) -> bool:
        """True if every generated token has the log-probability of its behaviour policy."""
        return all(not np.isnan(self.behaviour[s.start : s.end]).any() for s in self.spans)


class Codec:
    """A byte-level BPE tokenizer and the form in which trajectories are written."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = True
        self.vocabulary = tokenizer.get_vocab_size()
        marks: dict[str, int] = {}
        for mark in MARKS:
            number = tokenizer.token_to_id(mark)
            if number is None:
                raise InputError(f"the tokenizer has no {mark}", "use a policy made by planloop")
            marks[mark] = number
        self.marks: Mapping[str, int] = marks

    @classmethod
    def train(cls, records: Iterable[TrainingRecord], vocabulary: int) -> Self:
        """Learn the merges from all text of the records; the same records give the same ones."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=list(MARKS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_texts(records), trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, tokenizer_json: bytes) -> Self:
        return cls(Tokenizer.from_str(tokenizer_json.decode()))

    def files(self, context_length: int) -> dict[str, bytes]:
        """The tokenizer's part of a Hugging Face checkpoint."""
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": context_length,
            "eos_token": END,
            "pad_token": PAD,
            "additional_special_tokens": [mark for mark in MARKS if mark not in (END, PAD)],
            "clean_up_tokenization_spaces": False,
        }
        return {
            "tokenizer.json": self.tokenizer.to_str().encode(),
            "tokenizer_config.json": json.dumps(settings, indent=2).encode(),
        }

    def text(self, text: str) -> list[int]:
        """Ids of plain text; what looks like a mark is spelt out."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode(self, record: TrainingRecord) -> Sequence:
        """The record as tokens. UnfitRecordError where it cannot be."""
        return self._as_sampled(record) if record.context_token_ids else self._written(record)

    def _written(self, record: TrainingRecord) -> Sequence:
        marks = self.marks
        ids: list[int] = []
        if record.instructions:
            ids += [marks[INSTRUCTIONS], *self.text(record.instructions), marks[END]]
        if record.request:
            ids += [marks["<|user|>"], *self.text(record.request), marks[END]]
        spans: list[Span] = []
        for turn in record.turns:
            mark = ROLE_MARKS.get(turn.role)
            if mark is None:
                raise UnfitRecordError("a turn has no role")
            ids.append(marks[mark])
            start = len(ids)
            ids += self._content(turn)
            ids.append(marks[END])
            if turn.role == TURN_ROLE_POLICY:
                spans.append(Span(start, len(ids), turn.masked))
        behaviour = np.full(len(ids), np.nan, np.float32)
        return Sequence(np.asarray(ids, np.int32), tuple(spans), behaviour)

    def _content(self, turn: Turn) -> list[int]:
        ids: list[int] = []
        if turn.error_code:
            ids += [self.marks[ERROR], *self.text(turn.error_code + "\n")]
        ids += self.text(turn.text)
        if turn.role in (TURN_ROLE_POLICY, TURN_ROLE_OTHER_ACTOR) and turn.tool:
            ids += [self.marks[CALL], *self.text(f"{turn.tool}\n{turn.arguments_json}")]
        return ids

    def _as_sampled(self, record: TrainingRecord) -> Sequence:
        ids = list(record.context_token_ids)
        logprobs: list[float] = [np.nan] * len(ids)
        spans: list[Span] = []
        for turn in record.turns:
            if turn.role == TURN_ROLE_POLICY:
                if not turn.token_ids:
                    raise UnfitRecordError("a policy turn has no token ids")
                if len(turn.logprobs) not in (0, len(turn.token_ids)):
                    raise UnfitRecordError("token ids and log-probabilities differ in number")
                if turn.logprobs and not np.isfinite(turn.logprobs).all():
                    raise UnfitRecordError("a log-probability is not finite")
                spans.append(Span(len(ids), len(ids) + len(turn.token_ids), turn.masked))
                logprobs += turn.logprobs or [np.nan] * len(turn.token_ids)
            elif not turn.token_ids and turn.text:
                raise UnfitRecordError("an observation has no token ids")
            else:
                logprobs += [np.nan] * len(turn.token_ids)
            ids += turn.token_ids
        if max(ids) >= self.vocabulary:
            raise UnfitRecordError("a token id is outside the policy's vocabulary")
        return Sequence(np.asarray(ids, np.int32), tuple(spans), np.asarray(logprobs, np.float32))


def _texts(records: Iterable[TrainingRecord]) -> Iterator[str]:
    """Every text of the records, instructions once for all records that share them."""
    seen: set[str] = set()
    for record in records:
        if record.instructions not in seen:
            seen.add(record.instructions)
            yield record.instructions
        yield record.request
        for turn in record.turns:
            yield turn.text
            if turn.tool:
                yield f"{turn.tool}\n{turn.arguments_json}"
