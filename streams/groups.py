"""Groups: the trajectories of one task under one harness and one schedule, scored together.

A group is opened by GroupOpened and closes once: when it has as many valid members as
it wants, or when its own event time reaches the deadline. Event time of a group is the
latest time among its own events, so that a log imported from last year and a phone of
today do not close each other's groups; an idle group is moved on by ClockAdvanced. What
comes after the close changes no score and is recorded as late.

The result depends on the events and their order alone, never on how they came to be in
records: a run is taken in one piece only where no event inside it could end anything.
"""

from collections.abc import Iterable

import msgspec

from schemas.batch import Run, append_run, run_of
from schemas.event_pb2 import Event
from schemas.events import event_id
from schemas.joined import Indexed
from schemas.refusal_pb2 import (
    REASON_AFTER_END,
    REASON_GROUP_UNKNOWN,
    REASON_IDENTITY_CONFLICT,
    REASON_SEQUENCE_GAP,
    REASON_WRONG_TENANT,
    Reason,
)
from schemas.scoring_pb2 import CLOSED_BY_COUNT, CLOSED_BY_DEADLINE, ClosedBy
from schemas.topics import BODIES, ROLLOUTS
from schemas.validation import Refusal
from streams.fold import Output
from streams.scoring import Opened, late_verdict, opened_by, score_into
from streams.trajectory import Episode, Member, assemble, hold, holds_end, judged, release, take

_OPENED = BODIES["group_opened"]
_CLOCK = BODIES["clock_advanced"]
_VERIFIED = BODIES["verification_made"]
_ENDED = BODIES["episode_ended"]
_ALLOWED_AFTER_END = frozenset((_VERIFIED, BODIES["failure_diagnosed"]))

MAX_HELD = 4096
"""Events of one episode that may wait for a hole to be filled."""


class Group(msgspec.Struct, array_like=True):
    """State of one group. `derived` counts its derived events. Once it is closed, `scored_to`
    keeps how far its members' streams were scored, `late_to` how far streams came after that."""

    group_id: str
    opened: Opened | None = None
    clock: int = 0
    derived: int = 0
    valid: int = 0
    episodes: dict[str, Episode] = {}
    members: list[Member] = []
    scored_to: dict[str, int] = {}
    late_to: dict[str, int] = {}
    closed_at: int = 0


def clock_stream(group_id: str) -> str:
    """The stream in which whoever watches over a group reports that its time goes on."""
    return f"{group_id}/clock"


