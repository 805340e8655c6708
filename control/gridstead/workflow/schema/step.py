# SPDX-License-Identifier: Apache-2.0
"""A job, its steps and the order in which they run."""

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
    Text,
    shown_as,
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
TERM = 15

KINDS = ("steps", "run", "for", "launch", "use")
_EXCLUSIVE: list[JsonValue] = [{"not": {"required": list(pair)}} for pair in combinations(KINDS, 2)]


def _signal(value: int) -> int:
    if not 0 <= value <= MAX_SIGNAL:
        raise ValueError(f"must be a signal, 1 to {MAX_SIGNAL}, or 0 for none")
    return value


def _condition(value: str) -> str:
    if value and not value.strip(" \t\n"):
        raise ValueError("must not be blank")
    return value


Signal = Annotated[int, AfterValidator(_signal), shown_as(minimum=0, maximum=MAX_SIGNAL)]


class ForRange(Model):
    """Numbers, both ends among them. A range whose end lies behind its begin holds none."""

    begin: Integer = Field(description="The first number.")
    end: Integer = Field(description="The last number.")
    increment: Integer = Field(
        default=1, description="From one number to the next; may be negative. 0 counts as 1."
    )

    def numbers(self) -> range:
        """Return the numbers, in order."""
        step = self.increment or 1
        return range(self.begin, self.end + (1 if step > 0 else -1), step)


