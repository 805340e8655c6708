# SPDX-License-Identifier: Apache-2.0
"""What a workflow may say: the fields, their rules and defaults.

The names are those of the grid's wire format. The descriptions are the reference page
(docs/reference/workflow.md); a rule that a type cannot tell stands in its description. Fields that exist in the
language but not in this grid yet are in LATER, so that a message can say so.
"""

from __future__ import annotations

import re
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_NAME = 128
MAX_STEPS = 256
MAX_ENV = 256
MAX_PATH = 4096
MAX_TEXT_BYTES = 100 * 1024  # Linux takes arguments and variables of less than 128 KiB
MAX_COUNT = 2**31 - 1  # the wire has 32-bit integers

CONTAINER = "container steps"
LATER: dict[str, str] = {
    "container": CONTAINER, "image": CONTAINER, "registry": CONTAINER, "apptainer": CONTAINER,
    "deepsquareHosted": CONTAINER, "mounts": CONTAINER, "mountHome": CONTAINER, "readOnlyRootFS": CONTAINER,
    "x11": CONTAINER, "username": CONTAINER, "password": CONTAINER,
    "input": "input data", "inputMode": "input data", "output": "output data",
    "continuousOutputSync": "output data", "virtualNetworks": "networks of a job", "network": "networks of a job",
    "dns": "networks of a job", "customNetworkInterfaces": "networks of a job",
    "for": "loops", "launch": "asynchronous steps", "dependsOn": "asynchronous steps", "use": "modules",
    "if": "conditions", "catch": "error handlers", "finally": "error handlers",
    "mapUid": "mapped users", "mapGid": "mapped users", "mpi": "MPI", "disableCpuBinding": "CPU binding",
}  # fmt: skip

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORBIDDEN_ENV = {"PATH", "LD_LIBRARY_PATH"}
_OF_THE_SHELL = {
    "_", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
    "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "OPTARG", "OPTIND", "PIPESTATUS", "PPID", "RANDOM", "SECONDS",
    "SHELLOPTS", "SRANDOM", "UID",
}  # fmt: skip


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("is not a name for a variable: letters, digits and _, not starting with a digit")
    if value in _FORBIDDEN_ENV:
        raise ValueError("cannot be set by a workflow")
    if value in _OF_THE_SHELL:
        raise ValueError("belongs to the shell and cannot be set")
    return value


def _text(value: str) -> str:
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("holds a character that no program can be given")
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise ValueError(f"is longer than {MAX_TEXT_BYTES // 1024} KiB")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("holds a character that cannot be printed")
    return value


def _shell(value: str) -> str:
    if value in ("/bin/ash", "ENTRYPOINT"):
        raise ValueError(f"{value} needs a container; {CONTAINER} are not supported by this grid yet")
    if value not in ("/bin/sh", "/bin/bash"):
        raise ValueError("must be /bin/sh or /bin/bash")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
CountOrNone = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_printable)]
EnvName = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_env_name)]
AbsolutePath = Annotated[str, Field(max_length=MAX_PATH), AfterValidator(_absolute), AfterValidator(_printable)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )


class EnvVar(_Model):
    """An environment variable."""

    key: EnvName = Field(
        description="Name: letters, digits and `_`, not starting with a digit. Not `PATH`, not `LD_LIBRARY_PATH`, "
        "and no variable that belongs to the shell, such as `UID`."
    )
    value: Text = Field(description="Value. Any text of at most 100 KiB; nothing in it is expanded.")


class JobResources(_Model):
    """What the whole job gets. A step sees it as `NTASKS`, `CPUS_PER_TASK`, `MEM_PER_CPU`, `GPUS`, `CPUS`, `MEM`."""

    tasks: Count = Field(description="Processes that may run at once. At least 1.")
    cpus_per_task: Count = Field(description="CPU threads of each task. At least 1.")
    mem_per_cpu: Count = Field(description="Memory of each CPU thread, in MB. At least 1.")
    gpus: CountOrNone = Field(default=0, description="GPUs of the whole job.")


class StepRunResources(_Model):
    """What a step takes of the job's resources; not more than the job has."""

    tasks: Count = Field(default=1, description="How many times the command runs, all at once. At least 1.")
    cpus_per_task: Count | None = Field(default=None, description="CPU threads of each task. As the job, if not given.")
    mem_per_cpu: Count | None = Field(
        default=None, description="Memory of each CPU thread, in MB. As the job, if not given."
    )
    gpus_per_task: CountOrNone = Field(default=0, description="GPUs of each task.")


class StepRun(_Model):
    """A command that runs on the provider's host, in the job's own directory, `$STORAGE_PATH`."""

    command: Annotated[Text, Field(min_length=1)] = Field(
        description="Text for the shell, one or several lines, at most 100 KiB."
    )
    shell: Annotated[str, AfterValidator(_shell)] = Field(default="/bin/sh", description="`/bin/sh` or `/bin/bash`.")
    resources: StepRunResources = Field(default=StepRunResources(), description="What it takes of the job's resources.")
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="Variables of this step, over those of the job."
    )
    work_dir: AbsolutePath | None = Field(
        default=None, description="Directory to run in; an absolute path, made if it is not there."
    )


class Step(_Model):
    """One step. Steps run one after the other; the first that fails ends the job with its exit code."""

    name: Name | None = Field(default=None, description="Shown by Slurm. At most 128 printable characters.")
    run: StepRun = Field(description="The command.")


class Workflow(_Model):
    """A job: what it needs and what it does."""

    enable_logging: bool = Field(
        default=False, description="Whether its output goes to the grid's logger, where its owner can read it."
    )
    resources: JobResources = Field(description="What the whole job gets.")
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="Variables of every step."
    )
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1, max_length=MAX_STEPS)] = Field(
        description="What it does, in order; 1 to 256 steps."
    )

    def to_graphql(self) -> dict[str, object]:
        """Return the workflow as the wire has it, without fields that have no value."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field's type holds: itself, in a list, or beside None; None if it holds none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part))), None)
