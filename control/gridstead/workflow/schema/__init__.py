# SPDX-License-Identifier: Apache-2.0
"""What a workflow may say: the fields, their rules and defaults, one module per theme.

The names are those of the grid's wire format. The descriptions are the reference page
(docs/reference/workflow.md); a rule that a type cannot tell stands in its description. Fields that exist in the
language but not in this grid yet are in LATER, so that a message can say so.
"""

from __future__ import annotations

from gridstead.workflow.schema.base import model_in
from gridstead.workflow.schema.container import ContainerRun, Mount
from gridstead.workflow.schema.data import HTTPData, S3Data, TransportData
from gridstead.workflow.schema.later import LATER, WITHIN_LATER
from gridstead.workflow.schema.module import Module, ModuleInput, ModuleOutput, ResolvedUse
from gridstead.workflow.schema.resources import EnvVar, JobResources, StepRunResources
from gridstead.workflow.schema.run import StepRun
from gridstead.workflow.schema.source import ModuleSource
from gridstead.workflow.schema.step import ForRange, Step, StepAsyncLaunch, StepFor, StepUse, Workflow

__all__ = [
    "LATER",
    "WITHIN_LATER",
    "ContainerRun",
    "EnvVar",
    "ForRange",
    "HTTPData",
    "JobResources",
    "Module",
    "ModuleInput",
    "ModuleOutput",
    "ModuleSource",
    "Mount",
    "ResolvedUse",
    "S3Data",
    "Step",
    "StepAsyncLaunch",
    "StepFor",
    "StepRun",
    "StepRunResources",
    "StepUse",
    "TransportData",
    "Workflow",
    "model_in",
]
