from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("job_key", "user", "uid", "gid", "tasks", "cpus_per_task", "memory_per_cpu_mb", "gpus", "time_limit_min", "script", "environment")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_KEY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MIN_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    job_key: str
    user: str
    uid: int
    gid: int
    tasks: int
    cpus_per_task: int
    memory_per_cpu_mb: int
    gpus: int
    time_limit_min: int
    script: str
    environment: _containers.ScalarMap[str, str]
    def __init__(self, job_key: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., tasks: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., memory_per_cpu_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., time_limit_min: _Optional[int] = ..., script: _Optional[str] = ..., environment: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("slurm_job_id",)
    SLURM_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    slurm_job_id: int
    def __init__(self, slurm_job_id: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("slurm_job_id", "job_key")
    SLURM_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_KEY_FIELD_NUMBER: _ClassVar[int]
    slurm_job_id: int
    job_key: str
    def __init__(self, slurm_job_id: _Optional[int] = ..., job_key: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("slurm_job_id", "job_key", "time_limit_min")
    SLURM_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_KEY_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MIN_FIELD_NUMBER: _ClassVar[int]
    slurm_job_id: int
    job_key: str
    time_limit_min: int
    def __init__(self, slurm_job_id: _Optional[int] = ..., job_key: _Optional[str] = ..., time_limit_min: _Optional[int] = ...) -> None: ...

class ExtendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("slurm_job_id", "name", "admin_comment", "user", "state", "submitted_at", "started_at", "ended_at", "suspended_s", "exit_code", "time_limit_min", "uid", "step_out_of_memory", "failed_step")
    SLURM_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMENT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_S_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MIN_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    STEP_OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    FAILED_STEP_FIELD_NUMBER: _ClassVar[int]
    slurm_job_id: int
    name: str
    admin_comment: str
    user: str
    state: str
    submitted_at: int
    started_at: int
    ended_at: int
    suspended_s: int
    exit_code: int
    time_limit_min: int
    uid: int
    step_out_of_memory: bool
    failed_step: int
    def __init__(self, slurm_job_id: _Optional[int] = ..., name: _Optional[str] = ..., admin_comment: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[str] = ..., submitted_at: _Optional[int] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., suspended_s: _Optional[int] = ..., exit_code: _Optional[int] = ..., time_limit_min: _Optional[int] = ..., uid: _Optional[int] = ..., step_out_of_memory: _Optional[bool] = ..., failed_step: _Optional[int] = ...) -> None: ...

class LiveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LiveResponse(_message.Message):
    __slots__ = ("taken_at", "attempts")
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    taken_at: int
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, taken_at: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class AccountingRequest(_message.Message):
    __slots__ = ("names", "since")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    since: int
    def __init__(self, names: _Optional[_Iterable[str]] = ..., since: _Optional[int] = ...) -> None: ...

class AccountingResponse(_message.Message):
    __slots__ = ("taken_at", "complete", "attempts")
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    taken_at: int
    complete: bool
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, taken_at: _Optional[int] = ..., complete: _Optional[bool] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class GateRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class GateResponse(_message.Message):
    __slots__ = ("uid", "gid", "missing")
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    uid: int
    gid: int
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uid: _Optional[int] = ..., gid: _Optional[int] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class HardwareRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "cpus", "memory_mb", "gpus")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpus: int
    memory_mb: int
    gpus: int
    def __init__(self, name: _Optional[str] = ..., cpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class HardwareResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class FreeNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FreeNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class BenchmarkReportsRequest(_message.Message):
    __slots__ = ("count", "whole_site")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SITE_FIELD_NUMBER: _ClassVar[int]
    count: int
    whole_site: bool
    def __init__(self, count: _Optional[int] = ..., whole_site: _Optional[bool] = ...) -> None: ...

class BenchmarkReport(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class StartBenchmarksRequest(_message.Message):
    __slots__ = ("nodes", "suites")
    NODES_FIELD_NUMBER: _ClassVar[int]
    SUITES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    suites: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ..., suites: _Optional[_Iterable[str]] = ...) -> None: ...

class StartBenchmarksResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BenchmarkProgressRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BenchmarkProgressResponse(_message.Message):
    __slots__ = ("state", "started_at", "ended_at", "steps_total", "steps_done", "steps_failed", "steps_running", "failure")
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    STEPS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_DONE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FAILED_FIELD_NUMBER: _ClassVar[int]
    STEPS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    state: str
    started_at: int
    ended_at: int
    steps_total: int
    steps_done: int
    steps_failed: int
    steps_running: _containers.RepeatedScalarFieldContainer[str]
    failure: str
    def __init__(self, state: _Optional[str] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., steps_total: _Optional[int] = ..., steps_done: _Optional[int] = ..., steps_failed: _Optional[int] = ..., steps_running: _Optional[_Iterable[str]] = ..., failure: _Optional[str] = ...) -> None: ...

class PullReportsRequest(_message.Message):
    __slots__ = ("after", "wait_s")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    after: int
    wait_s: float
    def __init__(self, after: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("sequence", "event", "slurm_job_id", "uid", "occurred_at")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SLURM_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int
    def __init__(self, sequence: _Optional[int] = ..., event: _Optional[str] = ..., slurm_job_id: _Optional[int] = ..., uid: _Optional[int] = ..., occurred_at: _Optional[int] = ...) -> None: ...

class PullReportsResponse(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ...) -> None: ...
