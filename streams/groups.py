"""Groups: the trajectories of one task under one harness and one schedule, scored together.

A group is opened by GroupOpened and closes once: when it has as many valid members as
it wants, or when its own event time reaches the deadline. Event time of a group is the
latest time among its own events, so that a log imported from last year and a phone of
today do not close each other's groups; an idle group is moved on by ClockAdvanced. What
comes after the close changes no score and is recorded as late.
"""

import msgspec

from schemas.batch import Batch, Run, append_run, run_of
from schemas.event_pb2 import Event
from schemas.events import Stream, event_id
from schemas.refusal_pb2 import (
    REASON_AFTER_END,
    REASON_GROUP_UNKNOWN,
    REASON_IDENTITY_CONFLICT,
    REASON_SEQUENCE_GAP,
    REASON_WRONG_TENANT,
    Reason,
)
from schemas.scoring_pb2 import (
    CLOSED_BY_COUNT,
    CLOSED_BY_DEADLINE,
    ClosedBy,
    RefillRequested,
    SequenceGapFound,
)
from schemas.topics import BODIES, ROLLOUTS
from schemas.validation import Refusal
from streams.fold import Output
from streams.scoring import Member, Opened, late_verdict, opened_by, scored
from streams.trajectory import Episode, assemble, hold, holds_end, judged, markers, release, take

_OPENED = BODIES["group_opened"]
_CLOCK = BODIES["clock_advanced"]
_VERIFIED = BODIES["verification_made"]
_ALLOWED_AFTER_END = frozenset((_VERIFIED, BODIES["failure_diagnosed"]))

MAX_HELD = 4096
"""Events of one episode that may wait for a hole to be filled."""


