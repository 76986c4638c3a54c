"""What an importer gives: a log of events, ready to be sent, or a refusal that says why not.

Importing is all or nothing. Every event is built, validated and encoded before the first
one is sent, and identities come from the file's content, so that importing the same
content again, under any name, adds nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from producers.records import RecordSink, records
from schemas.errors import InputError
from schemas.event_pb2 import Event
from schemas.refusal_pb2 import Reason
from schemas.topics import ROLLOUTS, Topic
from schemas.validation import check

MAX_FINDINGS = 100
"""A report lists this many findings; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction: where in the file (`$[3].traj[7]`, as in JSONPath) and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class ImportRefusedError(InputError):
    """A file contradicts itself or cannot be read. `findings` says where; nothing was sent."""

    failed = "import"

    def __init__(self, source: str, findings: Sequence[Finding], more: int = 0) -> None:
        self.findings = tuple(findings)
        self.more = more
        count = len(self.findings) + more
        head = f"{source} is refused whole, nothing was sent: {count} finding(s)"
        lines = [f"  {finding}" for finding in self.findings]
        if more:
            lines.append(f"  and {more} more")
        super().__init__("\n".join([head, *lines]))


@dataclass(slots=True)
class Findings:
    """Collects what is wrong with one file."""

    source: str
    listed: list[Finding] = field(default_factory=list)
    more: int = 0

    def add(self, where: str, what: str) -> None:
        if len(self.listed) < MAX_FINDINGS:
            self.listed.append(Finding(where, what))
        else:
            self.more += 1

    def refuse_if_any(self) -> None:
        """Raise ImportRefusedError if there is a finding."""
        if self.listed:
            raise ImportRefusedError(self.source, self.listed, self.more)


class KeyedEvents(NamedTuple):
    """Events that travel under one key of one topic, in their order."""

    topic: Topic
    key: str
    events: list[Event]


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """A log that passed its checks. `build` makes its events anew at each call, key by key.

    `streams` names every stream of the log, `digest` is the SHA-256 of the content that it
    came from (of what the generator was given, where nothing was read).
    """

    source: str
    digest: str
    groups: int
    episodes: int
    streams: Sequence[str]
    build: Callable[[], Iterator[KeyedEvents]]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """`new` events were sent, `known` ones were on the log already; together: `events`."""

    new: int
    known: int
    events: int
    groups: int
    episodes: int


def import_log(
    log: ImportedLog,
    producer: RecordSink,
    known: Callable[[Sequence[str]], Mapping[str, int]],
    on_progress: Callable[[int, int], object] | None = None,
) -> ImportReport:
    """Send what is not on the log yet, and return once all of it is acknowledged.

    `known` maps the streams that are on the log to their next sequence number; streams that
    it leaves out are new. `on_progress(done, total)` counts groups that are built and encoded.

    Raises ImportRefusedError, with nothing sent, if any event would not pass the edge, and
    what `producer` raises when the log is away.
    """
    positions = known(log.streams)
    findings = Findings(log.source)
    values: list[tuple[str, str, bytes]] = []
    events = new = groups = 0
    for keyed in log.build():
        events += len(keyed.events)
        fresh = [e for e in keyed.events if e.seq >= positions.get(e.stream_id, 0)]
        new += len(fresh)
        for event in fresh:
            refusal = check(event, keyed.topic, keyed.key)
            if refusal is not None:
                findings.add(event.event_id, f"{Reason.Name(refusal.reason)}: {refusal.detail}")
        values += [(keyed.topic.name, keyed.key, v) for v in records(fresh)]
        if keyed.topic is ROLLOUTS:
            groups += 1
            if on_progress:
                on_progress(groups, log.groups)
    findings.refuse_if_any()
    for value in values:
        producer.send(*value)
    producer.flush()
    return ImportReport(new, events - new, events, log.groups, log.episodes)
