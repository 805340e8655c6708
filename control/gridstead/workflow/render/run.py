# SPDX-License-Identifier: Apache-2.0
"""A step that runs a command with one call of srun."""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.workflow.render.container import prepare, task_words
from gridstead.workflow.render.context import RenderContext
from gridstead.workflow.render.network import enter
from gridstead.workflow.render.shell_text import exports, fill, quote
from gridstead.workflow.schema import ContainerRun, StepRun
from gridstead.workflow.schema.run import HOST

SIGINT = 2
# pmix is the PMIx version of the node; versions of PMIx are compatible.
MPI = {"none": "none", "pmi2": "pmi2", "pmix_v4": "pmix"}
# This shell starts srun, so its process id names the file.
_RECORD_STEP = '  set -- /bin/sh -c "$record_step" "$storage/.step-$BASHPID" "$@"\n'
_ENTER = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'


def run_function(function: str, name: str, run: StepRun, place: RenderContext) -> str:
    """Return the function that runs a step's command."""
    in_namespace = run.network != HOST
    record = _RECORD_STEP if any(place.signals) else ""
    common = {
        "function": function,
        "outer_variables": place.outer_variables,
        "exports": exports(run.env),
        "name": quote(name),
        "options": " ".join(_options(run, place)),
        "network": enter(run, place),
        "record": record,
    }
    if run.container:
        container = _container_arguments(run, run.container, place)
        return fill("run_container.sh", **container, **common)
    prefix = "" if in_namespace else _map_user(run)
    if run.work_dir:
        prefix += _enter(run.work_dir)
    return fill(
        "run.sh",
        around='"$@" ' if in_namespace or record else "",
        enter=prefix,
        shell=run.shell,
        command=quote(run.command),
        **common,
    )


def _container_arguments(
    run: StepRun, container: ContainerRun, place: RenderContext
) -> dict[str, str]:
    return {
        "prepare": prepare(container, place),
        "cache": quote(place.cache),
        "env_file": '"${env_file##*/}"' if place.in_module else "env",
        "words": task_words(run, place),
    }


def _options(run: StepRun, place: RenderContext) -> Iterable[str]:
    step, job = run.resources, place.workflow.resources
    yield f"--nodes=1-{step.tasks}"
    yield f"--ntasks={step.tasks}"
    yield f"--cpus-per-task={step.cpus_per_task or job.cpus_per_task}"
    yield f"--mem-per-cpu={step.mem_per_cpu or job.mem_per_cpu}M"
    if job.gpus:
        yield f"--gpus={step.gpus_per_task * step.tasks}"
    if step.gpus_per_task:
        yield f"--gpus-per-task={step.gpus_per_task}"
    if run.container and job.gpus:
        yield "--gpu-bind=none"
    if run.mpi:
        yield f"--mpi={MPI[run.mpi]}"
    if run.disable_cpu_binding:
        yield "--cpu-bind=none"
    if SIGINT in place.signals:
        yield "--quit-on-interrupt"  # otherwise the first interrupt only prints the task states


def _enter(directory: str) -> str:
    """Return the words before a command that run it in a directory.

    Each task creates and enters the directory, which may be on the node's local disk. The option
    --chdir of srun checks the directory before the task's private /tmp is mounted.
    """
    return f"/bin/sh -c {quote(_ENTER)} {quote(directory)} "


def _map_user(run: StepRun) -> str:
    """Return the words before a command that run it as another user in a user namespace."""
    maps = (("--map-user", run.map_uid), ("--map-group", run.map_gid))
    words = [f"{option}={number}" for option, number in maps if number is not None]
    return " ".join(["unshare", "--map-current-user", *words, "--mount", "-- "]) if words else ""
