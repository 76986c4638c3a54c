from schemas import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_KIND_UNSPECIFIED: _ClassVar[BatchKind]
    BATCH_KIND_SUPERVISED: _ClassVar[BatchKind]
    BATCH_KIND_CARE: _ClassVar[BatchKind]

class TurnRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_ROLE_UNSPECIFIED: _ClassVar[TurnRole]
    TURN_ROLE_POLICY: _ClassVar[TurnRole]
    TURN_ROLE_TOOL: _ClassVar[TurnRole]
    TURN_ROLE_USER: _ClassVar[TurnRole]
    TURN_ROLE_OTHER_ACTOR: _ClassVar[TurnRole]
BATCH_KIND_UNSPECIFIED: BatchKind
BATCH_KIND_SUPERVISED: BatchKind
BATCH_KIND_CARE: BatchKind
TURN_ROLE_UNSPECIFIED: TurnRole
TURN_ROLE_POLICY: TurnRole
TURN_ROLE_TOOL: TurnRole
TURN_ROLE_USER: TurnRole
TURN_ROLE_OTHER_ACTOR: TurnRole

class ScheduleSet(_message.Message):
    __slots__ = ("schedule", "proposed_by", "reason", "from_update", "hold_updates")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FROM_UPDATE_FIELD_NUMBER: _ClassVar[int]
    HOLD_UPDATES_FIELD_NUMBER: _ClassVar[int]
    schedule: _rollout_pb2.Schedule
    proposed_by: str
    reason: str
    from_update: int
    hold_updates: int
    def __init__(self, schedule: _Optional[_Union[_rollout_pb2.Schedule, _Mapping]] = ..., proposed_by: _Optional[str] = ..., reason: _Optional[str] = ..., from_update: _Optional[int] = ..., hold_updates: _Optional[int] = ...) -> None: ...

class ObjectRef(_message.Message):
    __slots__ = ("bucket", "key", "sha256", "bytes")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    key: str
    sha256: str
    bytes: int
    def __init__(self, bucket: _Optional[str] = ..., key: _Optional[str] = ..., sha256: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class BatchReady(_message.Message):
    __slots__ = ("batch_id", "kind", "policy_version", "rows", "trained_tokens", "digest")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TRAINED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    kind: BatchKind
    policy_version: str
    rows: _containers.RepeatedCompositeFieldContainer[BatchRow]
    trained_tokens: int
    digest: str
    def __init__(self, batch_id: _Optional[str] = ..., kind: _Optional[_Union[BatchKind, str]] = ..., policy_version: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[BatchRow, _Mapping]]] = ..., trained_tokens: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class BatchRow(_message.Message):
    __slots__ = ("episode_id", "group_id", "source_event_id", "advantage", "weight")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    group_id: str
    source_event_id: str
    advantage: float
    weight: float
    def __init__(self, episode_id: _Optional[str] = ..., group_id: _Optional[str] = ..., source_event_id: _Optional[str] = ..., advantage: _Optional[float] = ..., weight: _Optional[float] = ...) -> None: ...

class BatchTrained(_message.Message):
    __slots__ = ("batch_id", "kind", "from_policy_version", "to_policy_version", "update", "loss", "gradient_norm", "clipped_share", "trained_tokens", "groups", "episodes", "groups_without_advantage")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FROM_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    TO_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_NORM_FIELD_NUMBER: _ClassVar[int]
    CLIPPED_SHARE_FIELD_NUMBER: _ClassVar[int]
    TRAINED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_WITHOUT_ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    kind: BatchKind
    from_policy_version: str
    to_policy_version: str
    update: int
    loss: float
    gradient_norm: float
    clipped_share: float
    trained_tokens: int
    groups: int
    episodes: int
    groups_without_advantage: int
    def __init__(self, batch_id: _Optional[str] = ..., kind: _Optional[_Union[BatchKind, str]] = ..., from_policy_version: _Optional[str] = ..., to_policy_version: _Optional[str] = ..., update: _Optional[int] = ..., loss: _Optional[float] = ..., gradient_norm: _Optional[float] = ..., clipped_share: _Optional[float] = ..., trained_tokens: _Optional[int] = ..., groups: _Optional[int] = ..., episodes: _Optional[int] = ..., groups_without_advantage: _Optional[int] = ...) -> None: ...

