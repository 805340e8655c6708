# SPDX-License-Identifier: Apache-2.0
"""A job, its steps, and their order."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from gridstead.workflow.schema.base import (
    MAX_STEPS,
    EnvName,
    Handle,
    Integer,
    Model,
    Name,
    RuleError,
    Text,
    schema_rule,
)
from gridstead.workflow.schema.data import Mode, TransportData
from gridstead.workflow.schema.network import VirtualNetwork
from gridstead.workflow.schema.resources import Env, JobResources
from gridstead.workflow.schema.run import StepRun
from gridstead.workflow.schema.source import Source

MAX_ITEMS = 4096
MAX_NETWORKS = 8
MAX_CONDITION = 4096
MAX_SIGNAL = 31
SIGTERM = 15

STEP_TYPES = ("steps", "run", "for", "launch", "use")
# JSON Schema keywords: a step cannot have two of these fields.
_EXCLUSIVE: list[JsonValue] = [
    {"not": {"required": list(pair)}} for pair in combinations(STEP_TYPES, 2)
]


def _check_signal(value: int) -> int:
    if not 0 <= value <= MAX_SIGNAL:
        raise ValueError(f"must be a signal, 1 to {MAX_SIGNAL}, or 0 for none")
    return value


def _check_condition(value: str) -> str:
    if value and not value.strip(" \t\n"):
        raise ValueError("must not be blank")
    return value


Signal = Annotated[int, AfterValidator(_check_signal), schema_rule(minimum=0, maximum=MAX_SIGNAL)]


class ForRange(Model):
    """A range of numbers that includes both ends.

    It is empty if the increment leads away from `end`, for example from 3 to 0 with increment 1.
    """

    begin: Integer = Field(description="First number.")
    end: Integer = Field(description="Last number.")
    increment: Integer = Field(
        default=1, description="Difference between two numbers. May be negative. 0 counts as 1."
    )

    def numbers(self) -> range:
        """Return the numbers, in order."""
        step = self.increment or 1
        # A Python range excludes its end.
        return range(self.begin, self.end + (1 if step > 0 else -1), step)


class StepFor(Model):
    """A loop over items or numbers.

    Its steps run once for each item or number. One run of its steps is a round. The variable `item`
    contains the item, and the variable `index` the number.

    Each round of a parallel loop needs the peak of the CPU threads, the memory and the GPUs that
    its steps use together. Rounds run in parallel if the job has these resources for all of them
    and for launched steps that still run. A loop that is earlier in the file gets resources first.
    For nested parallel loops, the outer loop is the earlier one, and each of its rounds gets an
    equal share.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["items"]}, {"required": ["range"]}]},
    )

    parallel: bool = Field(
        description=(
            "Whether rounds run at the same time: all rounds if they fit into the job together,"
            " otherwise as many as fit, and at most 1024. The other rounds wait. They start in"
            " order, the next one as soon as any round ends. The job must have the resources of one"
            " round. Every round runs to its end. The exit code of the loop is that of the first"
            " failed round, in the order of the items."
        )
    )
    items: Annotated[tuple[Text, ...], Field(strict=False, max_length=MAX_ITEMS)] | None = Field(
        default=None, description="Texts. Exactly one of `items` and `range` is required."
    )
    range: ForRange | None = Field(default=None, description="Numbers.")
    steps: Steps = Field(description="Steps of each round.", min_length=1)

    @property
    def count(self) -> int:
        """Return the number of rounds."""
        if self.items is not None:
            return len(self.items)
        return len(self.range.numbers()) if self.range else 0

    @model_validator(mode="after")
    def _check_one_of_both(self) -> Self:
        has_items = self.items is not None
        has_range = self.range is not None
        if has_items == has_range:
            raise RuleError("needs either items or range", key="range")
        return self


