"""The policy: a causal language model with its codec, as an ordinary Hugging Face checkpoint."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Self, cast

import torch
from safetensors import torch as safetensors
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from schemas.errors import InputError
from schemas.training_pb2 import TrainingRecord
from trainer.batch import MicroBatch
from trainer.codec import END, PAD, Codec
from trainer.config import ModelConfig

ARCHITECTURE = "Qwen3ForCausalLM"
WEIGHTS = "model.safetensors"


class Policy:
    """Model and codec. What `files` gives, `load` takes and `from_pretrained` takes too."""

    def __init__(self, model: Qwen3ForCausalLM, codec: Codec) -> None:
        self.model = model
        self.codec = codec

    @classmethod
    def create(cls, config: ModelConfig, records: Iterable[TrainingRecord], seed: int) -> Self:
        """A new policy: merges learned from the records, weights drawn from the seed alone."""
        codec = Codec.train(records, config.vocabulary)
        model = Qwen3ForCausalLM(
            Qwen3Config(
                architectures=[ARCHITECTURE],
                vocab_size=codec.vocabulary,
                hidden_size=config.hidden_size,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.kv_heads,
                head_dim=config.head_dim,
                intermediate_size=config.ffn_size,
                max_position_embeddings=config.context_length,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
                initializer_range=config.weight_std,
                tie_word_embeddings=True,
                pad_token_id=codec.marks[PAD],
                bos_token_id=None,
                eos_token_id=codec.marks[END],
                dtype="float32",
            )
        )
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    embedding = "embed_tokens" in name
                    std = config.embedding_std if embedding else config.weight_std
                    parameter.normal_(0, std, generator=generator)
        return cls(model, codec)

    @classmethod
    def load(cls, files: Mapping[str, bytes]) -> Self:
        """From the files of a checkpoint; InputError where they do not belong together."""
        if lacking := {"config.json", "tokenizer.json", WEIGHTS} - files.keys():
            raise InputError(f"the checkpoint lacks {sorted(lacking)}", "publish it whole")
        model = Qwen3ForCausalLM(Qwen3Config.from_dict(json.loads(files["config.json"])))
        tensors = safetensors.load(files[WEIGHTS])
        expected = {name: value.shape for name, value in model.state_dict().items()}
        del expected["lm_head.weight"]
        if expected != {name: value.shape for name, value in tensors.items()}:
            raise InputError(
                "the checkpoint's weights do not fit its configuration",
                "publish the policy again from its own training run",
            )
        model.load_state_dict(tensors, strict=False)
        return cls(model, Codec.load(files["tokenizer.json"]))

    def files(self) -> dict[str, bytes]:
        """The checkpoint, the same bytes for the same weights."""
        tensors = {
            name: tensor.contiguous()
            for name, tensor in self.model.state_dict().items()
            if name != "lm_head.weight"
        }
        return {
            "config.json": self.model.config.to_json_string().encode(),
            **self.codec.files(self.context_length),
            WEIGHTS: safetensors.save(tensors, metadata={"format": "pt"}),
        }

    @property
    def context_length(self) -> int:
        return self.model.config.max_position_embeddings

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def log_probs(self, batch: MicroBatch) -> Tensor:
        """log pi(token | what precedes it in its window) for each target, (targets,) float32."""
        backbone = cast(Any, self.model.model)
        hidden = backbone(input_ids=batch.ids, use_cache=False).last_hidden_state
        logits = self.model.lm_head(hidden[batch.rows, batch.columns])
        return logits.log_softmax(-1).gather(1, batch.tokens[:, None]).squeeze(1)
