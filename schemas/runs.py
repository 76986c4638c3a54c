"""Runs: what a record holds of one stream, told without its events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schemas.event_pb2 import Event
from schemas.rollout_pb2 import ACTION_KIND_TOOL_CALL
from schemas.topics import BODIES
from schemas.validation import Vetted, glance

ACTION = BODIES["action_taken"]
OBSERVATION = BODIES["observation_received"]


@dataclass(slots=True)
class Run:
    """Events first_seq, first_seq + 1, ... of one stream, side by side in a record.

    `start` is the position of the first one in the record, `bodies` one byte an event (the
    field number of its body). The sums are over the run: `steps` actions, of which
    `tool_calls` are tool calls and `untold_actions` do not state their output tokens.
    Times are UTC microseconds.
    """

    start: int
    stream_id: str
    first_seq: int
    bodies: bytes
    tenant: str
    tool_calls: int
    output_tokens: int
    untold_actions: int
    errors: int
    earliest: int
    latest: int

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.bodies)

    @property
    def steps(self) -> int:
        return self.bodies.count(ACTION)


def runs_of(vetted: Iterable[tuple[int, Vetted]]) -> list[Run]:
    """The runs of events, given with their positions in ascending order."""
    runs: list[Run] = []
    stream = owner = ""
    next_seq = next_position = -1
    for position, (stream_id, seq, tenant, at, number, body) in vetted:
        if (
            seq == next_seq
            and position == next_position
            and stream_id == stream
            and tenant == owner
        ):
            run = runs[-1]
            run.bodies += _BYTE[number]
            if at > run.latest:
                run.latest = at
            elif at < run.earliest:
                run.earliest = at
        else:
            stream, owner = stream_id, tenant
            run = Run(position, stream_id, seq, _BYTE[number], tenant, 0, 0, 0, 0, at, at)
            runs.append(run)
        next_seq = seq + 1
        next_position = position + 1
        if number in _TALLIED:
            _tally(run, number, body)
    return runs


def _tally(run: Run, number: int, body: Any) -> None:
    if number == OBSERVATION:
        if body.error_code:
            run.errors += 1
        return
    if body.kind == ACTION_KIND_TOOL_CALL:
        run.tool_calls += 1
    if tokens := body.output_tokens:
        run.output_tokens += tokens
    elif not body.HasField("output_tokens"):
        run.untold_actions += 1


_TALLIED = frozenset((ACTION, OBSERVATION))

_BYTE = [bytes((number,)) for number in range(256)]


def run_of(event: Event, start: int) -> Run:
    """The run of a single event at position `start` of its record."""
    return runs_of(((start, glance(event)),))[0]


def append_run(runs: list[Run], run: Run) -> None:
    """Add a run, joined to the last one where it continues it."""
    if runs:
        last = runs[-1]
        if (
            last.stream_id == run.stream_id
            and last.next_seq == run.first_seq
            and last.start + len(last.bodies) == run.start
            and last.tenant == run.tenant
        ):
            last.bodies += run.bodies
            last.tool_calls += run.tool_calls
            last.output_tokens += run.output_tokens
            last.untold_actions += run.untold_actions
            last.errors += run.errors
            last.earliest = min(last.earliest, run.earliest)
            last.latest = max(last.latest, run.latest)
            return
    runs.append(run)
