from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DataSplit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_SPLIT_UNSPECIFIED: _ClassVar[DataSplit]
    DATA_SPLIT_TRAIN: _ClassVar[DataSplit]
    DATA_SPLIT_DEV: _ClassVar[DataSplit]
    DATA_SPLIT_TEST: _ClassVar[DataSplit]

class CostUnit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COST_UNIT_UNSPECIFIED: _ClassVar[CostUnit]
    COST_UNIT_OUTPUT_TOKENS: _ClassVar[CostUnit]
    COST_UNIT_TOOL_CALLS: _ClassVar[CostUnit]
    COST_UNIT_STEPS: _ClassVar[CostUnit]

class Backend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKEND_UNSPECIFIED: _ClassVar[Backend]
    BACKEND_SANDBOX: _ClassVar[Backend]
    BACKEND_SIMULATOR: _ClassVar[Backend]
    BACKEND_DEVICE: _ClassVar[Backend]
    BACKEND_EXTERNAL: _ClassVar[Backend]

class Fidelity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FIDELITY_UNSPECIFIED: _ClassVar[Fidelity]
    FIDELITY_EXACT: _ClassVar[Fidelity]
    FIDELITY_SIMULATED: _ClassVar[Fidelity]
    FIDELITY_DEVICE: _ClassVar[Fidelity]

class ClockKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOCK_KIND_UNSPECIFIED: _ClassVar[ClockKind]
    CLOCK_KIND_MEASURED: _ClassVar[ClockKind]
    CLOCK_KIND_SYNTHETIC: _ClassVar[ClockKind]

class ActionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_KIND_UNSPECIFIED: _ClassVar[ActionKind]
    ACTION_KIND_TOOL_CALL: _ClassVar[ActionKind]
    ACTION_KIND_MESSAGE: _ClassVar[ActionKind]
    ACTION_KIND_CLARIFY: _ClassVar[ActionKind]
    ACTION_KIND_REFUSE: _ClassVar[ActionKind]
    ACTION_KIND_FINISH: _ClassVar[ActionKind]
    ACTION_KIND_MEMORY: _ClassVar[ActionKind]
    ACTION_KIND_SKILL: _ClassVar[ActionKind]

class ObservationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBSERVATION_KIND_UNSPECIFIED: _ClassVar[ObservationKind]
    OBSERVATION_KIND_TOOL_RESULT: _ClassVar[ObservationKind]
    OBSERVATION_KIND_USER_MESSAGE: _ClassVar[ObservationKind]
    OBSERVATION_KIND_OTHER_ACTOR: _ClassVar[ObservationKind]

