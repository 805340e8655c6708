# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait for a cause made on purpose, and the output of `gridstead job why` about them.

The jobs wait on the lab with a second provider (``second_provider.py``). The lab has 2 nodes with
64 CPUs, 2500 MB and 2 GPUs each. The second provider has 8 nodes with 15 CPUs and 2000 MB each.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from typer.testing import CliRunner

from gridstead.cli.main import app
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Affinity, Label

LAB, SECOND = "lab", "second"  # names of the providers in this file


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """What a job requires.

    Attributes:
        resources: The resources of the job.
        zone: The label ``zone`` that the job requires. Empty for none.
        condition: A condition of the job: key, operator and value. None for no condition.
        credits_: The escrow.
    """

    resources: Resources
    zone: str = ""
    condition: tuple[str, str, str] | None = None
    credits_: int = 300

    @property
    def uses(self):
        """The labels that the job requires."""
        return (Label(key="zone", value=self.zone),) if self.zone else ()

    @property
    def affinity(self):
        """The conditions of the job. A value ``now+N`` is the time in N seconds, Unix seconds."""
        if self.condition is None:
            return ()
        key, operator, value = self.condition
        if value.startswith("now+"):
            value = str(int(time.time()) + int(value.removeprefix("now+")))
        return (Affinity(key=key, operator=operator, value=value),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A job that waits for one cause, and what `gridstead job why` prints about it.

    Attributes:
        job: The job.
        reason: The reason in one line.
        rows: The rows of the table: the number of providers, the condition and the nearest miss.
        codes: The number of providers by the code of their obstacle.
        nearest: The nearest miss: quantity, needed, available and provider. None if no obstacle has
            one.
    """

    job: WaitingJob
    reason: str
    rows: tuple[tuple[str, str, str], ...]
    codes: dict[str, int]
    nearest: tuple[str, int, int, str] | None = None


def size(*, tasks=1, cpus=1, memory_mb=16, gpus=0):
    """Return the resources of a job. ``cpus`` are those of a task, ``memory_mb`` that of a CPU."""
    return Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory_mb)


def too_small(resources, nearest_text, quantity, needed, available):
    """Return the cause that the nodes of both providers are too small, the lab's by less."""
    return Cause(
        job=WaitingJob(resources=resources),
        reason="no provider can run it: 2 too small",
        rows=(("2", "too small", nearest_text),),
        codes={"too-small": 2},
        nearest=(quantity, needed, available, LAB),
    )


def excluded(key, operator, value):
    """Return the cause that a condition with a reserved key excludes both providers."""
    return Cause(
        job=WaitingJob(resources=size(cpus=15), condition=(key, operator, value)),
        reason=f"no provider can run it: 2 excluded by {key}",
        rows=(("2", f"excluded by {key}", ""),),
        codes={"condition": 2},
    )


CAUSES = {
    "memory": too_small(
        size(memory_mb=3000),
        "needs 3000 MiB on a node; the largest node has 2500 MiB",
        *("node-memory-mb", 3000, 2500),
    ),
    "cpus": too_small(
        size(cpus=80),
        "needs 80 CPUs on a node; the largest node has 64",
        *("node-cpus", 80, 64),
    ),
    "tasks": too_small(
        size(tasks=130),
        "needs room for 130 tasks at once; the most is 128",
        *("tasks", 130, 128),
    ),
    "gpus": too_small(
        size(gpus=5),
        "needs 5 GPUs; the nearest provider has 4",
        *("gpus", 5, 4),
    ),
    "label": Cause(
        job=WaitingJob(resources=size(), zone="moon"),
        reason="no provider can run it: 2 without the required labels",
        rows=(
            ("2", "without the required labels", ""),
            ("", "", "needs label zone=moon; 2 of 2 providers have another (lab, simulated)"),
        ),
        codes={"labels": 2},
    ),
    # 120 CPUs cost 114.15 credits a minute at the lab.
    "escrow": Cause(
        job=WaitingJob(resources=size(tasks=120), credits_=100),
        reason="no provider can run it: 2 too expensive",
        rows=(
            (
                "2",
                "too expensive",
                "costs 102.0768 credits a minute at the cheapest; its escrow is 100",
            ),
        ),
        codes={"too-expensive": 2},
        nearest=("escrow-wei", 1020768 * 10**14, 100 * 10**18, SECOND),
    ),
    "price": excluded("price.per-min", "<=", "12"),  # it costs 12.76 or more
    "wait": excluded("queue.wait.s", "<=", "60"),
    "deadline": excluded("deadline.unix", "<=", "now+600"),  # it is paid for at least 21 minutes
    # The lab has room for 8 tasks, and the paid time ends before its reservation.
    "policy": Cause(
        job=WaitingJob(
            resources=size(tasks=8), condition=("policy", "=", "cheapest"), credits_=100
        ),
        reason="waits for a provider: 1 full, 1 with room, but not for this job yet",
        rows=(
            ("1", "full", "needs 1 CPU on a node; the largest node has 0 free"),
            (
                "1",
                "with room, but a full one is cheaper",
                "costs 7.61024 credits a minute there, and 6.80512 at a provider that is full",
            ),
        ),
        codes={"full": 1, "policy": 1},
        nearest=("price-per-min-wei", 680512 * 10**13, 761024 * 10**13, LAB),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The output of `gridstead job why`.

    Attributes:
        reason: The reason in one line.
        rows: The rows of the table.
        facts: The lines after the table, by name.
        answer: The value of key ``why`` in the output with ``--json``.
    """

    reason: str
    rows: tuple[tuple[str, str, str], ...]
    facts: dict[str, str]
    answer: dict[str, object]

    @property
    def codes(self):
        """The number of providers by the code of their obstacle."""
        return {obstacle["code"]: obstacle["providers"] for obstacle in self.answer["obstacles"]}

    def nearest(self, code):
        """Return the nearest miss of an obstacle, as a dictionary. None if it has none."""
        (obstacle,) = [each for each in self.answer["obstacles"] if each["code"] == code]
        return obstacle["nearest"]


def explain(user, number):
    """Return what `gridstead job why` prints about a pending job, with and without --json."""
    record = json.loads(_why(user, number, "--json"))
    assert (record["number"], record["state"], record["waits"]) == (number, "PENDING", True)
    first_line, *lines = filter(None, _why(user, number).splitlines())
    rows = []
    header = lines.pop(0)
    columns = (header.index("CONDITION"), header.index("NEAREST"))
    while not lines[0].startswith("jobs ahead"):
        rows.append(_split(lines.pop(0), columns))
    column = lines[0].index("about")
    return Explanation(
        reason=first_line.removeprefix(f"job {number}: "),
        rows=tuple(rows),
        facts=dict(_split(line, (column,)) for line in lines),
        answer=record["why"],
    )


def _why(user, number, *options):
    """Run `gridstead job why` in this process, and return its output."""
    arguments = ["job", "why", str(number), "--config", str(user.settings), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


def _split(line, columns):
    """Return the stripped parts of a line that begin at these columns."""
    ends = (*columns, len(line))
    return tuple(line[start:end].strip() for start, end in zip((0, *columns), ends, strict=True))
