from schemas import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InvalidReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INVALID_REASON_UNSPECIFIED: _ClassVar[InvalidReason]
    INVALID_REASON_NO_VERDICT: _ClassVar[InvalidReason]
    INVALID_REASON_SEQUENCE_GAP: _ClassVar[InvalidReason]
    INVALID_REASON_NOT_STARTED: _ClassVar[InvalidReason]
    INVALID_REASON_UNFINISHED: _ClassVar[InvalidReason]
    INVALID_REASON_ENVIRONMENT: _ClassVar[InvalidReason]
    INVALID_REASON_INFRASTRUCTURE: _ClassVar[InvalidReason]
    INVALID_REASON_HARNESS: _ClassVar[InvalidReason]
    INVALID_REASON_INPUT: _ClassVar[InvalidReason]
    INVALID_REASON_NO_ACTION: _ClassVar[InvalidReason]
    INVALID_REASON_COST_UNKNOWN: _ClassVar[InvalidReason]

class Regime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGIME_UNSPECIFIED: _ClassVar[Regime]
    REGIME_PROGRESS: _ClassVar[Regime]
    REGIME_OUTCOME: _ClassVar[Regime]
    REGIME_EFFICIENCY: _ClassVar[Regime]
    REGIME_UNSCORED: _ClassVar[Regime]

class ClosedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOSED_BY_UNSPECIFIED: _ClassVar[ClosedBy]
    CLOSED_BY_COUNT: _ClassVar[ClosedBy]
    CLOSED_BY_DEADLINE: _ClassVar[ClosedBy]
INVALID_REASON_UNSPECIFIED: InvalidReason
INVALID_REASON_NO_VERDICT: InvalidReason
INVALID_REASON_SEQUENCE_GAP: InvalidReason
INVALID_REASON_NOT_STARTED: InvalidReason
INVALID_REASON_UNFINISHED: InvalidReason
INVALID_REASON_ENVIRONMENT: InvalidReason
INVALID_REASON_INFRASTRUCTURE: InvalidReason
INVALID_REASON_HARNESS: InvalidReason
INVALID_REASON_INPUT: InvalidReason
INVALID_REASON_NO_ACTION: InvalidReason
INVALID_REASON_COST_UNKNOWN: InvalidReason
REGIME_UNSPECIFIED: Regime
REGIME_PROGRESS: Regime
REGIME_OUTCOME: Regime
REGIME_EFFICIENCY: Regime
REGIME_UNSCORED: Regime
CLOSED_BY_UNSPECIFIED: ClosedBy
CLOSED_BY_COUNT: ClosedBy
CLOSED_BY_DEADLINE: ClosedBy

class EpisodeAssembled(_message.Message):
    __slots__ = ("episode_id", "task_id", "valid", "invalid_reason", "success", "progress", "cost", "steps", "tool_calls", "output_tokens", "errors", "termination", "started_at", "ended_at", "last_seq", "verification_id")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    INVALID_REASON_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    task_id: str
    valid: bool
    invalid_reason: InvalidReason
    success: bool
    progress: float
    cost: float
    steps: int
    tool_calls: int
    output_tokens: int
    errors: int
    termination: _rollout_pb2.Termination
    started_at: int
    ended_at: int
    last_seq: int
    verification_id: str
    def __init__(self, episode_id: _Optional[str] = ..., task_id: _Optional[str] = ..., valid: _Optional[bool] = ..., invalid_reason: _Optional[_Union[InvalidReason, str]] = ..., success: _Optional[bool] = ..., progress: _Optional[float] = ..., cost: _Optional[float] = ..., steps: _Optional[int] = ..., tool_calls: _Optional[int] = ..., output_tokens: _Optional[int] = ..., errors: _Optional[int] = ..., termination: _Optional[_Union[_rollout_pb2.Termination, str]] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., last_seq: _Optional[int] = ..., verification_id: _Optional[str] = ...) -> None: ...

