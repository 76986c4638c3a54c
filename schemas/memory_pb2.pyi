from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemoryKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_KIND_UNSPECIFIED: _ClassVar[MemoryKind]
    MEMORY_KIND_USER_MODEL: _ClassVar[MemoryKind]
    MEMORY_KIND_EPISODIC: _ClassVar[MemoryKind]
    MEMORY_KIND_LONG_TERM: _ClassVar[MemoryKind]
    MEMORY_KIND_PROSPECTIVE: _ClassVar[MemoryKind]
    MEMORY_KIND_REVIEW: _ClassVar[MemoryKind]
MEMORY_KIND_UNSPECIFIED: MemoryKind
MEMORY_KIND_USER_MODEL: MemoryKind
MEMORY_KIND_EPISODIC: MemoryKind
MEMORY_KIND_LONG_TERM: MemoryKind
MEMORY_KIND_PROSPECTIVE: MemoryKind
MEMORY_KIND_REVIEW: MemoryKind

class MemoryScope(_message.Message):
    __slots__ = ("workspace", "user", "agent")
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    workspace: str
    user: str
    agent: str
    def __init__(self, workspace: _Optional[str] = ..., user: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class MemoryWritten(_message.Message):
    __slots__ = ("unit_id", "scope", "kind", "subject", "attribute", "content", "key_id", "source_event_ids", "trust", "said_at", "speaker")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EVENT_IDS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    SAID_AT_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    scope: MemoryScope
    kind: MemoryKind
    subject: str
    attribute: str
    content: bytes
    key_id: str
    source_event_ids: _containers.RepeatedScalarFieldContainer[str]
    trust: float
    said_at: int
    speaker: str
    def __init__(self, unit_id: _Optional[str] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., kind: _Optional[_Union[MemoryKind, str]] = ..., subject: _Optional[str] = ..., attribute: _Optional[str] = ..., content: _Optional[bytes] = ..., key_id: _Optional[str] = ..., source_event_ids: _Optional[_Iterable[str]] = ..., trust: _Optional[float] = ..., said_at: _Optional[int] = ..., speaker: _Optional[str] = ...) -> None: ...

class MemorySuperseded(_message.Message):
    __slots__ = ("unit_id", "by_unit_id", "scope", "source_event_ids")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    BY_UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EVENT_IDS_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    by_unit_id: str
    scope: MemoryScope
    source_event_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, unit_id: _Optional[str] = ..., by_unit_id: _Optional[str] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., source_event_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class MemoryDeleted(_message.Message):
    __slots__ = ("unit_id", "scope", "requested_by", "reason")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    scope: MemoryScope
    requested_by: str
    reason: str
    def __init__(self, unit_id: _Optional[str] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., requested_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class MemoryReviewed(_message.Message):
    __slots__ = ("unit_id", "scope", "reviewer", "kept", "note")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    REVIEWER_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    scope: MemoryScope
    reviewer: str
    kept: bool
    note: str
    def __init__(self, unit_id: _Optional[str] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., reviewer: _Optional[str] = ..., kept: _Optional[bool] = ..., note: _Optional[str] = ...) -> None: ...

class MemoryRecalled(_message.Message):
    __slots__ = ("unit_ids", "scope", "for_event_id", "query_digest")
    UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FOR_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    unit_ids: _containers.RepeatedScalarFieldContainer[str]
    scope: MemoryScope
    for_event_id: str
    query_digest: str
    def __init__(self, unit_ids: _Optional[_Iterable[str]] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., for_event_id: _Optional[str] = ..., query_digest: _Optional[str] = ...) -> None: ...

class SubjectErased(_message.Message):
    __slots__ = ("scope", "subject", "key_id", "requested_by")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    scope: MemoryScope
    subject: str
    key_id: str
    requested_by: str
    def __init__(self, scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., subject: _Optional[str] = ..., key_id: _Optional[str] = ..., requested_by: _Optional[str] = ...) -> None: ...
