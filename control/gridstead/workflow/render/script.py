# SPDX-License-Identifier: Apache-2.0
"""A workflow as a batch script: text in, text out, the same script for the same workflow.

Rule 1: text of the customer stands in the script only as one quoted word, after the first command,
so that it is no command of ours, no directive of Slurm (sbatch reads ``#SBATCH`` only before the
first command) and no line end that Slurm refuses. Rule 2: the customer's variables are set only in
the subshell of a step, so the rest of the script does not depend on them. Rule 3: no secret is ever
in the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.submission import MAX_SCRIPT_BYTES
from gridstead.errors import InvalidInput
from gridstead.workflow.render.context import all_steps, children
from gridstead.workflow.render.data import fetch, send
from gridstead.workflow.render.network import PRIVATE, is_networked, virtual_networks
from gridstead.workflow.render.secrets import put_away, secrets_of
from gridstead.workflow.render.shell_text import exports, fill, quote, too_large
from gridstead.workflow.render.steps import helpers, render_steps
from gridstead.workflow.schema import Workflow

WRITER = "/opt/gridstead/venv/bin/gridstead-log-writer"
BORE = "/opt/gridstead/venv/bin/gridstead-bore"
CACHE = "/opt/cache"
MAX_SECRETS_BYTES = (
    120 * 1024
)  # Linux takes less than 128 KiB in one variable, and there is more in an environment

FINISH_SECRETS = '  rm -rf -- "$private"\n'

FINISH_NETWORKS = """\
  for each in "${middles[@]}"; do signal_tree TERM "$each"; done
  for each in "${middles[@]}"; do wait "$each" 2>/dev/null; done
"""

EXPORT_MORE = '  if (($#)); then declare -gx -- "$@"; fi\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPaths:
    """Paths on a provider's nodes that a script names.

    Attributes:
        writer: The program that takes a job's output to the logger.
        bore: The program that opens a port of a step to everybody.
        cache: Parent of the directories for jobs.
    """

    writer: str = WRITER
    bore: str = BORE
    cache: str = CACHE


def render(
    workflow: Workflow, *, secrets_beside: bool = True, site: ScriptPaths | None = None
) -> str:
    """Return the batch script of a workflow.

    Args:
        workflow: What to run.
        secrets_beside: Whether the script's environment will hold the secrets it needs. Without
            them a workflow that wants logging runs without it, and its output says so.
        site: Paths on the nodes; the usual ones if not given.

    Raises:
        InvalidInput: The workflow has secrets of its own and they cannot be beside the script; or
            it makes a script, or secrets, larger than a job can have.
    """
    site = site or ScriptPaths()
    own = secrets_of(workflow)
    if own and not secrets_beside:
        raise InvalidInput(
            "cannot run this workflow on this provider",
            detail="it cannot pass secrets beside a script",
        )
    secret_bytes = sum(len(value.encode()) for value in own.values())
    if secret_bytes > MAX_SECRETS_BYTES:
        raise too_large("what it keeps beside its script", secret_bytes, MAX_SECRETS_BYTES)
    job = workflow.resources
    cpus = job.tasks * job.cpus_per_task
    logging = workflow.enable_logging and secrets_beside
    output = "output.sh" if logging else "without_logging.sh" if workflow.enable_logging else None
    steps = render_steps(workflow, cache=site.cache)
    secrets = put_away(workflow, logging=logging) or (PRIVATE if is_networked(workflow) else "")
    before, after = send(workflow)
    more = any(children(step) for step in workflow.steps)
    uses = any(step.use for step in all_steps(workflow.steps))
    script = fill(
        "job.sh",
        cache=site.cache,
        secrets=secrets,
        output=fill(output, writer=quote(site.writer)) if output else "",
        finish_output=fill("finish_output.sh") if logging else "",
        finish_networks=FINISH_NETWORKS if is_networked(workflow) else "",
        finish_secrets=FINISH_SECRETS if secrets else "",
        tasks=job.tasks,
        cpus_per_task=job.cpus_per_task,
        mem_per_cpu=job.mem_per_cpu,
        gpus=job.gpus,
        cpus=cpus,
        mem=cpus * job.mem_per_cpu,
        input=fetch(workflow),
        environment=exports(workflow.env),
        said=", then of the steps around" if more else "",
        takes=" # NAME=value of the steps around" if more else "",
        exports_more=EXPORT_MORE if more else "",
        earlier=fill("module_environment.sh" if uses else "environment.sh"),
        helpers=helpers(workflow, bore=site.bore).lstrip("\n"),
        steps=steps.functions.strip("\n"),
        before=virtual_networks(workflow) + before,
        call=f"code=0\n{steps.call} || code=$?"
        if workflow.continuous_output_sync
        else f"{steps.call} || exit",
        after=after,
    )
    size = len(script.encode())
    if size > MAX_SCRIPT_BYTES:
        raise too_large("its script", size, MAX_SCRIPT_BYTES)
    return script