class GroupScored(_message.Message):
    __slots__ = ("task_id", "regime", "schedule", "size", "valid", "successes", "success_rate", "reward_mean", "reward_std", "anchor", "epsilon", "progress_std", "closed_by", "members", "capabilities", "split", "closed_at", "fold_version")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REGIME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    REWARD_MEAN_FIELD_NUMBER: _ClassVar[int]
    REWARD_STD_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_STD_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_FIELD_NUMBER: _ClassVar[int]
    FOLD_VERSION_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    regime: Regime
    schedule: _rollout_pb2.Schedule
    size: int
    valid: int
    successes: int
    success_rate: float
    reward_mean: float
    reward_std: float
    anchor: float
    epsilon: float
    progress_std: float
    closed_by: ClosedBy
    members: _containers.RepeatedCompositeFieldContainer[MemberScored]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    split: _rollout_pb2.DataSplit
    closed_at: int
    fold_version: int
    def __init__(self, task_id: _Optional[str] = ..., regime: _Optional[_Union[Regime, str]] = ..., schedule: _Optional[_Union[_rollout_pb2.Schedule, _Mapping]] = ..., size: _Optional[int] = ..., valid: _Optional[int] = ..., successes: _Optional[int] = ..., success_rate: _Optional[float] = ..., reward_mean: _Optional[float] = ..., reward_std: _Optional[float] = ..., anchor: _Optional[float] = ..., epsilon: _Optional[float] = ..., progress_std: _Optional[float] = ..., closed_by: _Optional[_Union[ClosedBy, str]] = ..., members: _Optional[_Iterable[_Union[MemberScored, _Mapping]]] = ..., capabilities: _Optional[_Iterable[str]] = ..., split: _Optional[_Union[_rollout_pb2.DataSplit, str]] = ..., closed_at: _Optional[int] = ..., fold_version: _Optional[int] = ...) -> None: ...

class MemberScored(_message.Message):
    __slots__ = ("episode_id", "valid", "invalid_reason", "success", "progress", "cost", "reward", "reward_term", "advantage", "output_tokens", "tool_calls", "steps", "policy_version")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    INVALID_REASON_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    REWARD_TERM_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    valid: bool
    invalid_reason: InvalidReason
    success: bool
    progress: float
    cost: float
    reward: float
    reward_term: float
    advantage: float
    output_tokens: int
    tool_calls: int
    steps: int
    policy_version: str
    def __init__(self, episode_id: _Optional[str] = ..., valid: _Optional[bool] = ..., invalid_reason: _Optional[_Union[InvalidReason, str]] = ..., success: _Optional[bool] = ..., progress: _Optional[float] = ..., cost: _Optional[float] = ..., reward: _Optional[float] = ..., reward_term: _Optional[float] = ..., advantage: _Optional[float] = ..., output_tokens: _Optional[int] = ..., tool_calls: _Optional[int] = ..., steps: _Optional[int] = ..., policy_version: _Optional[str] = ...) -> None: ...

class RefillRequested(_message.Message):
    __slots__ = ("task_id", "replaces_episode_id", "reason", "missing")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REPLACES_EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    replaces_episode_id: str
    reason: InvalidReason
    missing: int
    def __init__(self, task_id: _Optional[str] = ..., replaces_episode_id: _Optional[str] = ..., reason: _Optional[_Union[InvalidReason, str]] = ..., missing: _Optional[int] = ...) -> None: ...

class SequenceGapFound(_message.Message):
    __slots__ = ("gapped_stream_id", "expected_seq", "found_seq")
    GAPPED_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    FOUND_SEQ_FIELD_NUMBER: _ClassVar[int]
    gapped_stream_id: str
    expected_seq: int
    found_seq: int
    def __init__(self, gapped_stream_id: _Optional[str] = ..., expected_seq: _Optional[int] = ..., found_seq: _Optional[int] = ...) -> None: ...

class VerdictCameLate(_message.Message):
    __slots__ = ("episode_id", "late_event_id", "success", "progress", "was_member")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    LATE_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    WAS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    late_event_id: str
    success: bool
    progress: float
    was_member: bool
    def __init__(self, episode_id: _Optional[str] = ..., late_event_id: _Optional[str] = ..., success: _Optional[bool] = ..., progress: _Optional[float] = ..., was_member: _Optional[bool] = ...) -> None: ...

class CompetenceMeasured(_message.Message):
    __slots__ = ("scope", "name", "episodes", "successes", "success_rate", "regime")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    REGIME_FIELD_NUMBER: _ClassVar[int]
    scope: str
    name: str
    episodes: int
    successes: int
    success_rate: float
    regime: Regime
    def __init__(self, scope: _Optional[str] = ..., name: _Optional[str] = ..., episodes: _Optional[int] = ..., successes: _Optional[int] = ..., success_rate: _Optional[float] = ..., regime: _Optional[_Union[Regime, str]] = ...) -> None: ...
