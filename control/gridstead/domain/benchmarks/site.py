# SPDX-License-Identifier: Apache-2.0
"""The site that is measured, the steps of a run, and what a run found.

A run consists of steps. A step starts one program on some nodes through Slurm. Its standard output
is text that a suite reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from gridstead.domain.benchmarks.equipment import Equipment, NetworkOptions
from gridstead.domain.benchmarks.metrics import Metric
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput
from gridstead.domain.jobs.job import Label


class Mode(StrEnum):
    """How long a run takes."""

    LAB = "lab"  # small sizes, for tests; the limits of steps only find hangs
    QUICK = "quick"  # at most 5 minutes on one node, and 20 minutes on 100 nodes
    FULL = "full"  # a step may take four hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the partition.

    Attributes:
        name: Its name in Slurm.
        cores: Its physical cores that jobs can use.
        memory_mib: Its memory that jobs can use.
        gpus: Its GPUs.
        unavailable: Why Slurm starts no job on it. Empty if Slurm starts jobs on it.
    """

    name: str
    cores: int
    memory_mib: int
    gpus: int = 0
    unavailable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a site is measured.

    Attributes:
        mode: How long a run takes.
        directories: The directory on the nodes for each key of ``STORAGE`` that is measured.
        suites: The names of the suites. Empty for all suites.
        program_directories: Directories on the nodes in which programs are searched first.
        network: How MPI sends messages between nodes.
        gpu_command: The command line that runs HPL-AI on the GPUs of one node. Empty if GPUs are
            not measured.
        internet: What measures the Internet: ``off``, ``librespeed``, or the ``host:port`` of an
            iperf3 server.
        single_node: Whether nothing between nodes is measured.
        in_reservation: Whether the nodes are only those of a reservation.
        asks_all_nodes: Whether each node of the partition must start a job, also a node on which
            Slurm starts no jobs.
        quiet_limit_s: How long the run waits until no node is busy. Then it leaves out the steps
            that need a quiet site.
    """

    mode: Mode
    directories: Mapping[str, str]
    suites: tuple[str, ...] = ()
    program_directories: tuple[str, ...] = ()
    network: NetworkOptions = field(default_factory=NetworkOptions)
    gpu_command: str = ""
    internet: str = "off"
    single_node: bool = False
    in_reservation: bool = False
    asks_all_nodes: bool = False
    quiet_limit_s: int = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSite:
    """What is measured, and how.

    Attributes:
        nodes: At least one node, sorted by name.
        options: How.
        unavailable_nodes: The nodes on which Slurm starts no jobs, sorted by name.
        equipment: What messages between nodes are measured with.
    """

    nodes: tuple[Node, ...]
    options: Options
    unavailable_nodes: tuple[Node, ...] = ()
    equipment: Equipment = field(default_factory=Equipment)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node.name for node in self.nodes)

    @property
    def measures_gpus(self) -> bool:
        """Whether the speed of the site is that of its GPUs."""
        return bool(self.options.gpu_command) and all(node.gpus for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A program that runs on nodes that nothing else uses.

    Attributes:
        name: Unique in the run.
        nodes: The names of its nodes.
        tasks_per_node: How many tasks run on each node.
        script: The bash script of each task. The tasks of a step are one MPI program.
        limit_s: How long the step may run, in seconds.
        gpus_per_node: How many GPUs of each node it uses.
        needs_quiet: Whether jobs of others would make it slower, or it would make them slower,
            although they do not use its nodes.
    """

    name: str
    nodes: tuple[str, ...]
    tasks_per_node: int
    script: str
    limit_s: int
    gpus_per_node: int = 0
    needs_quiet: bool = False


class Cause(StrEnum):
    """Why a step failed, as far as the rest of the run depends on it."""

    PREEMPTED = "preempted"  # by a job of another partition
    NOT_STARTED = "not started"  # because its nodes did not become free, or did not respond
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a step has no output.

    Attributes:
        reason: Why, for people.
        cause: Why, for the rest of the run.
    """

    reason: str
    cause: Cause = Cause.OTHER


# The standard output of each task of a step, or why there is none.
Outcome = tuple[str, ...] | Failure
Outcomes = Mapping[str, Outcome]  # by the name of the step


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A value that was measured on one node. It is more than 0."""

    node: str
    metric: Metric
    value: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMeasurement:
    """A value that was measured between two nodes. It is more than 0.

    Attributes:
        nodes: The names of the two nodes.
        metric: What was measured.
        value: The value.
    """

    nodes: tuple[str, str]
    metric: Metric
    value: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Labels that are left out, and why.

    Attributes:
        keys: What is left out: keys of labels, or their common beginning and ``*``.
        reason: Why, for the operator.
    """

    keys: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """What is wrong with a node, for the operator."""

    node: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a run found.

    Attributes:
        labels: The labels of the site.
        measurements: What was measured on each node.
        omissions: The labels that are left out.
        pairs: What was measured between two nodes.
        diagnostics: What is wrong with nodes.
        transport: What MPI used between nodes and why. Empty if nothing was sent between nodes.
    """

    labels: list[Label] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    omissions: list[Omission] = field(default_factory=list)
    pairs: list[PairMeasurement] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    transport: str = ""

    def omit(self, keys: str, reason: str) -> None:
        """Add labels that are left out."""
        self.omissions.append(Omission(keys=keys, reason=reason))

    def add(self, other: Findings) -> None:
        """Add the findings of another suite."""
        self.labels += other.labels
        self.measurements += other.measurements
        self.omissions += other.omissions
        self.pairs += other.pairs
        self.diagnostics += other.diagnostics
        self.transport = self.transport or other.transport


def texts_of(outcomes: Outcomes, step_name: str) -> tuple[str, ...]:
    """Return the output of each task of a step.

    Raises:
        UnusableOutput: If the step failed.
    """
    outcome = outcomes[step_name]
    if isinstance(outcome, Failure):
        raise UnusableOutput(f"step {step_name}", outcome.reason, "")
    return outcome
