from dataclasses import replace

import pytest

from schemas.rollout_pb2 import Schedule
from trainer.config import ConfigError, ModelConfig, TrainConfig, check_group


@pytest.mark.parametrize(
    ("change", "what_to_change"),
    [
        ({"advantage_normalisation": "batch"}, 'set it to "none"'),
        ({"window": 2048}, "set `window` to 1024 or less"),
        ({"least_context": 512}, "least_context < window"),
        ({"rows_per_step": 8, "rows_per_micro_batch": 3}, "a multiple of `rows_per_micro_batch`"),
        ({"epsilon_low": 1.0}, "0 < epsilon_low < 1"),
        ({"supervised_passes": 0}, "supervised_passes is 0; set it to 1 or more"),
        ({"threads": 0}, "set it to 1 or more"),
    ],
)
def test_what_would_train_something_else_is_refused(change, what_to_change):
    with pytest.raises(ConfigError, match="(?s).*" + what_to_change):
        replace(TrainConfig(), **change)


def test_model_shapes_are_checked():
    with pytest.raises(ConfigError, match="multiple of `kv_heads`"):
        ModelConfig(heads=4, kv_heads=3)
    with pytest.raises(ConfigError, match="512 or more"):
        ModelConfig(vocabulary=200)


def test_groups_that_break_the_promises_of_care_are_refused():
    check_group("g", 2, Schedule(lambda_eff=0.99))
    with pytest.raises(ConfigError, match="no baseline; open groups of 2 or more"):
        check_group("g", 1, Schedule(lambda_eff=0.1))
    with pytest.raises(ConfigError, match="lambda_eff below 1"):
        check_group("g", 4, Schedule(lambda_eff=1.0))
