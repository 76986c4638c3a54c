"""The synchronous driver: folds over records in memory, for tests and replay, without effects."""

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.topics import Topic
from streams.fold import Fold, Output
from streams.host import Host, LogRecord


class Driver:
    """Applies records of `topic` to `folds`, one host a partition, and returns what they derive."""

    def __init__(self, topic: Topic, folds: Sequence[Fold[Any]], *, trust: bool = True) -> None:
        self.hosts: dict[int, Host] = {}
        self._topic = topic
        self._folds = folds
        self._trust = trust

    def apply(self, records: Iterable[LogRecord]) -> Output:
        output = Output()
        for record in records:
            host = self.hosts.get(record.partition)
            if host is None:
                host = self.hosts[record.partition] = Host(
                    self._topic, self._folds, trust=self._trust
                )
            given = host.apply((record,))
            output.events.extend(given.events)
            output.objects.extend(given.objects)
        return output


def drive(fold: Fold[Any], records: Iterable[LogRecord]) -> Output:
    """What one fold derives from records of its topic, read from their beginning."""
    return Driver(fold.topic, [fold]).apply(records)
