# SPDX-License-Identifier: Apache-2.0
"""A module: steps with inputs and outputs, in a repository of their own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.workflow.schema.base import MAX_ENV, EnvName, Model, Name, Text
from gridstead.workflow.schema.resources import JobResources
from gridstead.workflow.schema.step import Steps, StepUse


class ModuleInput(Model):
    """A variable that a module's steps see."""

    key: EnvName = Field(description="Its name.")
    description: Text = Field(description="What it is for.")
    default: Text | None = Field(
        default=None, description="Its value when there is no argument; empty, if not given."
    )


class ModuleOutput(Model):
    """A variable that a module's steps write to `DEEPSQUARE_ENV` for the steps after it."""

    key: EnvName = Field(description="Its name.")
    description: Text = Field(description="What it says.")


class Module(Model):
    """The file `module.yaml`.

    It is a template in the form of Go's `text/template`: `{{ .Job }}` is the job and `{{ .Step }}` the step that uses
    the module, with their fields (`{{ .Job.Resources.Tasks }}`); passwords, keys and tokens of the job are empty there.
    Those of the step are words that stand for them, which count only where the step has them, beside what it has there:
    `{{- .Step.Use.Steps | toYaml | nindent 2 }}` puts the steps of `use` into a list, with their secrets. There are
    `if`, `with`, `range`, variables, the functions of Go that need only their arguments, and the usual ones of sprig.
    """

    name: Name = Field(description="Its name.")
    description: Text = Field(description="What it does.")
    minimum_resources: JobResources = Field(description="What a job must have at least to use it.")
    inputs: Annotated[tuple[ModuleInput, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="Its arguments. There are no others."
    )
    outputs: Annotated[tuple[ModuleOutput, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="What it gives to the steps after it."
    )
    steps: Steps = Field(description="What it does, in order.", min_length=1)


class ResolvedUse(StepUse):
    """A use with its module. Never read from a file or from the wire."""

    module: Module

    @property
    def inputs(self) -> dict[str, str]:
        """Values of the module's inputs, in its order."""
        given = {argument.key: argument.value for argument in self.args}
        return {each.key: given.get(each.key, each.default or "") for each in self.module.inputs}
