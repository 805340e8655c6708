# SPDX-License-Identifier: Apache-2.0
"""Renders a workflow as a batch script. The same workflow always renders to the same script.

Rule 1: each text of the customer is one quoted word after the first command. Bash therefore does
not run the text as a command. Slurm does not read the text as a directive, because sbatch reads
``#SBATCH`` only before the first command. Quoting also escapes carriage returns, because Slurm
refuses scripts that contain carriage returns. Rule 2: variables of the customer are set only in the
subshell of a step, so the rest of the script does not depend on these variables. Rule 3: the script
contains no secrets.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.supervisor.submission import MAX_SCRIPT_BYTES
from gridstead.errors import InvalidInput
from gridstead.workflow.render.context import all_steps, children
from gridstead.workflow.render.data import fetch_input, send_output
from gridstead.workflow.render.helpers import helpers
from gridstead.workflow.render.markers import has_markers
from gridstead.workflow.render.network import CREATE_PRIVATE, has_virtual_networks, virtual_networks
from gridstead.workflow.render.secrets import secrets_of, store_secrets
from gridstead.workflow.render.shell_text import exports, fill, quote, too_large
from gridstead.workflow.render.steps import render_steps
from gridstead.workflow.schema import Workflow

WRITER = "/opt/gridstead/venv/bin/gridstead-log-writer"
BORE = "/opt/gridstead/venv/bin/gridstead-bore"
CACHE = "/opt/cache"
# Linux limits each variable to 128 KiB.
MAX_SECRETS_BYTES = 120 * 1024

# Parts of the functions finish() and job_environment() in job.sh.
FINISH_SECRETS = '  rm -rf -- "$private"\n'

FINISH_MARKERS = '  end_marker "$status"\n'

FINISH_NETWORKS = """\
  for each in "${gateways[@]}"; do signal_tree TERM "$each"; done
  for each in "${gateways[@]}"; do wait "$each" 2>/dev/null; done
"""

EXPORT_ARGUMENTS = '  if (($#)); then declare -gx -- "$@"; fi\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPaths:
    """Paths on a provider's nodes.

    Attributes:
        writer: The program that sends a job's output to the logger.
        bore: The program that makes a port of a step public.
        cache: The directory that contains the directories of jobs and customers.
    """

    writer: str = WRITER
    bore: str = BORE
    cache: str = CACHE


def render(
    workflow: Workflow, *, secrets_beside: bool = True, paths: ScriptPaths | None = None
) -> str:
    """Return the batch script of a workflow.

    Args:
        workflow: The workflow.
        secrets_beside: Whether the environment of the script will contain the secrets of the job.
            If false, a workflow that enables logging runs without logging, and a message in the
            job's output says so.
        paths: Paths on the nodes. Default: the paths that the roles create.

    Raises:
        InvalidInput: If the workflow has secrets that cannot be passed with the script, or if the
            script or the secrets are too large.
    """
    paths = paths or ScriptPaths()
    _check_secrets(workflow, secrets_beside=secrets_beside)
    logging = workflow.enable_logging and secrets_beside
    markers = logging and has_markers(workflow)
    steps = render_steps(workflow, cache=paths.cache, markers=markers)
    before, after = send_output(workflow, markers=markers)
    call = f"{steps.call} || exit"
    if after:
        # The output is sent after a failure too, so the script continues.
        call = f"code=0\n{steps.call} || code=$?"
    uses_modules = any(step.use for step in all_steps(workflow.steps))
    script = fill(
        "job.sh",
        cache=paths.cache,
        output=_output(workflow, paths, logging=logging, markers=markers),
        **_resources(workflow),
        **_cleanup(workflow, logging=logging, markers=markers),
        **_step_arguments(workflow),
        input=fetch_input(workflow),
        environment=exports(workflow.env),
        earlier=fill("module_environment.sh" if uses_modules else "environment.sh"),
        helpers=helpers(workflow, bore=paths.bore, markers=markers).lstrip("\n"),
        steps=steps.functions.strip("\n"),
        before=virtual_networks(workflow) + before,
        call=call,
        after=after,
    )
    size = len(script.encode())
    if size > MAX_SCRIPT_BYTES:
        raise too_large("the script has", size, MAX_SCRIPT_BYTES)
    return script


def _check_secrets(workflow: Workflow, *, secrets_beside: bool) -> None:
    secrets = secrets_of(workflow)
    if secrets and not secrets_beside:
        raise InvalidInput(
            "cannot run this workflow on this provider",
            detail="the provider does not support secrets outside the script",
        )
    size = sum(len(value.encode()) for value in secrets.values())
    if size > MAX_SECRETS_BYTES:
        raise too_large("the secrets have", size, MAX_SECRETS_BYTES)


def _output(workflow: Workflow, paths: ScriptPaths, *, logging: bool, markers: bool) -> str:
    if logging:
        text = fill("output.sh", writer=quote(paths.writer))
        return text + fill("markers.sh") if markers else text
    return fill("without_logging.sh") if workflow.enable_logging else ""


def _resources(workflow: Workflow) -> dict[str, object]:
    job = workflow.resources
    cpus = job.tasks * job.cpus_per_task
    return {
        "tasks": job.tasks,
        "cpus_per_task": job.cpus_per_task,
        "mem_per_cpu": job.mem_per_cpu,
        "gpus": job.gpus,
        "cpus": cpus,
        "mem": cpus * job.mem_per_cpu,
    }


def _cleanup(workflow: Workflow, *, logging: bool, markers: bool) -> dict[str, object]:
    """Return the part that stores secrets, and the parts that clean up at the end of the job."""
    has_networks = has_virtual_networks(workflow)
    secrets = store_secrets(workflow, logging=logging) or (CREATE_PRIVATE if has_networks else "")
    finish_output = fill("finish_output.sh", end_marker=FINISH_MARKERS if markers else "")
    return {
        "secrets": secrets,
        "finish_output": finish_output if logging else "",
        "finish_networks": FINISH_NETWORKS if has_networks else "",
        "finish_secrets": FINISH_SECRETS if secrets else "",
    }


def _step_arguments(workflow: Workflow) -> dict[str, object]:
    """Return the parts of function ``job_environment`` that export variables of enclosing steps."""
    if not any(children(step) for step in workflow.steps):
        return {"sources": "", "arguments": "", "export_arguments": ""}
    return {
        "sources": "\n# Exports its arguments last.",
        "arguments": " # NAME=value of enclosing steps",
        "export_arguments": EXPORT_ARGUMENTS,
    }
