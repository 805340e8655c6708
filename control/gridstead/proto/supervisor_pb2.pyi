from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class FetchAuthorizedKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchAuthorizedKeysResponse(_message.Message):
    __slots__ = ("authorized_keys",)
    AUTHORIZED_KEYS_FIELD_NUMBER: _ClassVar[int]
    authorized_keys: str
    def __init__(self, authorized_keys: _Optional[str] = ...) -> None: ...