class PolicyPublished(_message.Message):
    __slots__ = ("policy_version", "parent_version", "weights", "update", "architecture", "parameters", "batch_ids")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    BATCH_IDS_FIELD_NUMBER: _ClassVar[int]
    policy_version: str
    parent_version: str
    weights: ObjectRef
    update: int
    architecture: str
    parameters: int
    batch_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, policy_version: _Optional[str] = ..., parent_version: _Optional[str] = ..., weights: _Optional[_Union[ObjectRef, _Mapping]] = ..., update: _Optional[int] = ..., architecture: _Optional[str] = ..., parameters: _Optional[int] = ..., batch_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class HarnessPublished(_message.Message):
    __slots__ = ("harness_version", "parent_version", "configuration", "approved_by_event_id", "diagnosis_event_ids")
    HARNESS_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    APPROVED_BY_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSIS_EVENT_IDS_FIELD_NUMBER: _ClassVar[int]
    harness_version: str
    parent_version: str
    configuration: ObjectRef
    approved_by_event_id: str
    diagnosis_event_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, harness_version: _Optional[str] = ..., parent_version: _Optional[str] = ..., configuration: _Optional[_Union[ObjectRef, _Mapping]] = ..., approved_by_event_id: _Optional[str] = ..., diagnosis_event_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class TrainingRecord(_message.Message):
    __slots__ = ("record_id", "episode_id", "group_id", "task_id", "tenant", "policy_version", "harness_version", "schedule_version", "instructions", "request", "capabilities", "success", "progress", "backend", "fidelity", "split", "context_token_ids", "turns")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    HARNESS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    FIDELITY_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    episode_id: str
    group_id: str
    task_id: str
    tenant: str
    policy_version: str
    harness_version: str
    schedule_version: str
    instructions: str
    request: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    success: bool
    progress: float
    backend: _rollout_pb2.Backend
    fidelity: _rollout_pb2.Fidelity
    split: _rollout_pb2.DataSplit
    context_token_ids: _containers.RepeatedScalarFieldContainer[int]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    def __init__(self, record_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., group_id: _Optional[str] = ..., task_id: _Optional[str] = ..., tenant: _Optional[str] = ..., policy_version: _Optional[str] = ..., harness_version: _Optional[str] = ..., schedule_version: _Optional[str] = ..., instructions: _Optional[str] = ..., request: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., success: _Optional[bool] = ..., progress: _Optional[float] = ..., backend: _Optional[_Union[_rollout_pb2.Backend, str]] = ..., fidelity: _Optional[_Union[_rollout_pb2.Fidelity, str]] = ..., split: _Optional[_Union[_rollout_pb2.DataSplit, str]] = ..., context_token_ids: _Optional[_Iterable[int]] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("seq", "event_id", "role", "action", "tool", "arguments_json", "text", "call_id", "error_code", "masked", "token_ids", "logprobs")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    event_id: str
    role: TurnRole
    action: _rollout_pb2.ActionKind
    tool: str
    arguments_json: str
    text: str
    call_id: str
    error_code: str
    masked: bool
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, seq: _Optional[int] = ..., event_id: _Optional[str] = ..., role: _Optional[_Union[TurnRole, str]] = ..., action: _Optional[_Union[_rollout_pb2.ActionKind, str]] = ..., tool: _Optional[str] = ..., arguments_json: _Optional[str] = ..., text: _Optional[str] = ..., call_id: _Optional[str] = ..., error_code: _Optional[str] = ..., masked: _Optional[bool] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...
