"""Dead letters: what was refused, why, and how it gets another chance.

They are read from the log, so they can be listed when everything else is down. Requeueing
writes the refused bytes as they were to where they came from, under their own key, and
nothing else: what is refused again is a new dead letter at its new offset, and what passes
is known by its identity if it had passed before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from infra.log import Producer, partitions_of, read_range
from infra.objects import ObjectStore
from schemas.batch import Batch
from schemas.errors import CheckFailedError, InputError
from schemas.event_pb2 import Event, EventBatch
from schemas.refusal_pb2 import DeadLetter, Reason
from schemas.topics import BY_NAME, DEAD_LETTERS


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter under the id that `show` and `requeue` take (its event_id)."""

    letter_id: str
    body: DeadLetter

    @property
    def reason(self) -> str:
        """Lower-case name, such as "wrong_key"."""
        name = Reason.Name(self.body.reason) if self.body.reason in Reason.values() else ""
        return name.removeprefix("REASON_").lower() or str(self.body.reason)


def dead_letters(bootstrap: str) -> Iterator[Letter]:
    """Every dead letter on the log, once each, oldest first within a partition."""
    seen: set[str] = set()
    for partition in partitions_of(bootstrap, DEAD_LETTERS.name):
        for batch in read_range(bootstrap, DEAD_LETTERS.name, partition):
            for record in batch:
                read = Batch(record.value, record.key, DEAD_LETTERS)
                for run in read.runs:
                    for position in range(run.start, run.start + len(run.bodies)):
                        event = read.event(position)
                        if event.event_id not in seen:
                            seen.add(event.event_id)
                            yield Letter(event.event_id, event.dead_letter)


def find(bootstrap: str, letter_ids: Sequence[str]) -> list[Letter]:
    """The letters of these ids, in their order; InputError names those that are not there."""
    wanted = set(letter_ids)
    found = {one.letter_id: one for one in dead_letters(bootstrap) if one.letter_id in wanted}
    if absent := [one for one in letter_ids if one not in found]:
        raise InputError(f"no dead letter {', '.join(absent)}", "see `planloop dead-letters list`")
    return [found[one] for one in letter_ids]


def raw_of(letter: Letter, store: ObjectStore) -> bytes:
    """The refused bytes; CheckFailedError if the stored ones are not as many as were refused."""
    body = letter.body
    raw = store.get(body.object_key) if body.object_key else body.raw
    if len(raw) != body.raw_bytes:
        raise CheckFailedError(
            f"dead letter {letter.letter_id} has {len(raw)} of {body.raw_bytes} bytes"
        )
    return raw


def contents(letter: Letter, raw: bytes) -> list[Event]:
    """What protobuf makes of the refused bytes, for people to look at; empty where nothing."""
    topic = BY_NAME.get(letter.body.topic, DEAD_LETTERS)
    value = raw if not letter.body.HasField("index") else framed(raw)
    batch = Batch(value, letter.body.key, topic, trust=False)
    whole = {position for position, _ in batch.refusals} == {None}
    if whole:
        return []
    bad = [position for position, _ in batch.refusals if position is not None]
    good = [at for run in batch.runs for at in range(run.start, run.start + len(run.bodies))]
    events: list[Event] = []
    for position in sorted(bad + good):
        try:
            events.append(batch.event(position))
        except ValueError:
            continue
    return events


def framed(event: bytes) -> bytes:
    """A record value that holds one event's bytes as they are, whether they parse or not."""
    size, length = bytearray(), len(event)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    tag = EventBatch.EVENTS_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
    return bytes((tag,)) + bytes(size) + event


_LENGTH_DELIMITED = 2


def requeue(producer: Producer, store: ObjectStore, letters: Sequence[Letter]) -> int:
    """Write letters back to their topics, whole records whole and single events on their own.

    Durable on return. InputError, before anything is written, for a topic that is not in the
    catalogue. Returns how many were written.
    """
    for letter in letters:
        if letter.body.topic not in BY_NAME:
            raise InputError(f"{letter.letter_id} came from {letter.body.topic}, no topic of ours")
    for letter in letters:
        raw = raw_of(letter, store)
        value = framed(raw) if letter.body.HasField("index") else raw
        producer.send(letter.body.topic, letter.body.key, value)
    producer.flush()
    return len(letters)
