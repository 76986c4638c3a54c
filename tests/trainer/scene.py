"""A small log made by hand: curated records and scored groups with known advantages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from schemas.event_pb2 import Event
from schemas.events import Stream
from schemas.governance_pb2 import (
    CURATION_OUTCOME_RETAINED,
    CurationOutcome,
    RecordCurated,
)
from schemas.rollout_pb2 import (
    ACTION_KIND_MESSAGE,
    ACTION_KIND_TOOL_CALL,
    BACKEND_SANDBOX,
    COST_UNIT_STEPS,
    DATA_SPLIT_TRAIN,
    FIDELITY_EXACT,
    DataSplit,
    Schedule,
)
from schemas.scoring_pb2 import (
    CLOSED_BY_COUNT,
    INVALID_REASON_NO_VERDICT,
    INVALID_REASON_UNSPECIFIED,
    REGIME_OUTCOME,
    GroupScored,
    MemberScored,
)
from schemas.training_pb2 import (
    TURN_ROLE_POLICY,
    TURN_ROLE_TOOL,
    TURN_ROLE_USER,
    ObjectRef,
    TrainingRecord,
    Turn,
)
from tests.trainer.doubles import MemoryLog, MemoryStore
from trainer.config import ModelConfig, TrainConfig

START = 1_760_000_000_000_000
INSTRUCTIONS = "You plan on a phone. Ask before you change anything. " * 4

TINY = TrainConfig(
    model=ModelConfig(
        hidden_size=16,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=8,
        ffn_size=16,
        context_length=256,
        vocabulary=512,
    ),
    window=96,
    least_context=16,
    rows_per_step=4,
    rows_per_micro_batch=2,
    supervised_warmup_steps=2,
    supervised_passes=1,
)


def policy_turn(text: str, *, masked: bool = False) -> Turn:
    return Turn(role=TURN_ROLE_POLICY, action=ACTION_KIND_MESSAGE, text=text, masked=masked)


def call(tool: str, arguments_json: str, *, masked: bool = False) -> Turn:
    return Turn(
        role=TURN_ROLE_POLICY,
        action=ACTION_KIND_TOOL_CALL,
        tool=tool,
        arguments_json=arguments_json,
        masked=masked,
    )


def tool_turn(text: str, error_code: str = "") -> Turn:
    return Turn(role=TURN_ROLE_TOOL, text=text, error_code=error_code)


def user_turn(text: str) -> Turn:
    return Turn(role=TURN_ROLE_USER, text=text)


def record(episode_id: str, turns: Sequence[Turn] | None = None) -> TrainingRecord:
    """A trajectory with one call that failed (masked), one that worked, and an answer."""
    if turns is None:
        number = sum(episode_id.encode())
        turns = [
            call("alarm.set", '{"hour": 25}', masked=True),
            tool_turn("no such hour", "INVALID_ARGUMENT"),
            call("alarm.set", f'{{"hour": {number % 24}}}'),
            tool_turn(f"alarm {number} set"),
            policy_turn(f"Done, your alarm {number} rings in time."),
        ]
    made = TrainingRecord(
        record_id=f"record:{episode_id}",
        episode_id=episode_id,
        instructions=INSTRUCTIONS,
        request="Wake me up tomorrow.",
        split=DATA_SPLIT_TRAIN,
        turns=turns,
    )
    for seq, turn in enumerate(made.turns, 1):
        turn.seq = seq
    return made


@dataclass
class Scene:
    """Writes what curation and the group fold would have written."""

    log: MemoryLog = field(default_factory=MemoryLog)
    store: MemoryStore = field(default_factory=MemoryStore)
    now: int = START

    def curate(
        self,
        made: TrainingRecord,
        *,
        group_id: str = "g",
        success: bool = True,
        outcome: CurationOutcome = CURATION_OUTCOME_RETAINED,
        reasons: Sequence[str] = (),
        split: DataSplit = DATA_SPLIT_TRAIN,
        content_digest: str | None = None,
    ) -> Event:
        made.group_id = group_id
        made.success = success
        content = made.SerializeToString(deterministic=True)
        digest = sha256(content).hexdigest()
        key = f"records/{digest}.pb"
        self.store.put(key, content)
        event = self._event(f"record:{made.episode_id}", group_id)
        event.record_curated.CopyFrom(
            RecordCurated(
                record_id=made.record_id,
                episode_id=made.episode_id,
                outcome=outcome,
                reasons=reasons,
                success=success,
                backend=BACKEND_SANDBOX,
                fidelity=FIDELITY_EXACT,
                content_digest=digest if content_digest is None else content_digest,
                object=ObjectRef(key=key, sha256=digest, bytes=len(content)),
                split=split,
            )
        )
        self.log.write([event])
        return event

    def score(
        self,
        group_id: str,
        advantages: Sequence[float],
        *,
        invalid: int = 0,
        successes: int = 1,
        lambda_eff: float = 0.1,
        split: DataSplit = DATA_SPLIT_TRAIN,
    ) -> Event:
        """Members are <group>/0, <group>/1, ...; `invalid` more follow behind."""
        event = self._event(f"{group_id}/scored", group_id)
        members = [
            MemberScored(
                episode_id=f"{group_id}/{number}",
                valid=number < len(advantages),
                invalid_reason=INVALID_REASON_UNSPECIFIED
                if number < len(advantages)
                else INVALID_REASON_NO_VERDICT,
                success=number < successes,
                advantage=advantages[number] if number < len(advantages) else 0.0,
            )
            for number in range(len(advantages) + invalid)
        ]
        event.group_scored.CopyFrom(
            GroupScored(
                task_id="task",
                regime=REGIME_OUTCOME,
                schedule=Schedule(
                    p_low=0.25,
                    p_high=0.75,
                    lambda_prog=0.5,
                    lambda_eff=lambda_eff,
                    cost_unit=COST_UNIT_STEPS,
                    cost_budget=10,
                ),
                size=max(2, len(advantages)),
                valid=len(advantages),
                successes=successes,
                closed_by=CLOSED_BY_COUNT,
                closed_at=event.occurred_at,
                members=members,
                split=split,
            )
        )
        self.log.write([event])
        return event

    def group(self, group_id: str, advantages: Sequence[float], successes: int = 1) -> Event:
        """A scored group whose members are all curated."""
        for number in range(len(advantages)):
            made = record(f"{group_id}/{number}")
            self.curate(made, group_id=group_id, success=number < successes)
        return self.score(group_id, advantages, successes=successes)

    def _event(self, stream_id: str, group_id: str) -> Event:
        self.now += 1_000_000
        return Stream(
            stream_id, tenant="local", producer="scene", group_id=group_id, schedule_version="phi-1"
        ).event(self.now)