class GroupFold:
    """Assembles trajectories and scores groups under CARE."""

    name = "groups"
    version = 1
    topic = ROLLOUTS
    state_type = Group

    def key(self, record_key: str) -> str:
        return record_key

    def initial(self, key: str) -> Group:
        return Group(key)

    def closed(self, state: Group) -> bool:
        return state.closed_at != 0 or state.opened is None

    def apply(self, state: Group, batch: Indexed, output: Output) -> None:
        for run in batch.runs:
            opened = state.opened
            if opened is None:
                if run.bodies[0] == _OPENED:
                    self._open(state, run, batch, output)
                else:
                    _refuse(run, output, REASON_GROUP_UNKNOWN, f"{state.group_id} is not open")
            elif run.tenant != opened.tenant:
                detail = f"{state.group_id} belongs to another tenant than {run.tenant}"
                _refuse(run, output, REASON_WRONG_TENANT, detail)
            elif run.stream_id == state.group_id or run.stream_id == clock_stream(state.group_id):
                self._advance_clock(state, opened, run, batch, output)
            elif state.closed_at:
                self._take_late(state, opened, run, batch, output)
            else:
                self._take(state, opened, run, batch, output)

    def _open(self, state: Group, run: Run, batch: Indexed, output: Output) -> None:
        event = batch.event(run.start)
        if event.stream_id != state.group_id or event.seq != 0:
            detail = "a group is opened by event 0 of the stream that bears its name"
            _refuse(run, output, REASON_IDENTITY_CONFLICT, detail)
            return
        state.opened = opened = opened_by(event, self.version)
        state.clock = event.occurred_at
        self._advance_clock(state, opened, run, batch, output)

    def _advance_clock(
        self, state: Group, opened: Opened, run: Run, batch: Indexed, output: Output
    ) -> None:
        for position, body in enumerate(run.bodies, run.start):
            if body == _CLOCK:
                state.clock = max(state.clock, batch.event(position).clock_advanced.now)
                if opened.deadline and state.clock >= opened.deadline and not state.closed_at:
                    self._close(state, opened, state.clock, CLOSED_BY_DEADLINE, output)

    def _take(self, state: Group, opened: Opened, run: Run, batch: Indexed, output: Output) -> None:
        episode = state.episodes.get(run.stream_id)
        if episode is None:
            episode = state.episodes[run.stream_id] = Episode(run.stream_id)
        pieces: Iterable[Run] = (run,)
        if len(run.bodies) > 1 and (
            episode.ended
            or _ENDED in run.bodies[:-1]
            or (opened.deadline and run.latest >= opened.deadline)
        ):
            positions = range(run.start, run.start + len(run.bodies))
            pieces = (run_of(batch.event(position), position) for position in positions)
        for piece in pieces:
            if opened.deadline and piece.latest >= opened.deadline and not state.closed_at:
                self._close(state, opened, piece.latest, CLOSED_BY_DEADLINE, output)
            if state.closed_at:
                self._take_late(state, opened, piece, batch, output)
            else:
                state.clock = max(state.clock, piece.latest)
                self._take_in_time(state, opened, episode, piece, batch, output)

    def _take_in_time(
        self,
        state: Group,
        opened: Opened,
        episode: Episode,
        run: Run,
        batch: Indexed,
        output: Output,
    ) -> None:
        if run.first_seq < episode.next_seq:
            tail = _unseen(episode.next_seq, run, batch)
            if not tail:
                return
            run = tail[0]
        if run.first_seq > episode.next_seq:
            self._hold(state, opened, episode, run, batch, output)
        elif episode.ended and not _ALLOWED_AFTER_END.issuperset(run.bodies):
            _refuse(run, output, REASON_AFTER_END, f"{run.stream_id} has ended")
            return
        else:
            take(episode, run, batch)
            if episode.held:
                release(episode)
            if episode.assembled:
                self._late_verdicts(state, opened, run, batch, True, output)
                return
        if episode.ended or episode.held:
            self._complete(state, opened, episode, output)

    def _complete(self, state: Group, opened: Opened, episode: Episode, output: Output) -> None:
        """Assemble the episode if its record can be made, and close the group if it was the
        last one. A group without a deadline has nothing that would end the wait for a verdict
        or for a hole to be filled, so it does not wait."""
        if episode.ended and not episode.held:
            complete = judged(episode) or not opened.deadline
        else:
            complete = not opened.deadline and holds_end(episode)
        if complete and not episode.assembled:
            at = episode.complete_at or state.clock
            self._assemble(state, opened, episode, at, output)
            if state.valid == opened.size:
                self._close(state, opened, at, CLOSED_BY_COUNT, output)

    def _hold(
        self,
        state: Group,
        opened: Opened,
        episode: Episode,
        run: Run,
        batch: Indexed,
        output: Output,
    ) -> None:
        """Events came before their predecessors: say so once for each hole, and wait."""
        if len(episode.held) + len(run.bodies) > MAX_HELD:
            _refuse(run, output, REASON_SEQUENCE_GAP, f"{MAX_HELD} events wait already")
            return
        if not episode.held:
            first = batch.event(run.start)
            event = self._derive(state, opened, first.occurred_at, first.event_id)
            gap = event.sequence_gap_found
            gap.gapped_stream_id = run.stream_id
            gap.expected_seq = episode.next_seq
            gap.found_seq = run.first_seq
            output.events.append(event)
        hold(episode, run, batch)

    def _take_late(
        self, state: Group, opened: Opened, run: Run, batch: Indexed, output: Output
    ) -> None:
        stream = run.stream_id
        was_member = stream in state.scored_to
        seen = state.late_to.get(stream, state.scored_to.get(stream, 0))
        for part in _unseen(seen, run, batch):
            state.late_to[stream] = part.next_seq
            self._late_verdicts(state, opened, part, batch, was_member, output)

    def _late_verdicts(
        self,
        state: Group,
        opened: Opened,
        run: Run,
        batch: Indexed,
        was_member: bool,
        output: Output,
    ) -> None:
        for position, body in enumerate(run.bodies, run.start):
            if body == _VERIFIED:
                late = batch.event(position)
                event = self._derive(state, opened, late.occurred_at, late.event_id)
                event.policy_version = late.policy_version
                event.verdict_came_late.CopyFrom(late_verdict(late, was_member))
                output.events.append(event)

    def _assemble(
        self, state: Group, opened: Opened, episode: Episode, at: int, output: Output
    ) -> None:
        episode.assembled = True
        event = self._derive(state, opened, at, "")
        member = assemble(episode, opened.phi, event)
        output.events.append(event)
        state.members.append(member)
        if member.valid:
            state.valid += 1
        elif not state.closed_at:
            refill = self._derive(state, opened, at, event.event_id)
            wanted = refill.refill_requested
            wanted.task_id = opened.task_id
            wanted.replaces_episode_id = episode.episode_id
            wanted.reason = member.invalid_reason  # pyright: ignore[reportAttributeAccessIssue]
            wanted.missing = opened.size - state.valid
            output.events.append(refill)

    def _close(
        self, state: Group, opened: Opened, at: int, closed_by: ClosedBy, output: Output
    ) -> None:
        """Score the group with the valid members that it has, and forget its episodes."""
        state.closed_at = at
        for episode in state.episodes.values():
            if not episode.assembled and episode.next_seq + len(episode.held):
                self._assemble(state, opened, episode, at, output)
        last = state.members[-1].event_id if state.members else event_id(state.group_id, 0)
        event = self._derive(state, opened, at, last)
        members = state.members
        score_into(event.group_scored, opened, members, closed_by, at, self.version)
        output.events.append(event)
        state.scored_to = {name: episode.next_seq for name, episode in state.episodes.items()}
        state.episodes = {}
        state.members = []

    def _derive(self, state: Group, opened: Opened, at: int, cause: str) -> Event:
        """The next event of the group's derived stream, its body still to be filled in."""
        event = Event.FromString(opened.envelope)
        event.seq = state.derived
        event.event_id = event_id(event.stream_id, state.derived)
        event.causation_id = cause
        event.occurred_at = at
        event.recorded_at = at
        state.derived += 1
        return event


def _unseen(next_seq: int, run: Run, batch: Indexed) -> list[Run]:
    """The part of a run that is new to a stream seen up to `next_seq`: all, none or its tail."""
    if run.first_seq >= next_seq:
        return [run]
    tail: list[Run] = []
    for position in range(run.start + next_seq - run.first_seq, run.start + len(run.bodies)):
        append_run(tail, run_of(batch.event(position), position))
    return tail


def _refuse(run: Run, output: Output, reason: Reason, detail: str) -> None:
    refusal = Refusal(reason, detail)
    output.refused.extend(
        (position, refusal) for position in range(run.start, run.start + len(run.bodies))
    )
