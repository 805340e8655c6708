from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ChallengeRequest(_message.Message):
    __slots__ = ("provider_address",)
    PROVIDER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    provider_address: bytes
    def __init__(self, provider_address: _Optional[bytes] = ...) -> None: ...

class ChallengeResponse(_message.Message):
    __slots__ = ("challenge",)
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    challenge: bytes
    def __init__(self, challenge: _Optional[bytes] = ...) -> None: ...

class GetSBatchRequest(_message.Message):
    __slots__ = ("batch_location_hash", "signed_challenge", "challenge", "provider_address", "customer_address", "job_id", "secrets_beside")
    BATCH_LOCATION_HASH_FIELD_NUMBER: _ClassVar[int]
    SIGNED_CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SECRETS_BESIDE_FIELD_NUMBER: _ClassVar[int]
    batch_location_hash: str
    signed_challenge: bytes
    challenge: bytes
    provider_address: bytes
    customer_address: bytes
    job_id: str
    secrets_beside: bool
    def __init__(self, batch_location_hash: _Optional[str] = ..., signed_challenge: _Optional[bytes] = ..., challenge: _Optional[bytes] = ..., provider_address: _Optional[bytes] = ..., customer_address: _Optional[bytes] = ..., job_id: _Optional[str] = ..., secrets_beside: _Optional[bool] = ...) -> None: ...

class GetSBatchResponse(_message.Message):
    __slots__ = ("sbatch", "grid_logger_url", "secrets", "log_write_token")
    class SecretsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SBATCH_FIELD_NUMBER: _ClassVar[int]
    GRID_LOGGER_URL_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    LOG_WRITE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sbatch: str
    grid_logger_url: str
    secrets: _containers.ScalarMap[str, bytes]
    log_write_token: str
    def __init__(self, sbatch: _Optional[str] = ..., grid_logger_url: _Optional[str] = ..., secrets: _Optional[_Mapping[str, bytes]] = ..., log_write_token: _Optional[str] = ...) -> None: ...
