# SPDX-License-Identifier: Apache-2.0
"""A module: steps with inputs and outputs, in a separate git repository."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.workflow.schema.base import MAX_ENV, EnvName, Model, Name, Text
from gridstead.workflow.schema.resources import JobResources
from gridstead.workflow.schema.step import Steps, StepUse


class ModuleInput(Model):
    """An input variable of a module's steps."""

    key: EnvName = Field(description="Name of the variable.")
    description: Text = Field(default="", description="Purpose of the variable.")
    default: Text | None = Field(
        default=None, description="Value if there is no argument. Default: empty."
    )


class ModuleOutput(Model):
    """A variable that a module's steps write to `DEEPSQUARE_ENV` for the steps after the module."""

    key: EnvName = Field(description="Name of the variable.")
    description: Text = Field(default="", description="Meaning of the variable.")


class Module(Model):
    """The file `module.yaml`.

    It is a template in the language of Go's `text/template`. `{{ .Job }}` is the job and `{{ .Step
    }}` the step that uses the module, with their fields (`{{ .Job.Resources.Tasks }}`). Passwords,
    keys and tokens of the job are empty. Passwords, keys and tokens of the step are masked: the
    template reads another text in place of each. The service replaces this text by the secret only
    where the template inserts the mapping that contains the secret as a whole and unchanged. For
    example, `{{- .Step.Use.Steps | toYaml | nindent 2 }}` inserts the steps that the user of the
    module wrote in `use.steps`, with their secrets. A template can use all statements of the
    language, its built-in functions except `js` and `call`, and common functions of sprig, for
    example `addf`, `merge`, `sha256sum` and `regexReplaceAll`. Functions of time and of random
    numbers such as `now`, `randAlpha` and `uuidv4` are not available, because the same workflow
    must always give the same script. A list is printed as `[a b]` and a mapping as
    `map[key:value]`. `toYaml` prints them as YAML.
    """

    name: Name = Field(description="Name of the module.")
    description: Text = Field(default="", description="Purpose of the module.")
    minimum_resources: JobResources = Field(description="Minimum resources of the job.")
    inputs: Annotated[tuple[ModuleInput, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="Allowed arguments."
    )
    outputs: Annotated[tuple[ModuleOutput, ...], Field(strict=False, max_length=MAX_ENV)] = Field(
        default=(), description="Variables for the steps after the module."
    )
    steps: Steps = Field(description="Steps, in order.", min_length=1)


class ResolvedUse(StepUse):
    """The field ``use`` of a step, with the module that was fetched for it.

    A ``ResolvedUse`` never comes from a file or from the wire.
    """

    module: Module

    @property
    def inputs(self) -> dict[str, str]:
        """Return the values of the module's inputs, in the order in which the module lists them."""
        values = {argument.key: argument.value for argument in self.args}
        inputs = {}
        for module_input in self.module.inputs:
            default = module_input.default or ""
            inputs[module_input.key] = values.get(module_input.key, default)
        return inputs
