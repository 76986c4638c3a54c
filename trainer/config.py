"""What a training run may be told, and which combinations are refused before anything happens."""

from dataclasses import dataclass, field

from schemas.errors import InputError
from schemas.rollout_pb2 import Schedule


class ConfigError(InputError):
    """A configuration that would train something else than the equations say."""

    failed = "configuration"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a new policy (Qwen3). An existing policy brings its own and ignores this."""

    hidden_size: int = 96
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ffn_size: int = 256
    context_length: int = 1024
    vocabulary: int = 4096
    rope_theta: float = 1000.0
    embedding_std: float = 0.2
    weight_std: float = 0.04

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"{self.heads} heads cannot share {self.kv_heads} key-value heads",
                "make `heads` a multiple of `kv_heads`",
            )
        if self.vocabulary < 512:
            raise ConfigError(
                f"a vocabulary of {self.vocabulary} has no room for 256 bytes and the marks",
                "set `vocabulary` to 512 or more",
            )


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One training run. Budgets are counted in tokens, not in seconds: the same input gives
    the same weights whatever else the machine does.

    `window` is the longest stretch of a trajectory that is one row of a step, and each
    supervised token sees at least `least_context` tokens before it (or all there are).
    Budgets count every token that passes through the model, context included; one core
    takes about 8,000 a second at the default shape. What does not fit waits for the next run.
    """

    seed: int = 0
    tenant: str = "local"
    model: ModelConfig = field(default_factory=ModelConfig)
    tokenizer_records: int = 200
    window: int = 512
    least_context: int = 64
    rows_per_step: int = 4
    rows_per_micro_batch: int = 4
    supervised_passes: int = 2
    supervised_learning_rate: float = 6e-3
    supervised_warmup_steps: int = 10
    supervised_token_budget: int = 400_000
    care_learning_rate: float = 5e-4
    care_warmup_updates: int = 5
    care_token_budget: int = 600_000
    epsilon_low: float = 0.2
    epsilon_high: float = 0.28
    gradient_clip: float = 1.0
    advantage_normalisation: str = "none"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.advantage_normalisation != "none":
            raise ConfigError(
                f"advantage_normalisation={self.advantage_normalisation!r} would undo the floor of "
                "equation 9, which is already applied when a group is scored",
                'set it to "none"',
            )
        check_window(self.window, self.model.context_length)
        if not 1 <= self.least_context < self.window:
            raise ConfigError(
                f"least_context {self.least_context} leaves no room in a window of {self.window}",
                "choose 1 <= least_context < window",
            )
        if self.rows_per_micro_batch < 1 or self.rows_per_step % self.rows_per_micro_batch:
            raise ConfigError(
                f"{self.rows_per_step} rows a step do not divide into micro-batches of "
                f"{self.rows_per_micro_batch}",
                "make `rows_per_step` a multiple of `rows_per_micro_batch`",
            )
        if not (0 < self.epsilon_low < 1 and self.epsilon_high > 0):
            raise ConfigError(
                f"clipping range [1 - {self.epsilon_low}, 1 + {self.epsilon_high}] is not around 1",
                "choose 0 < epsilon_low < 1 and epsilon_high > 0",
            )
        for name in (
            "tokenizer_records",
            "supervised_passes",
            "supervised_warmup_steps",
            "supervised_token_budget",
            "care_warmup_updates",
            "care_token_budget",
            "threads",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}", "set it to 1 or more")


def check_window(window: int, context_length: int) -> None:
    """Refuse windows that the policy has no positions for."""
    if window > context_length:
        raise ConfigError(
            f"a window of {window} tokens is longer than the policy's context of {context_length}",
            f"set `window` to {context_length} or less, or start a policy with a longer context",
        )


def check_group(group_id: str, size: int, schedule: Schedule) -> None:
    """Refuse groups under which CARE's promises do not hold."""
    if size < 2:
        raise ConfigError(
            f"group {group_id} was opened for {size} rollouts: it has no baseline",
            "open groups of 2 or more",
        )
    if schedule.lambda_eff >= 1:
        raise ConfigError(
            f"group {group_id} has lambda_eff {schedule.lambda_eff:g}: at cost 1 a success would "
            "rank no higher than a failure",
            "open groups under a schedule with lambda_eff below 1",
        )
