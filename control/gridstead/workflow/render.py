# SPDX-License-Identifier: Apache-2.0
"""A workflow as a batch script: text in, text out, the same script for the same workflow.

Rule 1: text of the customer stands in the script only as one quoted word, after the first command, so that it is no
command of ours, no directive of Slurm (sbatch reads ``#SBATCH`` only before the first command) and no line end that
Slurm refuses. Rule 2: the customer's variables are set only in the subshell of a step, so the rest of the script does
not depend on them. Rule 3: no secret is ever in the text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from string import Template

from gridstead.workflow.schema import EnvVar, Step, StepRunResources, Workflow

WRITER = "/opt/gridstead/venv/bin/gridstead-log-writer"
CACHE = "/opt/cache"

PATIENCE_S = 60  # how long srun waits for what a step needs; what one node cannot give at all would never come
_ENTER = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'

_AS_THEY_ARE = "\n\t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Paths on a provider's nodes that a script names.

    Attributes:
        writer: The program that takes a job's output to the logger.
        cache: Parent of the directories for jobs.
    """

    writer: str = WRITER
    cache: str = CACHE


class _ShellTemplate(Template):
    """Holes are ``%%{name}``, which no shell text has."""

    delimiter = "%%"


def render(workflow: Workflow, *, secrets_beside: bool = True, site: Site | None = None) -> str:
    """Return the batch script of a workflow.

    Args:
        workflow: What to run.
        secrets_beside: Whether the script's environment will hold the secrets it needs. Without them a workflow that
            wants logging runs without it, and its output says so.
        site: Paths on the nodes; the usual ones if not given.
    """
    site = site or Site()
    job = workflow.resources
    cpus = job.tasks * job.cpus_per_task
    logging = workflow.enable_logging and secrets_beside
    output = "output.sh" if logging else "without_logging.sh" if workflow.enable_logging else None
    return _fill(
        "job.sh",
        cache=site.cache,
        secrets=_fill("secrets.sh") if logging else "",
        output=_fill(output, writer=quote(site.writer)) if output else "",
        finish_output=_fill("finish_output.sh") if logging else "",
        tasks=job.tasks,
        cpus_per_task=job.cpus_per_task,
        mem_per_cpu=job.mem_per_cpu,
        gpus=job.gpus,
        cpus=cpus,
        mem=cpus * job.mem_per_cpu,
        environment=_exports(workflow.env),
        steps="".join(_step(number, step, workflow) for number, step in enumerate(workflow.steps, 1)).strip("\n"),
    )


def quote(text: str) -> str:
    """Return the text as one word of bash that stands for exactly this text, on lines without control characters.

    Any character is allowed but NUL.
    """
    if all(char.isprintable() or char >= "\x80" or char in _AS_THEY_ARE for char in text):
        return shlex.quote(text)
    return "$'" + "".join(_escape(char) for char in text) + "'"


def _escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    plain = char in _AS_THEY_ARE or " " <= char != "\x7f"
    return char if plain else f"\\x{ord(char):02x}"


def _step(number: int, step: Step, workflow: Workflow) -> str:
    run = step.run
    name = step.name or f"step-{number}"
    return _fill(
        "step.sh",
        number=number,
        title=name,
        exports=_exports(run.env),
        name=quote(name),
        patience=PATIENCE_S,
        options=" ".join(_options(run.resources, workflow)),
        enter=_enter(run.work_dir) if run.work_dir else "",
        shell=run.shell,
        command=quote(run.command),
    )


def _options(step: StepRunResources, workflow: Workflow) -> Iterable[str]:
    job = workflow.resources
    yield f"--nodes=1-{step.tasks}"
    yield f"--ntasks={step.tasks}"
    yield f"--cpus-per-task={step.cpus_per_task or job.cpus_per_task}"
    yield f"--mem-per-cpu={step.mem_per_cpu or job.mem_per_cpu}M"
    if job.gpus:
        yield f"--gpus={step.gpus_per_task * step.tasks}"
    if step.gpus_per_task:
        yield f"--gpus-per-task={step.gpus_per_task}"


def _enter(directory: str) -> str:
    """Return what goes before a command to run it in a directory.

    Each task makes and enters it, as it may be one of the node's own; srun's --chdir looks for it before the task's
    private /tmp is there.
    """
    return f"/bin/sh -c {quote(_ENTER)} {quote(directory)} "


def _exports(env: Iterable[EnvVar]) -> str:
    return "".join(f"  export {quote(f'{variable.key}={variable.value}')}\n" for variable in env)


def _fill(template: str, **values: object) -> str:
    return _template(template).substitute(values)


@cache
def _template(name: str) -> _ShellTemplate:
    return _ShellTemplate(resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8"))
