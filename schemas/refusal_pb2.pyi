from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_EMPTY_RECORD: _ClassVar[Reason]
    REASON_UNPARSEABLE: _ClassVar[Reason]
    REASON_TOO_LARGE: _ClassVar[Reason]
    REASON_NO_EVENTS: _ClassVar[Reason]
    REASON_MISSING_FIELD: _ClassVar[Reason]
    REASON_WRONG_EVENT_ID: _ClassVar[Reason]
    REASON_WRONG_KEY: _ClassVar[Reason]
    REASON_WRONG_TENANT: _ClassVar[Reason]
    REASON_WRONG_TOPIC: _ClassVar[Reason]
    REASON_CLOCK_OUT_OF_RANGE: _ClassVar[Reason]
    REASON_FORBIDDEN_CHARACTER: _ClassVar[Reason]
    REASON_INTEGER_OUT_OF_RANGE: _ClassVar[Reason]
    REASON_BODY_UNSET: _ClassVar[Reason]
    REASON_UNKNOWN_ENUM: _ClassVar[Reason]
    REASON_NOT_A_NUMBER: _ClassVar[Reason]
    REASON_NUMBER_OUT_OF_RANGE: _ClassVar[Reason]
    REASON_INCONSISTENT: _ClassVar[Reason]
    REASON_GROUP_UNKNOWN: _ClassVar[Reason]
    REASON_SEQUENCE_GAP: _ClassVar[Reason]
    REASON_AFTER_END: _ClassVar[Reason]
    REASON_IDENTITY_CONFLICT: _ClassVar[Reason]
REASON_UNSPECIFIED: Reason
REASON_EMPTY_RECORD: Reason
REASON_UNPARSEABLE: Reason
REASON_TOO_LARGE: Reason
REASON_NO_EVENTS: Reason
REASON_MISSING_FIELD: Reason
REASON_WRONG_EVENT_ID: Reason
REASON_WRONG_KEY: Reason
REASON_WRONG_TENANT: Reason
REASON_WRONG_TOPIC: Reason
REASON_CLOCK_OUT_OF_RANGE: Reason
REASON_FORBIDDEN_CHARACTER: Reason
REASON_INTEGER_OUT_OF_RANGE: Reason
REASON_BODY_UNSET: Reason
REASON_UNKNOWN_ENUM: Reason
REASON_NOT_A_NUMBER: Reason
REASON_NUMBER_OUT_OF_RANGE: Reason
REASON_INCONSISTENT: Reason
REASON_GROUP_UNKNOWN: Reason
REASON_SEQUENCE_GAP: Reason
REASON_AFTER_END: Reason
REASON_IDENTITY_CONFLICT: Reason

class DeadLetter(_message.Message):
    __slots__ = ("reason", "detail", "topic", "partition", "offset", "index", "key", "raw", "object_key", "refused_by", "record_time", "raw_bytes")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_BY_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    detail: str
    topic: str
    partition: int
    offset: int
    index: int
    key: bytes
    raw: bytes
    object_key: str
    refused_by: str
    record_time: int
    raw_bytes: int
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., detail: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., index: _Optional[int] = ..., key: _Optional[bytes] = ..., raw: _Optional[bytes] = ..., object_key: _Optional[str] = ..., refused_by: _Optional[str] = ..., record_time: _Optional[int] = ..., raw_bytes: _Optional[int] = ...) -> None: ...
