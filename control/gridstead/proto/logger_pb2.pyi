from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_UNKNOWN: _ClassVar[Stream]
    STREAM_STDOUT: _ClassVar[Stream]
    STREAM_STDERR: _ClassVar[Stream]
    STREAM_GRID: _ClassVar[Stream]
STREAM_UNKNOWN: Stream
STREAM_STDOUT: Stream
STREAM_STDERR: Stream
STREAM_GRID: Stream

class WriteRequest(_message.Message):
    __slots__ = ("log_name", "user", "data", "timestamp", "stream", "writer", "sequence")
    LOG_NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    log_name: str
    user: str
    data: bytes
    timestamp: int
    stream: Stream
    writer: int
    sequence: int
    def __init__(self, log_name: _Optional[str] = ..., user: _Optional[str] = ..., data: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., stream: _Optional[_Union[Stream, str]] = ..., writer: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class WriteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("address", "log_name", "timestamp", "signed_hash", "log_identity", "after", "chunks", "until_now")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_NAME_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SIGNED_HASH_FIELD_NUMBER: _ClassVar[int]
    LOG_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NOW_FIELD_NUMBER: _ClassVar[int]
    address: str
    log_name: str
    timestamp: int
    signed_hash: bytes
    log_identity: str
    after: int
    chunks: bool
    until_now: bool
    def __init__(self, address: _Optional[str] = ..., log_name: _Optional[str] = ..., timestamp: _Optional[int] = ..., signed_hash: _Optional[bytes] = ..., log_identity: _Optional[str] = ..., after: _Optional[int] = ..., chunks: _Optional[bool] = ..., until_now: _Optional[bool] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("data", "timestamp", "stream", "line", "resume")
    DATA_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    timestamp: int
    stream: Stream
    line: int
    resume: int
    def __init__(self, data: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., stream: _Optional[_Union[Stream, str]] = ..., line: _Optional[int] = ..., resume: _Optional[int] = ...) -> None: ...

class WatchListRequest(_message.Message):
    __slots__ = ("address", "timestamp", "signed_hash")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SIGNED_HASH_FIELD_NUMBER: _ClassVar[int]
    address: str
    timestamp: int
    signed_hash: bytes
    def __init__(self, address: _Optional[str] = ..., timestamp: _Optional[int] = ..., signed_hash: _Optional[bytes] = ...) -> None: ...

class WatchListResponse(_message.Message):
    __slots__ = ("log_names",)
    LOG_NAMES_FIELD_NUMBER: _ClassVar[int]
    log_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, log_names: _Optional[_Iterable[str]] = ...) -> None: ...
