# SPDX-License-Identifier: Apache-2.0
"""Renders a step that runs a command, with one call of srun."""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.workflow.render.container import prepare_command, task_arguments, work_dir_argument
from gridstead.workflow.render.context import RenderContext
from gridstead.workflow.render.network import enter_namespace
from gridstead.workflow.render.shell_text import exports, fill, quote
from gridstead.workflow.schema import StepRun
from gridstead.workflow.schema.run import HOST

SIGINT = 2
# pmix selects the PMIx version of the node. All versions of PMIx are compatible.
MPI = {"none": "none", "pmi2": "pmi2", "pmix_v4": "pmix"}
# Writes the Slurm step id to a file before the command of the step runs. The name of the file
# contains the process id of the shell that starts srun.
_RECORD_STEP = '  set -- /bin/sh -c "$record_step" "$storage/.step-$BASHPID" "$@"\n'
# $0 is the directory, and $@ is the command.
_ENTER_DIRECTORY = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'


def run_function(function: str, name: str, run: StepRun, context: RenderContext) -> str:
    """Return the function that runs a step's command."""
    has_namespace = run.network != HOST
    # Signal 0 is no signal.
    record = _RECORD_STEP if any(context.signals) else ""
    common_values = {
        "function": function,
        "outer_variables": context.outer_variables,
        "exports": exports(run.env),
        "name": quote(name),
        "options": " ".join(_options(run, context)),
        "network": enter_namespace(run, context),
        "record": record,
    }
    if run.container:
        return fill("run_container.sh", **_container_arguments(run, context), **common_values)
    prefix = "" if has_namespace else _map_user(run)
    if run.work_dir:
        prefix += _enter_directory(run.work_dir)
    return fill(
        "run.sh",
        around='"$@" ' if has_namespace or record else "",
        enter=prefix,
        shell=run.shell,
        command=quote(run.command),
        **common_values,
    )


def _container_arguments(run: StepRun, context: RenderContext) -> dict[str, str]:
    return {
        "prepare": prepare_command(run, context),
        "work_dir": work_dir_argument(run),
        "cache": quote(context.cache),
        "env_file": '"${env_file##*/}"' if context.in_module else "env",
        "words": task_arguments(run, context),
    }


def _options(run: StepRun, context: RenderContext) -> Iterable[str]:
    job, requested = context.workflow.resources, run.resources
    yield f"--nodes=1-{requested.tasks}"
    yield f"--ntasks={requested.tasks}"
    yield f"--cpus-per-task={requested.cpus_per_task or job.cpus_per_task}"
    yield f"--mem-per-cpu={requested.mem_per_cpu or job.mem_per_cpu}M"
    if job.gpus:
        yield f"--gpus={requested.gpus_per_task * requested.tasks}"
    if requested.gpus_per_task:
        yield f"--gpus-per-task={requested.gpus_per_task}"
    if run.container and job.gpus:
        yield "--gpu-bind=none"
    if run.mpi:
        yield f"--mpi={MPI[run.mpi]}"
    if run.disable_cpu_binding:
        yield "--cpu-bind=none"
    if SIGINT in context.signals:
        # By default, srun does not end at the first interrupt. It prints the states of its tasks.
        yield "--quit-on-interrupt"


def _enter_directory(directory: str) -> str:
    """Return the shell words that start the following command in a directory.

    Each task creates and enters the directory, because it may be on the node's local disk. Option
    --chdir of srun is not used: srun checks its directory before the private /tmp is mounted.
    """
    return f"/bin/sh -c {quote(_ENTER_DIRECTORY)} {quote(directory)} "


def _map_user(run: StepRun) -> str:
    """Return the words that start the following command as another user of a user namespace."""
    options = []
    if run.map_uid is not None:
        options.append(f"--map-user={run.map_uid}")
    if run.map_gid is not None:
        options.append(f"--map-group={run.map_gid}")
    if not options:
        return ""
    return f"unshare --map-current-user {' '.join(options)} --mount -- "