class StepFor(Model):
    """A loop: its steps run once for each item, which is their variable `item`, or each number,
    their `index`.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["items"]}, {"required": ["range"]}]},
    )

    parallel: bool = Field(
        description="Whether the rounds run all at once. The job has to hold what they take together. Each runs to its "
        "end; the code of the loop is that of the first round that failed, in their order."
    )
    items: Annotated[tuple[Text, ...], Field(strict=False, max_length=MAX_ITEMS)] | None = Field(
        default=None, description="Texts. Either these or a range."
    )
    range: ForRange | None = Field(default=None, description="Numbers.")
    steps: Steps = Field(description="What each round does.", min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.items is None) == (self.range is None):
            raise ValueError("needs either items or range")
        return self


class StepAsyncLaunch(Model):
    """Steps that run beside those that follow.

    When the list that the launching step stands in ends, what it launched gets its signal and is
    awaited. Steps that fail by themselves fail that list.
    """

    handle_name: Handle | None = Field(
        default=None,
        description="Name for `dependsOn`: letters, digits and `_`. Case does not count.",
    )
    signal_on_parent_step_exit: Signal = Field(
        default=TERM, description="Number of the signal. 0: none, so that they run to their end."
    )
    steps: Steps = Field(description="What runs.", min_length=1)


class StepUse(Model):
    """Steps of somebody else: a module, the file `module.yaml` of a public git repository.

    They see the arguments as variables. What they write to `DEEPSQUARE_ENV` is theirs until they
    end.
    """

    source: Source = Field(
        description="`<host>/<owner>/<repository>[/<directory>][@<tag or commit>]`. A commit is 7 to 40 hexadecimal "
        "digits; all 40 are the only reference that nobody can move. Without one it is the default branch. "
        "The tag of a module in a directory is `<directory>/<tag>`."
    )
    args: Env = Field(default=(), description="Values of the module's inputs.")
    export_env_as: EnvName | None = Field(
        default=None,
        description="How names of the module's outputs begin for the steps after it: `A` makes `X` to `A_X`. If not "
        "given, these steps see all that the module has written to `DEEPSQUARE_ENV`, by its own names.",
    )
    steps: Steps = Field(
        default=(), description="Steps for the module, which puts them where it wants to."
    )


class Step(Model):
    """One step: one of `run`, `steps`, `for`, `launch` and `use`, or nothing.

    Steps run one after the other. The first that fails ends its list, and the job with its exit
    code, unless a `catch` around it says otherwise.
    """

    model_config = ConfigDict(json_schema_extra={"allOf": _EXCLUSIVE})

    name: Name | None = Field(
        default=None, description="Shown by Slurm. At most 128 printable characters."
    )
    depends_on: Annotated[tuple[Handle, ...], Field(strict=False, max_length=MAX_STEPS)] = Field(
        default=(),
        description="Handles of launched steps to wait for, of this list or of one around it. What failed there fails "
        "this step.",
    )
    if_: (
        Annotated[
            Text,
            Field(min_length=1, max_length=MAX_CONDITION),
            AfterValidator(_condition),
            shown_as(pattern="[^ \\t\\n]"),
        ]
        | None
    ) = Field(
        default=None,
        alias="if",
        description="What stands between `[[` and `]]` of bash. If it does not hold, the step is skipped. It is "
        "evaluated on the job's first node, in a shell of its own that sees the variables of the job.",
    )
    steps: Steps = Field(default=(), description="A list of steps in place of one.")
    run: StepRun | None = Field(default=None, description="A command.")
    for_: StepFor | None = Field(default=None, alias="for", description="A loop.")
    launch: StepAsyncLaunch | None = Field(
        default=None, description="Steps beside those that follow."
    )
    use: StepUse | None = Field(default=None, description="A module.")
    catch: Steps = Field(
        default=(),
        description="What to do when the step fails. They and all steps after them see its code in "
        "`DEEPSQUARE_ERROR_CODE`. If they succeed, the job goes on.",
    )
    finally_: Steps = Field(
        default=(),
        alias="finally",
        description="What to do after the step and its `catch`, however they end. The step's code stays; if it is 0, "
        "that of these steps counts. When the job is cancelled or out of time, each runs once, on its first node, "
        "in the few seconds that the provider leaves it.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        values = (self.steps, self.run, self.for_, self.launch, self.use)
        kinds = [kind for kind, value in zip(KINDS, values, strict=True) if value]
        if len(kinds) > 1:
            raise ValueError(f"has both {' and '.join(kinds)}; a step is one of them")
        return self


Steps = Annotated[tuple[Step, ...], Field(strict=False, max_length=MAX_STEPS)]


class Workflow(Model):
    """A job: what it needs and what it does."""

    enable_logging: bool = Field(
        default=False,
        description="Whether its output goes to the grid's logger, where its owner can read it.",
    )
    resources: JobResources = Field(description="What the whole job gets.")
    env: Env = Field(default=(), description="Variables of every step.")
    input: TransportData | None = Field(
        default=None,
        description="What lies in `$DEEPSQUARE_INPUT` before the first step. A packed file from the web is unpacked "
        "beside itself.",
    )
    input_mode: Mode | None = Field(
        default=None,
        description="Permissions of everything in `$DEEPSQUARE_INPUT`, as a decimal number: 511 is `rwxrwxrwx`. "
        "448, `rwx------`, if not given.",
    )
    output: TransportData | None = Field(
        default=None,
        description="Where `$DEEPSQUARE_OUTPUT` goes when all steps have succeeded. To the web goes one file, or "
        "`output.zip` where there are more; the answer stands in the job's output.",
    )
    continuous_output_sync: bool = Field(
        default=False,
        description="Whether the output goes to S3 while the job runs too, and however it ends.",
    )
    virtual_networks: Annotated[
        tuple[VirtualNetwork, ...], Field(strict=False, max_length=MAX_NETWORKS)
    ] = Field(default=(), description="Networks among its steps.")
    steps: Steps = Field(description="What it does, in order; 1 to 256 steps.", min_length=1)

    @model_validator(mode="after")
    def _continuous_to_s3(self) -> Self:
        if self.continuous_output_sync and not (
            self.output and self.output.s3 and not self.output.http
        ):
            raise ValueError("has continuousOutputSync, which needs an output to s3")
        return self

    def to_graphql(self) -> dict[str, object]:
        """Return the workflow as the wire has it, without fields that have no value."""
        wire: dict[str, object] = _without_empty(
            self.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        return wire


def _without_empty(value: Any) -> Any:  # noqa: ANN401 # what JSON can hold
    """Lists that hold nothing say nothing, but for the items of a loop."""
    if isinstance(value, dict):
        return {
            key: _without_empty(item) for key, item in value.items() if item != [] or key == "items"
        }
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


for _model in (StepFor, StepAsyncLaunch, StepUse, Step, Workflow):
    _model.model_rebuild()
