from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from schemas.errors import InputError
from tests.trainer.scene import TINY, record
from trainer.batch import collate, windows
from trainer.policy import WEIGHTS, Policy

RECORDS = [record("a"), record("b")]


def test_checkpoint_is_an_ordinary_hugging_face_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    policy = Policy.create(TINY.model, RECORDS, seed=3)
    for name, content in policy.files().items():
        (tmp_path / name).write_bytes(content)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.config.rope_parameters["rope_theta"] == TINY.model.rope_theta
    ids = tokenizer("set the alarm", return_tensors="pt")["input_ids"]
    assert ids.flatten().tolist() == policy.codec.text("set the alarm")
    assert tokenizer.eos_token_id == policy.codec.marks["<|end|>"] == model.config.eos_token_id
    assert tokenizer.pad_token_id == policy.codec.marks["<|pad|>"] == model.config.pad_token_id
    with torch.no_grad():
        assert torch.equal(model(ids).logits, policy.model(ids).logits)


def test_load_gives_back_what_files_took():
    policy = Policy.create(TINY.model, RECORDS, seed=3)
    again = Policy.load(policy.files())
    assert again.files() == policy.files()
    batch = collate(
        list(windows(policy.codec.encode(RECORDS[0]), window=96, least_context=16, weight=1.0)),
        pad=0,
    )
    assert torch.equal(policy.log_probs(batch), again.log_probs(batch))


def test_log_probs_are_those_of_the_whole_distribution():
    policy = Policy.create(TINY.model, RECORDS, seed=3)
    row = next(windows(policy.codec.encode(RECORDS[0]), window=96, least_context=16, weight=1.0))
    ids = torch.tensor(row.ids.tolist())[None]
    full = policy.model(ids).logits.log_softmax(-1)[0]
    expected = torch.stack([full[t - 1, ids[0, t]] for t in row.targets.tolist()])
    torch.testing.assert_close(policy.log_probs(collate([row], pad=0)), expected)


def test_weights_come_from_the_seed_alone():
    torch.manual_seed(1)
    first = Policy.create(TINY.model, RECORDS, seed=3)
    torch.manual_seed(2)
    assert Policy.create(TINY.model, RECORDS, seed=3).files() == first.files()
    assert Policy.create(TINY.model, RECORDS, seed=4).files()[WEIGHTS] != first.files()[WEIGHTS]


def test_half_a_checkpoint_is_refused():
    files = Policy.create(TINY.model, RECORDS, seed=3).files()
    del files["tokenizer.json"]
    with pytest.raises(InputError, match="lacks"):
        Policy.load(files)


@pytest.mark.parametrize("change", [{"layers": 2}, {"hidden_size": 32}])
def test_weights_of_another_shape_are_refused(change):
    files = Policy.create(TINY.model, RECORDS, seed=3).files()
    other = Policy.create(replace(TINY.model, **change), RECORDS, seed=3).files()
    with pytest.raises(InputError, match="do not fit"):
        Policy.load({**files, WEIGHTS: other[WEIGHTS]})