class StepAsyncLaunch(Model):
    """Steps that run in parallel with the steps after them.

    When the list that contains the launching step ends, the launched steps receive a signal, and
    the job waits for their end. If a launched step fails before the list ends, the list fails, even
    if no step waits for the launched step.

    A plain group is a step with `steps` and without `catch` and `finally`. If a step after a plain
    group waits for a handle of the group, the launched steps continue until the enclosing list
    ends.
    """

    handle_name: Handle | None = Field(
        default=None,
        description=(
            "Name for `dependsOn`: `A-Z`, `a-z`, `0-9` and `_`. Not case-sensitive. If"
            " several launches have the name, a step waits for the nearest one before it."
        ),
    )
    signal_on_parent_step_exit: Signal = Field(
        default=SIGTERM,
        description=(
            "Number of the signal that the launched steps receive when the list ends. 0: no signal,"
            " and the steps run to their end."
        ),
    )
    steps: Steps = Field(description="Launched steps.", min_length=1)


class StepUse(Model):
    """Steps of a module, which is the file `module.yaml` of a public git repository.

    The steps of the module read the arguments as variables. Inside the module, a step also sees the
    variables that earlier steps of the module have written to `DEEPSQUARE_ENV`. `exportEnvAs`
    determines which of these variables the steps after the module see.
    """

    source: Source = Field(
        description=(
            "`<host>/<owner>/<repository>[/<directory>][@<tag or commit>]`. A commit is 7 to 40"
            " hexadecimal digits. Only the full commit of 40 digits always means the same content."
            " Default: the default branch. For a module in a directory, `@<tag>` selects the git"
            " tag `<directory>/<tag>`."
        )
    )
    args: Env = Field(default=(), description="Values of the module's inputs.")
    export_env_as: EnvName | None = Field(
        default=None,
        description=(
            "Prefix of the module's outputs for later steps: with `A`, output `X` is `A_X`. Without"
            " this field, later steps see every variable that the module has written to"
            " `DEEPSQUARE_ENV`, under its own name."
        ),
    )
    steps: Steps = Field(
        default=(),
        description=(
            "Steps of the caller. The file `module.yaml` is a template, and can insert these steps"
            " among its own steps."
        ),
    )


