from schemas import governance_pb2 as _governance_pb2
from schemas import memory_pb2 as _memory_pb2
from schemas import refusal_pb2 as _refusal_pb2
from schemas import rollout_pb2 as _rollout_pb2
from schemas import scoring_pb2 as _scoring_pb2
from schemas import training_pb2 as _training_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("stream_id", "seq", "event_id", "group_id", "correlation_id", "causation_id", "occurred_at", "recorded_at", "producer", "producer_version", "tenant", "policy_version", "harness_version", "schedule_version", "task_specified", "group_opened", "episode_started", "action_taken", "observation_received", "verification_made", "episode_ended", "failure_diagnosed", "clock_advanced", "episode_assembled", "group_scored", "refill_requested", "sequence_gap_found", "verdict_came_late", "competence_measured", "record_curated", "review_requested", "review_decided", "release_proposed", "release_frozen", "schedule_set", "batch_ready", "batch_trained", "policy_published", "harness_published", "memory_written", "memory_superseded", "memory_deleted", "memory_reviewed", "memory_recalled", "subject_erased", "dead_letter")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSATION_ID_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_VERSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    HARNESS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_VERSION_FIELD_NUMBER: _ClassVar[int]
    TASK_SPECIFIED_FIELD_NUMBER: _ClassVar[int]
    GROUP_OPENED_FIELD_NUMBER: _ClassVar[int]
    EPISODE_STARTED_FIELD_NUMBER: _ClassVar[int]
    ACTION_TAKEN_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_MADE_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ENDED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_DIAGNOSED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ADVANCED_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ASSEMBLED_FIELD_NUMBER: _ClassVar[int]
    GROUP_SCORED_FIELD_NUMBER: _ClassVar[int]
    REFILL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_GAP_FOUND_FIELD_NUMBER: _ClassVar[int]
    VERDICT_CAME_LATE_FIELD_NUMBER: _ClassVar[int]
    COMPETENCE_MEASURED_FIELD_NUMBER: _ClassVar[int]
    RECORD_CURATED_FIELD_NUMBER: _ClassVar[int]
    REVIEW_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    REVIEW_DECIDED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_PROPOSED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FROZEN_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_SET_FIELD_NUMBER: _ClassVar[int]
    BATCH_READY_FIELD_NUMBER: _ClassVar[int]
    BATCH_TRAINED_FIELD_NUMBER: _ClassVar[int]
    POLICY_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    HARNESS_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_DELETED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_REVIEWED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_RECALLED_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ERASED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    seq: int
    event_id: str
    group_id: str
    correlation_id: str
    causation_id: str
    occurred_at: int
    recorded_at: int
    producer: str
    producer_version: str
    tenant: str
    policy_version: str
    harness_version: str
    schedule_version: str
    task_specified: _rollout_pb2.TaskSpecified
    group_opened: _rollout_pb2.GroupOpened
    episode_started: _rollout_pb2.EpisodeStarted
    action_taken: _rollout_pb2.ActionTaken
    observation_received: _rollout_pb2.ObservationReceived
    verification_made: _rollout_pb2.VerificationMade
    episode_ended: _rollout_pb2.EpisodeEnded
    failure_diagnosed: _rollout_pb2.FailureDiagnosed
    clock_advanced: _rollout_pb2.ClockAdvanced
    episode_assembled: _scoring_pb2.EpisodeAssembled
    group_scored: _scoring_pb2.GroupScored
    refill_requested: _scoring_pb2.RefillRequested
    sequence_gap_found: _scoring_pb2.SequenceGapFound
    verdict_came_late: _scoring_pb2.VerdictCameLate
    competence_measured: _scoring_pb2.CompetenceMeasured
    record_curated: _governance_pb2.RecordCurated
    review_requested: _governance_pb2.ReviewRequested
    review_decided: _governance_pb2.ReviewDecided
    release_proposed: _governance_pb2.ReleaseProposed
    release_frozen: _governance_pb2.ReleaseFrozen
    schedule_set: _training_pb2.ScheduleSet
    batch_ready: _training_pb2.BatchReady
    batch_trained: _training_pb2.BatchTrained
    policy_published: _training_pb2.PolicyPublished
    harness_published: _training_pb2.HarnessPublished
    memory_written: _memory_pb2.MemoryWritten
    memory_superseded: _memory_pb2.MemorySuperseded
    memory_deleted: _memory_pb2.MemoryDeleted
    memory_reviewed: _memory_pb2.MemoryReviewed
    memory_recalled: _memory_pb2.MemoryRecalled
    subject_erased: _memory_pb2.SubjectErased
    dead_letter: _refusal_pb2.DeadLetter
    def __init__(self, stream_id: _Optional[str] = ..., seq: _Optional[int] = ..., event_id: _Optional[str] = ..., group_id: _Optional[str] = ..., correlation_id: _Optional[str] = ..., causation_id: _Optional[str] = ..., occurred_at: _Optional[int] = ..., recorded_at: _Optional[int] = ..., producer: _Optional[str] = ..., producer_version: _Optional[str] = ..., tenant: _Optional[str] = ..., policy_version: _Optional[str] = ..., harness_version: _Optional[str] = ..., schedule_version: _Optional[str] = ..., task_specified: _Optional[_Union[_rollout_pb2.TaskSpecified, _Mapping]] = ..., group_opened: _Optional[_Union[_rollout_pb2.GroupOpened, _Mapping]] = ..., episode_started: _Optional[_Union[_rollout_pb2.EpisodeStarted, _Mapping]] = ..., action_taken: _Optional[_Union[_rollout_pb2.ActionTaken, _Mapping]] = ..., observation_received: _Optional[_Union[_rollout_pb2.ObservationReceived, _Mapping]] = ..., verification_made: _Optional[_Union[_rollout_pb2.VerificationMade, _Mapping]] = ..., episode_ended: _Optional[_Union[_rollout_pb2.EpisodeEnded, _Mapping]] = ..., failure_diagnosed: _Optional[_Union[_rollout_pb2.FailureDiagnosed, _Mapping]] = ..., clock_advanced: _Optional[_Union[_rollout_pb2.ClockAdvanced, _Mapping]] = ..., episode_assembled: _Optional[_Union[_scoring_pb2.EpisodeAssembled, _Mapping]] = ..., group_scored: _Optional[_Union[_scoring_pb2.GroupScored, _Mapping]] = ..., refill_requested: _Optional[_Union[_scoring_pb2.RefillRequested, _Mapping]] = ..., sequence_gap_found: _Optional[_Union[_scoring_pb2.SequenceGapFound, _Mapping]] = ..., verdict_came_late: _Optional[_Union[_scoring_pb2.VerdictCameLate, _Mapping]] = ..., competence_measured: _Optional[_Union[_scoring_pb2.CompetenceMeasured, _Mapping]] = ..., record_curated: _Optional[_Union[_governance_pb2.RecordCurated, _Mapping]] = ..., review_requested: _Optional[_Union[_governance_pb2.ReviewRequested, _Mapping]] = ..., review_decided: _Optional[_Union[_governance_pb2.ReviewDecided, _Mapping]] = ..., release_proposed: _Optional[_Union[_governance_pb2.ReleaseProposed, _Mapping]] = ..., release_frozen: _Optional[_Union[_governance_pb2.ReleaseFrozen, _Mapping]] = ..., schedule_set: _Optional[_Union[_training_pb2.ScheduleSet, _Mapping]] = ..., batch_ready: _Optional[_Union[_training_pb2.BatchReady, _Mapping]] = ..., batch_trained: _Optional[_Union[_training_pb2.BatchTrained, _Mapping]] = ..., policy_published: _Optional[_Union[_training_pb2.PolicyPublished, _Mapping]] = ..., harness_published: _Optional[_Union[_training_pb2.HarnessPublished, _Mapping]] = ..., memory_written: _Optional[_Union[_memory_pb2.MemoryWritten, _Mapping]] = ..., memory_superseded: _Optional[_Union[_memory_pb2.MemorySuperseded, _Mapping]] = ..., memory_deleted: _Optional[_Union[_memory_pb2.MemoryDeleted, _Mapping]] = ..., memory_reviewed: _Optional[_Union[_memory_pb2.MemoryReviewed, _Mapping]] = ..., memory_recalled: _Optional[_Union[_memory_pb2.MemoryRecalled, _Mapping]] = ..., subject_erased: _Optional[_Union[_memory_pb2.SubjectErased, _Mapping]] = ..., dead_letter: _Optional[_Union[_refusal_pb2.DeadLetter, _Mapping]] = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("events", "runs")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("stream_id", "first_seq", "bodies", "tenant", "tool_calls", "output_tokens", "untold_actions", "errors", "earliest", "latest")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    UNTOLD_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
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
    def __init__(self, stream_id: _Optional[str] = ..., first_seq: _Optional[int] = ..., bodies: _Optional[bytes] = ..., tenant: _Optional[str] = ..., tool_calls: _Optional[int] = ..., output_tokens: _Optional[int] = ..., untold_actions: _Optional[int] = ..., errors: _Optional[int] = ..., earliest: _Optional[int] = ..., latest: _Optional[int] = ...) -> None: ...
