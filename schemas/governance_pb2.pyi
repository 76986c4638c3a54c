from schemas import rollout_pb2 as _rollout_pb2
from schemas import training_pb2 as _training_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CurationOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CURATION_OUTCOME_UNSPECIFIED: _ClassVar[CurationOutcome]
    CURATION_OUTCOME_RETAINED: _ClassVar[CurationOutcome]
    CURATION_OUTCOME_REMOVED: _ClassVar[CurationOutcome]
    CURATION_OUTCOME_FOR_REVIEW: _ClassVar[CurationOutcome]

class ReviewDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVIEW_DECISION_UNSPECIFIED: _ClassVar[ReviewDecision]
    REVIEW_DECISION_APPROVED: _ClassVar[ReviewDecision]
    REVIEW_DECISION_CORRECTED: _ClassVar[ReviewDecision]
    REVIEW_DECISION_REJECTED: _ClassVar[ReviewDecision]
    REVIEW_DECISION_QUARANTINED: _ClassVar[ReviewDecision]
CURATION_OUTCOME_UNSPECIFIED: CurationOutcome
CURATION_OUTCOME_RETAINED: CurationOutcome
CURATION_OUTCOME_REMOVED: CurationOutcome
CURATION_OUTCOME_FOR_REVIEW: CurationOutcome
REVIEW_DECISION_UNSPECIFIED: ReviewDecision
REVIEW_DECISION_APPROVED: ReviewDecision
REVIEW_DECISION_CORRECTED: ReviewDecision
REVIEW_DECISION_REJECTED: ReviewDecision
REVIEW_DECISION_QUARANTINED: ReviewDecision

class RecordCurated(_message.Message):
    __slots__ = ("record_id", "episode_id", "task_id", "outcome", "reasons", "capabilities", "success", "backend", "fidelity", "masked_seqs", "supervised_turns", "first_event_id", "last_event_id", "evidence", "content_digest", "object", "failure_kind", "split")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    FIDELITY_FIELD_NUMBER: _ClassVar[int]
    MASKED_SEQS_FIELD_NUMBER: _ClassVar[int]
    SUPERVISED_TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_KIND_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    episode_id: str
    task_id: str
    outcome: CurationOutcome
    reasons: _containers.RepeatedScalarFieldContainer[str]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    success: bool
    backend: _rollout_pb2.Backend
    fidelity: _rollout_pb2.Fidelity
    masked_seqs: _containers.RepeatedScalarFieldContainer[int]
    supervised_turns: int
    first_event_id: str
    last_event_id: str
    evidence: _containers.RepeatedScalarFieldContainer[str]
    content_digest: str
    object: _training_pb2.ObjectRef
    failure_kind: str
    split: _rollout_pb2.DataSplit
    def __init__(self, record_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., task_id: _Optional[str] = ..., outcome: _Optional[_Union[CurationOutcome, str]] = ..., reasons: _Optional[_Iterable[str]] = ..., capabilities: _Optional[_Iterable[str]] = ..., success: _Optional[bool] = ..., backend: _Optional[_Union[_rollout_pb2.Backend, str]] = ..., fidelity: _Optional[_Union[_rollout_pb2.Fidelity, str]] = ..., masked_seqs: _Optional[_Iterable[int]] = ..., supervised_turns: _Optional[int] = ..., first_event_id: _Optional[str] = ..., last_event_id: _Optional[str] = ..., evidence: _Optional[_Iterable[str]] = ..., content_digest: _Optional[str] = ..., object: _Optional[_Union[_training_pb2.ObjectRef, _Mapping]] = ..., failure_kind: _Optional[str] = ..., split: _Optional[_Union[_rollout_pb2.DataSplit, str]] = ...) -> None: ...

class ReviewRequested(_message.Message):
    __slots__ = ("review_id", "subject_id", "subject_kind", "reasons", "confidence")
    REVIEW_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_KIND_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    review_id: str
    subject_id: str
    subject_kind: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    confidence: float
    def __init__(self, review_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., subject_kind: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., confidence: _Optional[float] = ...) -> None: ...

class ReviewDecided(_message.Message):
    __slots__ = ("review_id", "decision", "reviewer", "note", "corrected")
    REVIEW_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REVIEWER_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CORRECTED_FIELD_NUMBER: _ClassVar[int]
    review_id: str
    decision: ReviewDecision
    reviewer: str
    note: str
    corrected: _training_pb2.ObjectRef
    def __init__(self, review_id: _Optional[str] = ..., decision: _Optional[_Union[ReviewDecision, str]] = ..., reviewer: _Optional[str] = ..., note: _Optional[str] = ..., corrected: _Optional[_Union[_training_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class ReleaseProposed(_message.Message):
    __slots__ = ("release_id", "parent_release_id", "added_record_ids", "removed_record_ids", "weights", "gap_event_ids", "proposed_by")
    RELEASE_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_RELEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDED_RECORD_IDS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_RECORD_IDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    GAP_EVENT_IDS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_BY_FIELD_NUMBER: _ClassVar[int]
    release_id: str
    parent_release_id: str
    added_record_ids: _containers.RepeatedScalarFieldContainer[str]
    removed_record_ids: _containers.RepeatedScalarFieldContainer[str]
    weights: _containers.RepeatedCompositeFieldContainer[SamplingWeight]
    gap_event_ids: _containers.RepeatedScalarFieldContainer[str]
    proposed_by: str
    def __init__(self, release_id: _Optional[str] = ..., parent_release_id: _Optional[str] = ..., added_record_ids: _Optional[_Iterable[str]] = ..., removed_record_ids: _Optional[_Iterable[str]] = ..., weights: _Optional[_Iterable[_Union[SamplingWeight, _Mapping]]] = ..., gap_event_ids: _Optional[_Iterable[str]] = ..., proposed_by: _Optional[str] = ...) -> None: ...

class SamplingWeight(_message.Message):
    __slots__ = ("dimension", "name", "weight")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    dimension: str
    name: str
    weight: float
    def __init__(self, dimension: _Optional[str] = ..., name: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class ReleaseFrozen(_message.Message):
    __slots__ = ("release_id", "approved_by_event_id", "manifest", "records")
    RELEASE_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVED_BY_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    release_id: str
    approved_by_event_id: str
    manifest: _training_pb2.ObjectRef
    records: int
    def __init__(self, release_id: _Optional[str] = ..., approved_by_event_id: _Optional[str] = ..., manifest: _Optional[_Union[_training_pb2.ObjectRef, _Mapping]] = ..., records: _Optional[int] = ...) -> None: ...