class Step(Model):
    """One step. It contains at most one of `run`, `steps`, `for`, `launch` and `use`.

    Steps run one after the other. If a step fails, the later steps of its list do not run. Unless
    the step or an enclosing step has a `catch`, the job ends with the exit code of the failed step.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": _EXCLUSIVE})

    name: Name | None = Field(
        default=None, description="Name in Slurm. At most 128 printable characters."
    )
    depends_on: Annotated[tuple[Handle, ...], Field(strict=False, max_length=MAX_STEPS)] = Field(
        default=(),
        description=(
            "Handles of launched steps to wait for. They are launched earlier: in the same list, in"
            " an enclosing list, or in a group, without `catch` and `finally`, of such a list."
            " If a launched step fails, this step fails."
        ),
    )
    if_: (
        Annotated[
            Text,
            Field(max_length=MAX_CONDITION),
            AfterValidator(_check_condition),
            schema_rule(pattern="^$|[^ \\t\\n]"),
        ]
        | None
    ) = Field(
        default=None,
        alias="if",
        description=(
            "Expression between `[[` and `]]` of bash. If it is false, the step is skipped. An"
            " empty text is no condition. The expression is evaluated on the first node of the job,"
            " in a separate shell with the variables of the job."
        ),
    )
    steps: Steps = Field(default=(), description="A list of steps.")
    run: StepRun | None = Field(default=None, description="A command.")
    for_: StepFor | None = Field(default=None, alias="for", description="A loop.")
    launch: StepAsyncLaunch | None = Field(
        default=None, description="Steps that run in parallel with the later steps."
    )
    use: StepUse | None = Field(default=None, description="A module.")
    catch: Steps = Field(
        default=(),
        description=(
            "Steps that run if the step fails. In these steps, `DEEPSQUARE_ERROR_CODE` contains the"
            " exit code of the failed step. Later steps have the variable too, until another step"
            " with a `catch` or a `finally` replaces it. If the steps of `catch` succeed, the job"
            " continues."
        ),
    )
    finally_: Steps = Field(
        default=(),
        alias="finally",
        description=(
            "Steps that run after the step and its `catch`, even if the step or its `catch` fails."
            " The exit code of the step remains. If this exit code is 0, the exit code of the"
            " `finally` steps is used. If the job is cancelled or exceeds its time limit, each"
            " `finally` step runs once, on the first node of the job, in the few seconds that the"
            " provider allows."
        ),
    )

    @model_validator(mode="after")
    def _check_one_type(self) -> Self:
        values = (self.steps, self.run, self.for_, self.launch, self.use)
        present_types = [name for name, value in zip(STEP_TYPES, values, strict=True) if value]
        if len(present_types) > 1:
            reason = f"has both {' and '.join(present_types)}; only one of them is allowed"
            raise RuleError(reason, key=present_types[-1])
        return self


Steps = Annotated[tuple[Step, ...], Field(strict=False, max_length=MAX_STEPS)]


class Workflow(Model):
    """A job: its resources and its steps."""

    enable_logging: bool = Field(
        default=False,
        description=(
            "Whether the grid's logger stores the job's output, so that the customer can read it."
        ),
    )
    disable_log_markers: bool = Field(
        default=False,
        description=(
            "Whether the log has no markers. Markers are lines that start with `[gridstead] `. They"
            " say when a step begins and ends. At the end they show the size and the first files of"
            " `$DEEPSQUARE_OUTPUT`. They are not in stdout or stderr. No effect without"
            " `enableLogging`."
        ),
    )
    resources: JobResources = Field(description="Resources of the whole job.")
    env: Env = Field(default=(), description="Variables of every step.")
    input: TransportData | None = Field(
        default=None,
        description=(
            "Data that is copied to `$DEEPSQUARE_INPUT` before the first step. An archive from a"
            " URL is unpacked in this directory."
        ),
    )
    input_mode: Mode | None = Field(
        default=None,
        description=(
            "Permissions of all files and directories in `$DEEPSQUARE_INPUT`. `0o755` is octal and"
            " means `rwxr-xr-x`, as 493 does. `0755` is octal too, but causes a warning. Default:"
            " `0o700`, which is `rwx------`."
        ),
    )
    output: TransportData | None = Field(
        default=None,
        description=(
            "Target to which `$DEEPSQUARE_OUTPUT` is copied after the last step, even if a step has"
            " failed. A URL receives a single file unchanged. Several files are sent as"
            " `output.zip`, in which their names start with `output/`. The answer of the server is"
            " written to the job's stdout. If the job is cancelled or exceeds its time limit, the"
            " output must be sent in the few seconds that the provider allows."
        ),
    )
    continuous_output_sync: bool = Field(
        default=False,
        description=(
            "Whether the output is also sent to S3 while the job runs. No effect without an output"
            " to S3."
        ),
    )
    virtual_networks: Annotated[
        tuple[VirtualNetwork, ...], Field(strict=False, max_length=MAX_NETWORKS)
    ] = Field(default=(), description="Networks among the steps of the job.")
    steps: Steps = Field(description="Steps, in order; 1 to 256.", min_length=1)

    @property
    def is_output_synced(self) -> bool:
        """Return whether the output is also sent while the job runs."""
        is_sent_to_s3 = self.output is not None and self.output.is_in_s3
        return self.continuous_output_sync and is_sent_to_s3

    def to_graphql(self) -> dict[str, object]:
        """Return the workflow in the wire format, without fields that have no value."""
        wire: dict[str, object] = _without_empty(
            self.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        if not self.disable_log_markers:
            # Services of earlier releases and of DeepSquare refuse the field.
            del wire["disableLogMarkers"]
        return wire


def _without_empty(value: Any) -> Any:  # noqa: ANN401 # what JSON can hold
    """Return the value without empty lists, except the items of a loop, which are required."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: item for key, item in value.items() if item != [] or key == "items"}
    return {key: _without_empty(item) for key, item in fields.items()}


for _model in (StepFor, StepAsyncLaunch, StepUse, Step, Workflow):
    _model.model_rebuild()
