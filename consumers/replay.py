"""Replay: derive again what the log implies, from any part of it, without any effect.

There is nothing here that could send, store or insert: replay yields what the folds derive
and the caller looks at it. `Past` reads the log as far back as it goes, from the archive
first and from the log itself for what is not archived yet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from consumers.archive import Objects, archived_end, archived_partitions, read_archive, segments
from infra.log import Record, partitions_of, read_range
from schemas.errors import InputError
from schemas.topics import Topic
from streams.fold import Fold, Output
from streams.host import Host


@dataclass(frozen=True, slots=True)
class Span:
    """Which records: offsets first to last (inclusive, in each partition), broker times from
    `since` to before `until` in UTC microseconds, and record keys; None means all.

    A fold that starts in the middle of a group sees events of a group that it does not know,
    so ranges of time and offset are for looking, and `keys` for replaying whole groups.
    """

    first: int = 0
    last: int | None = None
    since: int | None = None
    until: int | None = None
    keys: frozenset[bytes] | None = None


ALL = Span()


class Past:
    """All records of a topic. Give a store, a broker or both; InputError for neither."""

    def __init__(self, store: Objects | None = None, bootstrap: str | None = None) -> None:
        if store is None and bootstrap is None:
            raise InputError("nothing to replay from", "name an archive, a broker or both")
        self._store = store
        self._bootstrap = bootstrap

    def partitions(self, topic: str) -> list[int]:
        found: set[int] = set()
        if self._store is not None:
            found.update(archived_partitions(self._store, topic))
        if self._bootstrap is not None:
            found.update(partitions_of(self._bootstrap, topic))
        return sorted(found)

    def records(self, topic: str, partition: int, span: Span = ALL) -> Iterator[list[Record]]:
        """Records of a span in order. CheckFailedError for a corrupt segment and for a hole."""
        for batch in self._read(topic, partition, span):
            chosen = batch if span.keys is None else [r for r in batch if r.key in span.keys]
            if chosen:
                yield chosen

    def _read(self, topic: str, partition: int, span: Span) -> Iterator[list[Record]]:
        first, last = span.first, span.last
        if self._store is not None:
            end = archived_end(segments(self._store, topic, partition))
            if first < end:
                to = end - 1 if last is None else min(last, end - 1)
                yield from read_archive(
                    self._store, topic, partition, first, to, since=span.since, until=span.until
                )
            first = max(first, end)
        if self._bootstrap is not None and (last is None or first <= last):
            for batch in read_range(self._bootstrap, topic, partition, first, last):
                yield [one for one in batch if _timely(one, span)]


def _timely(record: Record, span: Span) -> bool:
    at = record.timestamp
    return (span.since is None or at >= span.since) and (span.until is None or at < span.until)


def replay(
    past: Past,
    topic: Topic,
    folds: Sequence[Fold[Any]],
    span: Span = ALL,
    *,
    trust: bool = True,
) -> Iterator[Output]:
    """What `folds` derive from a topic's records, partition by partition, in the log's order.

    `trust` False parses and validates every event instead of believing the records' indexes.
    """
    for partition in past.partitions(topic.name):
        host = Host(topic, folds, trust=trust)
        for batch in past.records(topic.name, partition, span):
            yield host.apply(batch)
