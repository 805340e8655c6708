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

from gridstead.domain.benchmarks.metrics import Metric
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput
from gridstead.domain.jobs.job import Label


class Mode(StrEnum):
    """How long a run takes."""

    LAB = "lab"  # a step may take a minute; for tests
    QUICK = "quick"  # a step may take five minutes
    FULL = "full"  # a step may take four hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the partition.

    Attributes:
        name: Its name in Slurm.
        cores: Its physical cores that jobs can use.
        memory_mib: Its memory that jobs can use.
    """

    name: str
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a site is measured.

    Attributes:
        mode: How long a run takes.
        directories: The directory on the nodes for each key of ``STORAGE`` that is measured.
        suites: The names of the suites. Empty for all suites.
    """

    mode: Mode
    directories: Mapping[str, str]
    suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSite:
    """What is measured, and how.

    Attributes:
        nodes: At least one node, sorted by name.
        options: How.
    """

    nodes: tuple[Node, ...]
    options: Options

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node.name for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A program that runs on nodes that nothing else uses.

    Attributes:
        name: Unique in the run.
        nodes: The names of its nodes.
        tasks_per_node: How many tasks run on each node.
        script: The bash script of each task. The tasks of a step are one MPI program.
        limit_s: How long the step may run, in seconds.
    """

    name: str
    nodes: tuple[str, ...]
    tasks_per_node: int
    script: str
    limit_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a step has no output."""

    reason: str


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


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a run found."""

    labels: list[Label] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    omissions: list[Omission] = field(default_factory=list)
    pairs: list[PairMeasurement] = field(default_factory=list)

    def omit(self, keys: str, reason: str) -> None:
        """Add labels that are left out."""
        self.omissions.append(Omission(keys=keys, reason=reason))

    def add(self, other: Findings) -> None:
        """Add the findings of another suite."""
        self.labels += other.labels
        self.measurements += other.measurements
        self.omissions += other.omissions
        self.pairs += other.pairs


def texts_of(outcomes: Outcomes, step_name: str) -> tuple[str, ...]:
    """Return the output of each task of a step.

    Raises:
        UnusableOutput: If the step failed.
    """
    outcome = outcomes[step_name]
    if isinstance(outcome, Failure):
        raise UnusableOutput(f"step {step_name}", outcome.reason, "")
    return outcome
