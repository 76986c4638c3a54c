import pytest

from tests.bench.brokers import Broker, running
from tests.bench.memory import EVENTS, watch

SLACK = 48 * 2**20
"""What queues of the log's client may hold more at one time than at another."""


@pytest.mark.slow
def test_the_engine_does_not_grow_with_the_log() -> None:
    with running(Broker.TANSU) as site:
        samples = watch(site, EVENTS)
    total = samples[-1].events
    assert total >= EVENTS
    early = max(s.resident for s in samples if s.events <= 2 * total // 5)
    late = max(s.resident for s in samples if s.events >= 3 * total // 5)
    assert late <= early + SLACK
    assert max(s.open for s in samples) < 1000
