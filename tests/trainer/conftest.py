import pytest
import torch

from tests.trainer.scene import Scene


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def scene() -> Scene:
    return Scene()
