"""Servers that the tests of a run share. Tests that kill one start their own."""

from collections.abc import Iterator

import pytest

from tests.infra.servers import EmbeddedWarehouse, ObjectServer


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWarehouse]:
    one = EmbeddedWarehouse(tmp_path_factory.mktemp("embedded"))
    one.start()
    yield one
    assert one.stop() == 0


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    one = ObjectServer(tmp_path_factory.mktemp("objects"))
    one.start()
    yield one
    one.stop()
