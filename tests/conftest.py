"""Services for tests: the embedded stack once a session, and brokers of both kinds.

Nothing here is a stand-in: what starts is what `planloop up` starts, in a directory of its own.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.log import ensure_topics
from infra.settings import Endpoints, Settings
from infra.stack import down, up
from schemas.topics import ROLLOUTS, Topic

REPOSITORY = Path(__file__).parent.parent


def settings_of(state: Path, kafka_home: Path | None = None) -> Settings:
    """Settings that take nothing from the environment of the person who runs the tests."""
    return Settings(
        state=state,
        kafka_home=kafka_home,
        kafka_bootstrap=None,
        s3_endpoint=None,
        warehouse_url=None,
    )


@pytest.fixture(scope="session")
def stack_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of the embedded stack that is up for the whole session and shared."""
    settings = settings_of(tmp_path_factory.mktemp("stack"))
    try:
        up(settings)
        yield settings
    finally:
        down(settings)


@pytest.fixture(scope="session")
def stack(stack_settings: Settings) -> Endpoints:
    """Where the session's embedded stack is. Leave its parts alone: others use them."""
    return stack_settings.endpoints()


@pytest.fixture
def fresh_stack(tmp_path: Path) -> Iterator[Settings]:
    """Settings of a stack that is up for this test alone, to be killed at will."""
    settings = settings_of(tmp_path / "stack")
    try:
        up(settings)
        yield settings
    finally:
        down(settings)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Apache Kafka: PLANLOOP_TEST_KAFKA, or one started for the session."""
    given = os.environ.get("PLANLOOP_TEST_KAFKA")
    if given:
        yield given
        return
    settings = kafka_settings(tmp_path_factory.mktemp("kafka"))
    try:
        yield up(settings).kafka
    finally:
        down(settings)


def kafka_settings(state: Path) -> Settings:
    """Settings under which `up` starts nothing but Kafka; skips where there is none to start."""
    default = REPOSITORY.parent / "shared" / "kafka"
    home = Path(os.environ.get("PLANLOOP_KAFKA_HOME", default))
    if not (home / "libs").is_dir():
        pytest.skip(f"no Apache Kafka at {home}: set PLANLOOP_KAFKA_HOME or PLANLOOP_TEST_KAFKA")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Apache Kafka needs Java 17, and there is no java")
    nowhere = {"s3_endpoint": "127.0.0.1:9", "s3_access_key": "none", "s3_secret_key": "none"}
    return Settings(
        state=state,
        kafka_home=home,
        kafka_bootstrap=None,
        warehouse_url="http://none:none@127.0.0.1:9/default",  # pyright: ignore[reportArgumentType]
        **nowhere,  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture(params=["tansu", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of a broker; a test that takes it runs on the embedded one and on Kafka."""
    if request.param == "kafka":
        return request.getfixturevalue("kafka")
    endpoints: Endpoints = request.getfixturevalue("stack")
    return endpoints.kafka


@pytest.fixture
def fresh_topic(broker: str) -> Callable[..., Topic]:
    """Makes topics that no other test knows: fresh_topic(partitions=1, like=ROLLOUTS)."""

    def make(partitions: int = 1, like: Topic = ROLLOUTS) -> Topic:
        topic = Topic(
            f"{like.name}.{uuid.uuid4().hex[:12]}",
            like.key,
            partitions,
            like.retention_ms,
            like.bodies,
            like.about,
        )
        ensure_topics(broker, [topic])
        return topic

    return make