class Termination(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TERMINATION_UNSPECIFIED: _ClassVar[Termination]
    TERMINATION_DONE: _ClassVar[Termination]
    TERMINATION_CLARIFIED: _ClassVar[Termination]
    TERMINATION_REFUSED: _ClassVar[Termination]
    TERMINATION_BUDGET: _ClassVar[Termination]
    TERMINATION_USER_STOPPED: _ClassVar[Termination]
    TERMINATION_ERROR: _ClassVar[Termination]
    TERMINATION_DEADLINE: _ClassVar[Termination]

class FailureOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_ORIGIN_UNSPECIFIED: _ClassVar[FailureOrigin]
    FAILURE_ORIGIN_MODEL: _ClassVar[FailureOrigin]
    FAILURE_ORIGIN_HARNESS: _ClassVar[FailureOrigin]
    FAILURE_ORIGIN_ENVIRONMENT: _ClassVar[FailureOrigin]
    FAILURE_ORIGIN_INFRASTRUCTURE: _ClassVar[FailureOrigin]
    FAILURE_ORIGIN_INPUT: _ClassVar[FailureOrigin]
DATA_SPLIT_UNSPECIFIED: DataSplit
DATA_SPLIT_TRAIN: DataSplit
DATA_SPLIT_DEV: DataSplit
DATA_SPLIT_TEST: DataSplit
COST_UNIT_UNSPECIFIED: CostUnit
COST_UNIT_OUTPUT_TOKENS: CostUnit
COST_UNIT_TOOL_CALLS: CostUnit
COST_UNIT_STEPS: CostUnit
BACKEND_UNSPECIFIED: Backend
BACKEND_SANDBOX: Backend
BACKEND_SIMULATOR: Backend
BACKEND_DEVICE: Backend
BACKEND_EXTERNAL: Backend
FIDELITY_UNSPECIFIED: Fidelity
FIDELITY_EXACT: Fidelity
FIDELITY_SIMULATED: Fidelity
FIDELITY_DEVICE: Fidelity
CLOCK_KIND_UNSPECIFIED: ClockKind
CLOCK_KIND_MEASURED: ClockKind
CLOCK_KIND_SYNTHETIC: ClockKind
ACTION_KIND_UNSPECIFIED: ActionKind
ACTION_KIND_TOOL_CALL: ActionKind
ACTION_KIND_MESSAGE: ActionKind
ACTION_KIND_CLARIFY: ActionKind
ACTION_KIND_REFUSE: ActionKind
ACTION_KIND_FINISH: ActionKind
ACTION_KIND_MEMORY: ActionKind
ACTION_KIND_SKILL: ActionKind
OBSERVATION_KIND_UNSPECIFIED: ObservationKind
OBSERVATION_KIND_TOOL_RESULT: ObservationKind
OBSERVATION_KIND_USER_MESSAGE: ObservationKind
OBSERVATION_KIND_OTHER_ACTOR: ObservationKind
TERMINATION_UNSPECIFIED: Termination
TERMINATION_DONE: Termination
TERMINATION_CLARIFIED: Termination
TERMINATION_REFUSED: Termination
TERMINATION_BUDGET: Termination
TERMINATION_USER_STOPPED: Termination
TERMINATION_ERROR: Termination
TERMINATION_DEADLINE: Termination
FAILURE_ORIGIN_UNSPECIFIED: FailureOrigin
FAILURE_ORIGIN_MODEL: FailureOrigin
FAILURE_ORIGIN_HARNESS: FailureOrigin
FAILURE_ORIGIN_ENVIRONMENT: FailureOrigin
FAILURE_ORIGIN_INFRASTRUCTURE: FailureOrigin
FAILURE_ORIGIN_INPUT: FailureOrigin

class TaskSpecified(_message.Message):
    __slots__ = ("task_id", "goal", "resources", "initial_conditions_json", "capabilities", "completion_criteria", "family", "split", "digest", "source")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    INITIAL_CONDITIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_CRITERIA_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    goal: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    initial_conditions_json: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    completion_criteria: _containers.RepeatedScalarFieldContainer[str]
    family: str
    split: DataSplit
    digest: str
    source: str
    def __init__(self, task_id: _Optional[str] = ..., goal: _Optional[str] = ..., resources: _Optional[_Iterable[str]] = ..., initial_conditions_json: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., completion_criteria: _Optional[_Iterable[str]] = ..., family: _Optional[str] = ..., split: _Optional[_Union[DataSplit, str]] = ..., digest: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("p_low", "p_high", "lambda_prog", "lambda_eff", "cost_unit", "cost_budget")
    P_LOW_FIELD_NUMBER: _ClassVar[int]
    P_HIGH_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_PROG_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_EFF_FIELD_NUMBER: _ClassVar[int]
    COST_UNIT_FIELD_NUMBER: _ClassVar[int]
    COST_BUDGET_FIELD_NUMBER: _ClassVar[int]
    p_low: float
    p_high: float
    lambda_prog: float
    lambda_eff: float
    cost_unit: CostUnit
    cost_budget: float
    def __init__(self, p_low: _Optional[float] = ..., p_high: _Optional[float] = ..., lambda_prog: _Optional[float] = ..., lambda_eff: _Optional[float] = ..., cost_unit: _Optional[_Union[CostUnit, str]] = ..., cost_budget: _Optional[float] = ...) -> None: ...

class GroupOpened(_message.Message):
    __slots__ = ("task_id", "size", "deadline", "schedule", "capabilities", "split")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    size: int
    deadline: int
    schedule: Schedule
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    split: DataSplit
    def __init__(self, task_id: _Optional[str] = ..., size: _Optional[int] = ..., deadline: _Optional[int] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ..., capabilities: _Optional[_Iterable[str]] = ..., split: _Optional[_Union[DataSplit, str]] = ...) -> None: ...

class EpisodeStarted(_message.Message):
    __slots__ = ("episode_id", "task_id", "member", "seed", "backend", "fidelity", "request", "instructions", "clock", "source", "context_token_ids")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    FIDELITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    task_id: str
    member: int
    seed: int
    backend: Backend
    fidelity: Fidelity
    request: str
    instructions: str
    clock: ClockKind
    source: str
    context_token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, episode_id: _Optional[str] = ..., task_id: _Optional[str] = ..., member: _Optional[int] = ..., seed: _Optional[int] = ..., backend: _Optional[_Union[Backend, str]] = ..., fidelity: _Optional[_Union[Fidelity, str]] = ..., request: _Optional[str] = ..., instructions: _Optional[str] = ..., clock: _Optional[_Union[ClockKind, str]] = ..., source: _Optional[str] = ..., context_token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ActionTaken(_message.Message):
    __slots__ = ("kind", "tool", "arguments_json", "text", "call_id", "token_ids", "logprobs", "policy_spans", "output_tokens", "latency_us")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    POLICY_SPANS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    kind: ActionKind
    tool: str
    arguments_json: str
    text: str
    call_id: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    policy_spans: _containers.RepeatedCompositeFieldContainer[PolicySpan]
    output_tokens: int
    latency_us: int
    def __init__(self, kind: _Optional[_Union[ActionKind, str]] = ..., tool: _Optional[str] = ..., arguments_json: _Optional[str] = ..., text: _Optional[str] = ..., call_id: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., policy_spans: _Optional[_Iterable[_Union[PolicySpan, _Mapping]]] = ..., output_tokens: _Optional[int] = ..., latency_us: _Optional[int] = ...) -> None: ...

class PolicySpan(_message.Message):
    __slots__ = ("policy_version", "start", "end")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    policy_version: str
    start: int
    end: int
    def __init__(self, policy_version: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ObservationReceived(_message.Message):
    __slots__ = ("kind", "tool", "call_id", "content", "error_code", "latency_us", "state_digest", "token_ids")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    kind: ObservationKind
    tool: str
    call_id: str
    content: str
    error_code: str
    latency_us: int
    state_digest: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[_Union[ObservationKind, str]] = ..., tool: _Optional[str] = ..., call_id: _Optional[str] = ..., content: _Optional[str] = ..., error_code: _Optional[str] = ..., latency_us: _Optional[int] = ..., state_digest: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class VerificationMade(_message.Message):
    __slots__ = ("verifier", "success", "progress", "evidence", "detail", "confidence", "atoms")
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    ATOMS_FIELD_NUMBER: _ClassVar[int]
    verifier: str
    success: bool
    progress: float
    evidence: _containers.RepeatedScalarFieldContainer[str]
    detail: str
    confidence: float
    atoms: _containers.RepeatedCompositeFieldContainer[GoalAtom]
    def __init__(self, verifier: _Optional[str] = ..., success: _Optional[bool] = ..., progress: _Optional[float] = ..., evidence: _Optional[_Iterable[str]] = ..., detail: _Optional[str] = ..., confidence: _Optional[float] = ..., atoms: _Optional[_Iterable[_Union[GoalAtom, _Mapping]]] = ...) -> None: ...

class GoalAtom(_message.Message):
    __slots__ = ("name", "satisfied")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_FIELD_NUMBER: _ClassVar[int]
    name: str
    satisfied: bool
    def __init__(self, name: _Optional[str] = ..., satisfied: _Optional[bool] = ...) -> None: ...

class EpisodeEnded(_message.Message):
    __slots__ = ("termination", "failed", "detail")
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    termination: Termination
    failed: FailureOrigin
    detail: str
    def __init__(self, termination: _Optional[_Union[Termination, str]] = ..., failed: _Optional[_Union[FailureOrigin, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class FailureDiagnosed(_message.Message):
    __slots__ = ("origin", "kind", "capability", "erroneous_seqs", "recovery_seq", "evidence", "diagnoser", "confidence", "detail")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    ERRONEOUS_SEQS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_SEQ_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSER_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    origin: FailureOrigin
    kind: str
    capability: str
    erroneous_seqs: _containers.RepeatedScalarFieldContainer[int]
    recovery_seq: int
    evidence: _containers.RepeatedScalarFieldContainer[str]
    diagnoser: str
    confidence: float
    detail: str
    def __init__(self, origin: _Optional[_Union[FailureOrigin, str]] = ..., kind: _Optional[str] = ..., capability: _Optional[str] = ..., erroneous_seqs: _Optional[_Iterable[int]] = ..., recovery_seq: _Optional[int] = ..., evidence: _Optional[_Iterable[str]] = ..., diagnoser: _Optional[str] = ..., confidence: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class ClockAdvanced(_message.Message):
    __slots__ = ("now",)
    NOW_FIELD_NUMBER: _ClassVar[int]
    now: int
    def __init__(self, now: _Optional[int] = ...) -> None: ...
