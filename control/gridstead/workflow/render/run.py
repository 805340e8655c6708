# SPDX-License-Identifier: Apache-2.0
"""A step that runs a command: one call of srun."""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.workflow.render.container import prepare, task_words
from gridstead.workflow.render.context import RenderContext
from gridstead.workflow.render.network import enter
from gridstead.workflow.render.shell_text import exports, fill, quote
from gridstead.workflow.schema import StepRun
from gridstead.workflow.schema.run import HOST

SIGINT = 2
MPI = {
    "none": "none",
    "pmi2": "pmi2",
    "pmix_v4": "pmix",
}  # whichever version of PMIx the node has: they understand each other
_SAY_STEP = (
    '  set -- /bin/sh -c "$say_step" "$storage/.step-$BASHPID" "$@"\n'  # this shell starts srun
)
_ENTER = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'


def run_function(function: str, name: str, run: StepRun, place: RenderContext) -> str:
    """Return the function that runs a step's command."""
    alone = run.network != HOST
    said = _SAY_STEP if any(place.signals) else ""
    common = {
        "function": function,
        "surroundings": place.surroundings,
        "exports": exports(run.env),
        "name": quote(name),
        "options": " ".join(_options(run, place)),
        "network": enter(run, place),
        "said": said,
    }
    if run.container:
        return fill(
            "run_container.sh",
            prepare=prepare(run.container, place),
            cache=quote(place.cache),
            env_file='"${env_file##*/}"' if place.in_module else "env",
            words=task_words(run, place),
            **common,
        )
    return fill(
        "run.sh",
        around='"$@" ' if alone or said else "",
        enter=("" if alone else _mapped(run)) + (_enter(run.work_dir) if run.work_dir else ""),
        shell=run.shell,
        command=quote(run.command),
        **common,
    )


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
        yield "--quit-on-interrupt"  # otherwise srun only tells how its tasks are


def _enter(directory: str) -> str:
    """Return what goes before a command to run it in a directory.

    Each task makes and enters it, as it may be one of the node's own; srun's --chdir looks for it
    before the task's private /tmp is there.
    """
    return f"/bin/sh -c {quote(_ENTER)} {quote(directory)} "


def _mapped(run: StepRun) -> str:
    """Return what goes before a command to run it as another user of a namespace of its own."""
    maps = (("--map-user", run.map_uid), ("--map-group", run.map_gid))
    words = [f"{option}={number}" for option, number in maps if number is not None]
    return " ".join(["unshare", "--map-current-user", *words, "--mount", "-- "]) if words else ""