class Group(msgspec.Struct, array_like=True):
    """State of one group. `derived` counts its derived events. Once it is closed, `scored_to`
    and `late_to` keep how far the streams of its members and of others have been seen."""

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

    def apply(self, state: Group, batch: Batch, output: Output) -> None:
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
            else:
                self._take(state, opened, run, batch, output)

    def _open(self, state: Group, run: Run, batch: Batch, output: Output) -> None:
        event = batch.event(run.start)
        if event.stream_id != state.group_id or event.seq != 0:
            detail = "a group is opened by event 0 of the stream that bears its name"
            _refuse(run, output, REASON_IDENTITY_CONFLICT, detail)
            return
        state.opened = opened_by(event)
        state.clock = event.occurred_at

    def _take(self, state: Group, opened: Opened, run: Run, batch: Batch, output: Output) -> None:
        if run.bodies[0] in (_OPENED, _CLOCK):
            self._advance_clock(state, run, batch)
        elif state.closed_at:
            self._take_late(state, opened, run, batch, output)
        elif opened.deadline and run.earliest >= opened.deadline:
            self._close(state, opened, run.earliest, CLOSED_BY_DEADLINE, output)
            self._take_late(state, opened, run, batch, output)
        else:
            self._take_in_time(state, opened, run, batch, output)
            state.clock = max(state.clock, run.latest)
        if opened.deadline and state.clock >= opened.deadline and not state.closed_at:
            self._close(state, opened, state.clock, CLOSED_BY_DEADLINE, output)

    def _advance_clock(self, state: Group, run: Run, batch: Batch) -> None:
        for position, body in enumerate(run.bodies):
            if body == _CLOCK:
                now = batch.event(run.start + position).clock_advanced.now
                state.clock = max(state.clock, now)

    def _take_in_time(
        self, state: Group, opened: Opened, run: Run, batch: Batch, output: Output
    ) -> None:
        episode = state.episodes.get(run.stream_id)
        if episode is None:
            episode = state.episodes[run.stream_id] = Episode(run.stream_id)
        for part in _unseen(episode.next_seq, run, batch):
            if episode.ended and not _ALLOWED_AFTER_END.issuperset(part.bodies):
                _refuse(part, output, REASON_AFTER_END, f"{run.stream_id} has ended")
            elif part.first_seq > episode.next_seq:
                self._hold(state, opened, episode, part, batch, output)
            else:
                take(episode, part, (batch.event(part.start + at) for at in markers(part)))
                release(episode)
                if episode.assembled:
                    self._late_verdicts(state, opened, part, batch, True, output)
        if not episode.assembled and _complete(episode, opened):
            self._assemble(state, opened, episode, run.latest, output)
            if state.valid == opened.size:
                self._close(state, opened, run.latest, CLOSED_BY_COUNT, output)

    def _hold(
        self,
        state: Group,
        opened: Opened,
        episode: Episode,
        run: Run,
        batch: Batch,
        output: Output,
    ) -> None:
        """Events came before their predecessors: say so once for each hole, and wait."""
        if len(episode.held) + len(run.bodies) > MAX_HELD:
            _refuse(run, output, REASON_SEQUENCE_GAP, f"{MAX_HELD} events wait already")
            return
        if not episode.held:
            event = self._derive(state, opened, run.latest, "")
            event.sequence_gap_found.CopyFrom(
                SequenceGapFound(
                    gapped_stream_id=run.stream_id,
                    expected_seq=episode.next_seq,
                    found_seq=run.first_seq,
                )
            )
            output.events.append(event)
        hold(episode, run, batch)

    def _take_late(
        self, state: Group, opened: Opened, run: Run, batch: Batch, output: Output
    ) -> None:
        was_member = run.stream_id in state.scored_to
        seen = state.scored_to if was_member else state.late_to
        next_seq = seen.get(run.stream_id, 0)
        for part in _unseen(next_seq, run, batch):
            seen[run.stream_id] = part.next_seq
            self._late_verdicts(state, opened, part, batch, was_member, output)

    def _late_verdicts(
        self,
        state: Group,
        opened: Opened,
        run: Run,
        batch: Batch,
        was_member: bool,
        output: Output,
    ) -> None:
        for position, body in enumerate(run.bodies):
            if body == _VERIFIED:
                late = batch.event(run.start + position)
                event = self._derive(state, opened, late.occurred_at, late.event_id)
                event.policy_version = late.policy_version
                event.verdict_came_late.CopyFrom(late_verdict(late, was_member))
                output.events.append(event)

    def _assemble(
        self, state: Group, opened: Opened, episode: Episode, at: int, output: Output
    ) -> None:
        episode.assembled = True
        assembled = assemble(episode, opened.phi())
        cause = event_id(episode.episode_id, assembled.last_seq)
        event = self._derive(state, opened, at, cause)
        event.policy_version = episode.policy_version
        event.episode_assembled.CopyFrom(assembled)
        output.events.append(event)
        state.members.append(
            Member(episode.policy_version, event.event_id, assembled.SerializeToString())
        )
        state.valid += assembled.valid
        if not assembled.valid and not state.closed_at:
            refill = self._derive(state, opened, at, event.event_id)
            refill.refill_requested.CopyFrom(
                RefillRequested(
                    task_id=opened.task_id,
                    replaces_episode_id=episode.episode_id,
                    reason=assembled.invalid_reason,
                    missing=opened.size - state.valid,
                )
            )
            output.events.append(refill)

    def _close(
        self, state: Group, opened: Opened, at: int, closed_by: ClosedBy, output: Output
    ) -> None:
        """Score the group with the valid members that it has, and forget its episodes."""
        state.closed_at = at
        for episode in state.episodes.values():
            if not episode.assembled:
                self._assemble(state, opened, episode, at, output)
        last = state.members[-1].event_id if state.members else event_id(state.group_id, 0)
        event = self._derive(state, opened, at, last)
        event.group_scored.CopyFrom(scored(opened, state.members, closed_by, at, self.version))
        output.events.append(event)
        state.scored_to = {name: episode.next_seq for name, episode in state.episodes.items()}
        state.episodes = {}
        state.members = []

    def _derive(self, state: Group, opened: Opened, at: int, cause: str) -> Event:
        """The next event of the group's derived stream, which bears the fold's version, so
        that another version's results stand beside these instead of being taken for them."""
        suffix = "scored" if self.version == 1 else f"scored.{self.version}"
        stream = Stream(
            f"{state.group_id}/{suffix}",
            tenant=opened.tenant,
            producer="planloop.groups",
            producer_version=str(self.version),
            group_id=state.group_id,
            policy_version=opened.policy_version,
            harness_version=opened.harness_version,
            schedule_version=opened.schedule_version,
            next_seq=state.derived,
        )
        state.derived += 1
        return stream.event(at, causation_id=cause)


def _complete(episode: Episode, opened: Opened) -> bool:
    """Whether an episode's record can be made. A group without a deadline has nothing that
    would end the wait for a verdict or for a hole to be filled, so it does not wait."""
    if episode.ended and not episode.held:
        return judged(episode) or not opened.deadline
    return not opened.deadline and holds_end(episode)


def _unseen(next_seq: int, run: Run, batch: Batch) -> list[Run]:
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
