# SPDX-License-Identifier: Apache-2.0
"""The fields of a workflow, with their rules and defaults.

The names are those of the grid's wire format. The reference page (docs/reference/workflow.md) is
generated from the descriptions. A rule that a type cannot express is in the description.
"""

from __future__ import annotations

from gridstead.workflow.schema.base import model_in
from gridstead.workflow.schema.container import ContainerRun, Mount
from gridstead.workflow.schema.data import HTTPData, S3Data, TransportData
from gridstead.workflow.schema.module import Module, ModuleInput, ModuleOutput, ResolvedUse
from gridstead.workflow.schema.network import (
    Bore,
    NetworkInterface,
    VirtualNetwork,
    VNet,
    Wireguard,
    WireguardPeer,
)
from gridstead.workflow.schema.resources import EnvVar, JobResources, StepRunResources
from gridstead.workflow.schema.run import StepRun
from gridstead.workflow.schema.source import ModuleSource
from gridstead.workflow.schema.step import (
    ForRange,
    Step,
    StepAsyncLaunch,
    StepFor,
    StepUse,
    Workflow,
)

__all__ = [
    "Bore",
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
    "NetworkInterface",
    "ResolvedUse",
    "S3Data",
    "Step",
    "StepAsyncLaunch",
    "StepFor",
    "StepRun",
    "StepRunResources",
    "StepUse",
    "TransportData",
    "VNet",
    "VirtualNetwork",
    "Wireguard",
    "WireguardPeer",
    "Workflow",
    "model_in",
]
