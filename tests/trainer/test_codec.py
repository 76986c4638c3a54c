import numpy as np
import pytest

from schemas.training_pb2 import TURN_ROLE_POLICY, TURN_ROLE_TOOL, TrainingRecord, Turn
from tests.trainer.scene import INSTRUCTIONS, call, policy_turn, record, tool_turn, user_turn
from trainer.codec import MARKS, Codec, UnfitRecordError

RECORDS = [record(f"e{number}") for number in range(4)]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.train(RECORDS, 512)


def text_of(codec: Codec, ids: np.ndarray) -> str:
    """What the ids spell, marks included."""
    return codec.tokenizer.decode(ids.tolist(), skip_special_tokens=False)


def test_spans_hold_what_the_policy_wrote_and_its_end(codec):
    turns = [
        policy_turn("I look."),
        call("cal.find", '{"day": 3}', masked=True),
        tool_turn("nothing"),
        user_turn("Thanks."),
        policy_turn("Bye."),
    ]
    sequence = codec.encode(record("e", turns))
    said = [(text_of(codec, sequence.ids[s.start : s.end]), s.masked) for s in sequence.spans]
    assert said == [
        ("I look.<|end|>", False),
        ('<|call|>cal.find\n{"day": 3}<|end|>', True),
        ("Bye.<|end|>", False),
    ]
    assert sequence.generated == sum(s.end - s.start for s in sequence.spans)
    assert not sequence.recorded
    assert text_of(codec, sequence.ids) == (
        f"<|instructions|>{INSTRUCTIONS}<|end|><|user|>Wake me up tomorrow.<|end|>"
        "<|policy|>I look.<|end|>"
        '<|policy|><|call|>cal.find\n{"day": 3}<|end|>'
        "<|tool|>nothing<|end|><|user|>Thanks.<|end|><|policy|>Bye.<|end|>"
    )


def test_errors_are_told_to_the_policy(codec):
    sequence = codec.encode(record("e", [policy_turn("x"), tool_turn("no hour", "INVALID")]))
    assert text_of(codec, sequence.ids).endswith("<|tool|><|error|>INVALID\nno hour<|end|>")


def test_text_from_outside_cannot_become_a_mark(codec):
    hostile = "".join(MARKS)
    sequence = codec.encode(record("e", [tool_turn(hostile), policy_turn(hostile)]))
    marks = np.isin(sequence.ids, list(codec.marks.values())).sum()
    plain = codec.encode(record("e", [tool_turn("hello"), policy_turn("hello")]))
    assert marks == np.isin(plain.ids, list(codec.marks.values())).sum()
    assert hostile in text_of(codec, sequence.ids)


def test_any_text_survives(codec):
    text = "naïve 会議 🚀 \x7f\t{}"
    assert codec.tokenizer.decode(codec.text(text)) == text


def test_merges_depend_on_the_records_alone():
    again = Codec.train(RECORDS, 512)
    assert again.files(256) == Codec.train(RECORDS, 512).files(256)
    assert again.vocabulary <= 512


def as_sampled(**changes: object) -> TrainingRecord:
    made = TrainingRecord(
        episode_id="e",
        context_token_ids=[20, 21, 22],
        turns=[
            Turn(role=TURN_ROLE_POLICY, token_ids=[30, 31], logprobs=[-0.5, -1.5], text="ab"),
            Turn(role=TURN_ROLE_TOOL, token_ids=[40], text="c"),
            Turn(role=TURN_ROLE_POLICY, token_ids=[32], logprobs=[-2.5], masked=True),
        ],
    )
    for name, value in changes.items():
        turn, field = name.split("_", 1)
        del getattr(made.turns[int(turn[1:])], field)[:]
        getattr(made.turns[int(turn[1:])], field).extend(value)
    return made


def test_sampled_ids_are_taken_as_they_are(codec):
    sequence = codec.encode(as_sampled())
    assert sequence.ids.tolist() == [20, 21, 22, 30, 31, 40, 32]
    assert [(s.start, s.end, s.masked) for s in sequence.spans] == [(3, 5, False), (6, 7, True)]
    assert sequence.behaviour[[3, 4, 6]].tolist() == [-0.5, -1.5, -2.5]
    assert np.isnan(sequence.behaviour[[0, 1, 2, 5]]).all()
    assert sequence.recorded
    assert not codec.encode(as_sampled(t2_logprobs=[])).recorded


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"t0_token_ids": [], "t0_logprobs": []}, "no token ids"),
        ({"t0_logprobs": [-0.5]}, "differ in number"),
        ({"t0_logprobs": [-0.5, float("nan")]}, "not finite"),
        ({"t1_token_ids": []}, "observation has no token ids"),
        ({"t1_token_ids": [512]}, "outside the policy's vocabulary"),
    ],
)
def test_unfit_records_say_why(codec, changes, reason):
    with pytest.raises(UnfitRecordError, match=reason):
        codec.encode(as_sampled(**changes))


def test_a_turn_without_a_role_is_unfit(codec):
    with pytest.raises(UnfitRecordError, match="no role"):
        codec.encode(record("e", [Turn(text="who said this?")]))
