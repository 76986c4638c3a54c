"""The embedded stack for consumers' tests, one for the whole run, on ports of its own."""

from collections.abc import Iterator

import pytest

from infra.settings import Endpoints, Settings
from infra.stack import down, up


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """Broker, object store and warehouse. Tests share them, so each uses names of its own."""
    settings = Settings(state=tmp_path_factory.mktemp("stack"))
    yield up(settings)
    down(settings)
