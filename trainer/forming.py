"""Forming batches: which rollouts are trained on together, and with what weight.

Groups are left out when every advantage is zero, never for their success: a group
that always succeeds still teaches economy. Advantages are taken as they were scored.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from schemas.errors import CheckFailedError, InputError
from schemas.event_pb2 import Event
from schemas.scoring_pb2 import MemberScored
from schemas.topics import MAX_EVENT_BYTES
from schemas.training_pb2 import (
    BATCH_KIND_CARE,
    BATCH_KIND_SUPERVISED,
    BatchKind,
    BatchReady,
    BatchRow,
    TrainingRecord,
)
from streams.batches import batch_digest
from trainer.batch import Window, targets_in, tokens_in, windows
from trainer.codec import Sequence as Tokens
from trainer.codec import UnfitRecordError
from trainer.config import TrainConfig, check_group
from trainer.history import TRAINABLE_SPLITS, History, usable_in_group
from trainer.policy import Policy
from trainer.ports import Store

NAMES = {BATCH_KIND_SUPERVISED: "supervised", BATCH_KIND_CARE: "care"}


@dataclass(frozen=True, slots=True)
class Formed:
    """A batch and what it takes to train it. `behaviour` says where the ratio of equation 10
    is taken against: "recorded" log-probabilities of the sampler, "recomputed" ones of the
    policy at the start of the update, "mixed", or "" for a supervised batch."""

    body: BatchReady
    rows: Sequence[Window]
    occurred_at: int
    schedule_version: str
    groups: int
    groups_without_advantage: int
    behaviour: str


MAX_ROWS_BYTES = MAX_EVENT_BYTES // 2
"""Rows of a batch, encoded: its BatchReady has to pass the edge."""


@dataclass(slots=True)
class _Draft:
    """A batch in the making, with room for about `budget` tokens."""

    budget: int
    rows: list[BatchRow] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    sources: list[Event] = field(default_factory=list)
    recorded: set[bool] = field(default_factory=set)
    tokens: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        return self.tokens >= self.budget or self.bytes >= MAX_ROWS_BYTES

    def add(self, rows: Sequence[BatchRow], cut: Sequence[Window], source: Event) -> None:
        self.rows += rows
        self.windows += cut
        self.sources.append(source)
        self.tokens += tokens_in(cut)
        self.bytes += sum(row.ByteSize() for row in rows)


class Former:
    """Forms batches for one policy out of what the log has. `left_out` counts, by reason, what
    could not go into a batch; `waiting` what waits for a later run."""

    def __init__(self, history: History, store: Store, policy: Policy, config: TrainConfig) -> None:
        self.left_out: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self._history = history
        self._store = store
        self._policy = policy
        self._config = config

    def check(self) -> None:
        """Refuse what must not be trained on, before anything is: InputError, ConfigError."""
        for event in self._history.scored():
            if _has_advantage(event):
                check_group(event.group_id, event.group_scored.size, event.group_scored.schedule)

    def supervised(self, policy_version: str) -> Formed | None:
        """The oldest demonstrations that fit the budget; None if nothing there is to learn."""
        draft = _Draft(self._config.supervised_token_budget // self._config.supervised_passes)
        for event in self._history.demonstrations():
            if draft.full:
                self.waiting["records beyond the budget"] += 1
                continue
            try:
                record = load_record(self._store, event)
                cut = self._demonstration(record)
            except UnfitRecordError as error:
                self.left_out[error.message] += 1
                continue
            if not cut:
                self.left_out["no trainable tokens"] += 1
                continue
            row = BatchRow(
                episode_id=record.episode_id,
                group_id=record.group_id,
                source_event_id=event.event_id,
                weight=1.0,
            )
            draft.add([row], cut, event)
        return self._formed(BATCH_KIND_SUPERVISED, policy_version, draft) if draft.rows else None

    def care(self, policy_version: str) -> Formed | None:
        """The oldest whole groups with an advantage that fit the budget; None if there are none.

        A group waits until each valid member has been curated. Members that curation held
        back give no row; G_eff in the denominator stays that of the score.
        """
        draft = _Draft(self._config.care_token_budget)
        for event in self._history.scored():
            if not _has_advantage(event):
                self.left_out["groups without advantage"] += 1
                continue
            group = event.group_scored
            members = [member for member in group.members if member.valid]
            if any(member.episode_id not in self._history.records for member in members):
                self.waiting["groups with members not yet curated"] += 1
                continue
            if draft.full:
                self.waiting["groups beyond the budget"] += 1
                continue
            self._take_group(event, members, draft)
        return self._formed(BATCH_KIND_CARE, policy_version, draft) if draft.rows else None

    def again(self, event: Event) -> Formed:
        """An announced batch, from its rows on the log."""
        body = event.batch_ready
        supervised = body.kind == BATCH_KIND_SUPERVISED
        draft = _Draft(budget=0)
        for row in body.rows:
            record_event = self._history.records.get(row.episode_id)
            source = record_event if supervised else self._history.groups.get(row.group_id)
            if record_event is None or source is None:
                raise InputError(
                    f"batch {body.batch_id} names {row.source_event_id}, which is not on the log",
                    "run the trainer against the log that the batch was announced on",
                )
            record = load_record(self._store, record_event)
            if supervised:
                cut = self._demonstration(record)
            else:
                tokens = self._policy.codec.encode(record)
                cut = self._rollout(tokens, row, source)
                draft.recorded.add(tokens.recorded)
            draft.add([row], cut, source)
        formed = self._formed(body.kind, body.policy_version, draft)
        if formed.body.batch_id != body.batch_id:
            raise CheckFailedError(
                f"batch {body.batch_id} does not match its own rows", "ask `planloop verify`"
            )
        return formed

    def _take_group(self, event: Event, members: Iterable[MemberScored], draft: _Draft) -> None:
        rows: list[BatchRow] = []
        cut: list[Window] = []
        recorded: set[bool] = set()
        for member in members:
            record_event = self._history.records[member.episode_id]
            if not usable_in_group(record_event.record_curated):
                self.left_out["members that curation held back"] += 1
                continue
            row = BatchRow(
                episode_id=member.episode_id,
                group_id=event.group_id,
                source_event_id=event.event_id,
                advantage=member.advantage,
                weight=1.0,
            )
            try:
                tokens = self._policy.codec.encode(load_record(self._store, record_event))
                cut += self._rollout(tokens, row, event)
            except UnfitRecordError as error:
                self.left_out[error.message] += 1
                continue
            rows.append(row)
            recorded.add(tokens.recorded)
        if not cut:
            self.left_out["groups with no trainable tokens"] += 1
            return
        draft.add(rows, cut, event)
        draft.recorded |= recorded

    def _demonstration(self, record: TrainingRecord) -> list[Window]:
        tokens = self._policy.codec.encode(record)
        return list(
            windows(
                tokens,
                window=self._config.window,
                least_context=self._config.least_context,
                weight=1.0,
            )
        )

    def _rollout(self, tokens: Tokens, row: BatchRow, group: Event) -> list[Window]:
        """Windows of one row under equation 10. A rollout whose sampler's log-probabilities are
        recorded is not cut, since cutting the context would change the ratio."""
        if not tokens.generated:
            raise UnfitRecordError("a rollout has no generated tokens")
        window = self._config.window
        if tokens.recorded:
            window = self._policy.context_length
            if len(tokens.ids) > window:
                raise UnfitRecordError("a rollout is longer than the policy's context")
        if row.advantage == 0:
            return []
        return list(
            windows(
                tokens,
                window=window,
                least_context=self._config.least_context,
                weight=row.weight / (group.group_scored.valid * tokens.generated),
                advantage=row.advantage,
                masked_too=True,
            )
        )

    def _formed(self, kind: BatchKind, policy_version: str, draft: _Draft) -> Formed:
        digest = batch_digest(draft.rows)
        newest = max(draft.sources, key=lambda event: (event.occurred_at, event.event_id))
        care = kind == BATCH_KIND_CARE
        behaviours = {True: "recorded", False: "recomputed"}
        return Formed(
            body=BatchReady(
                batch_id=f"{NAMES[kind]}-{digest[:16]}",
                kind=kind,
                policy_version=policy_version,
                rows=draft.rows,
                trained_tokens=targets_in(draft.windows),
                digest=digest,
            ),
            rows=draft.windows,
            occurred_at=newest.occurred_at,
            schedule_version=newest.schedule_version,
            groups=len({row.group_id for row in draft.rows}) if care else 0,
            groups_without_advantage=self._without_advantage(newest) if care else 0,
            behaviour="mixed"
            if len(draft.recorded) > 1
            else "".join(behaviours[recorded] for recorded in draft.recorded),
        )

    def _without_advantage(self, newest: Event) -> int:
        """Groups without advantage that closed since the CARE batch before this one."""
        before = max(
            (
                event.occurred_at
                for event in self._history.ready.values()
                if event.batch_ready.kind == BATCH_KIND_CARE
                and event.batch_ready.batch_id in self._history.trained
            ),
            default=-1,
        )
        return sum(
            before < event.occurred_at <= newest.occurred_at and not _has_advantage(event)
            for event in self._history.scored()
        )


def load_record(store: Store, event: Event) -> TrainingRecord:
    """The record that a RecordCurated names. CheckFailedError if its bytes are not the ones
    that were curated, UnfitRecordError if its task is held out after all."""
    reference = event.record_curated.object
    content = store.get(reference.key)
    if sha256(content).hexdigest() != reference.sha256:
        raise CheckFailedError(
            f"the object {reference.key} is not what {event.event_id} announced",
            "restore it, or curate the episode again",
        )
    record = TrainingRecord.FromString(content)
    if record.split not in TRAINABLE_SPLITS:
        raise UnfitRecordError("a record's task is held out")
    return record


def _has_advantage(event: Event) -> bool:
    advantages = [member.advantage for member in event.group_scored.members if member.valid]
    if not all(map(math.isfinite, advantages)):
        raise InputError(
            f"{event.event_id} has an advantage that is not a number; nothing was trained",
            "score the group again from its rollouts",
        )
    return any(advantages)
