# SPDX-License-Identifier: Apache-2.0
"""Code that the commands of a grid user share: their settings, and the access to the grid."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridstead.cli.options import CONFIG_VARIABLE
from gridstead.domain.jobs.billing import cost_floor
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.errors import ConfigError, InvalidInput, QueueViewUnavailable

if TYPE_CHECKING:  # These imports are slow, and many commands do not use the chain.
    from gridstead.adapters.chain.customer import Customer
    from gridstead.adapters.chain.ledger import ChainLedger
    from gridstead.adapters.chain.wallet import Wallet
    from gridstead.adapters.matching.pending_job import PendingJob
    from gridstead.config import ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class GridClient:
    """The settings and the wallet of a grid user, and objects that access the contracts.

    Attributes:
        settings: The settings of the user.
        wallet: The wallet of the user.
        customer: Sends the user's calls to the contracts.
        ledger: Reads jobs and providers from the chain.
    """

    settings: ClientSettings
    wallet: Wallet
    customer: Customer
    ledger: ChainLedger

    def job(self, number: int) -> Job:
        """Return a job in its state at the newest block.

        Raises:
            InvalidInput: If the job does not exist.
        """
        job_id = self.customer.job_id(number)
        job = self.ledger.jobs([job_id], at_block=self.ledger.head()).get(job_id)
        if job is None:
            raise InvalidInput(
                f"there is no job {number}", hint="Run `gridstead job list` to list your jobs."
            )
        return job


def waiting_reason(client: GridClient, job: Job) -> str | None:
    """Return why a pending job has no provider.

    Returns None if the job is not pending or the reason is unknown.
    """
    from gridstead.adapters.matching.queue_view import pending_reason  # noqa: PLC0415 - slow import

    url = client.settings.queue_url
    if job.state is not JobState.PENDING or url is None:
        return None
    return pending_reason(url, job.id, ca=client.settings.ca_file)


def queue_view_answer(client: GridClient, job: Job) -> PendingJob:
    """Return why a pending job waits, with figures.

    Raises:
        ConfigError: If the setting ``queue_url`` is missing.
        QueueViewUnavailable: If the queue view does not answer, or does not know the job yet.
        UnexpectedOutput: If the answer has an unknown format.
    """
    from gridstead.adapters.matching.queue_view import pending_job  # noqa: PLC0415 - slow import

    url = client.settings.queue_url
    if url is None:
        raise ConfigError(
            f"cannot explain why job {job.id} waits",
            detail="queue_url is not set in your settings file",
            hint="Ask the grid's operator for the URL of the queue view, and set queue_url to it."
            " The operator serves the queue view with the table [queue_view] of the"
            " meta-scheduler's settings.",
        )
    answer = pending_job(url, job.id, ca=client.settings.ca_file)
    if answer is None:
        raise QueueViewUnavailable(
            f"the queue view does not know job {job.id} as pending",
            detail=f"{url} answered with 404",
            hint="A new job is known after a few seconds, and a matched job does not wait any more."
            " If it is still unknown, the meta-scheduler may be older than this command.",
        )
    return answer


def client_settings_path(config: Path | None) -> Path:
    """Return the path of the user's settings file: the given path, or the default.

    Raises:
        ConfigError: If the file does not exist.
    """
    default = os.environ.get(CONFIG_VARIABLE) or "~/.config/gridstead/client.toml"
    path = config or Path(default).expanduser()
    if not path.exists():
        hint = (
            f"Give --config FILE or set ${CONFIG_VARIABLE}."
            " docs/reference/settings.md describes the client's settings."
        )
        raise ConfigError(f"cannot read {path}", detail="it does not exist", hint=hint)
    return path


def open_client(config: Path | None) -> GridClient:
    """Return a client with the settings of the user's settings file."""
    from gridstead.config import ClientSettings, load  # noqa: PLC0415 - slow import
    from gridstead.wiring.client import open_customer  # noqa: PLC0415 - slow import

    settings = load(ClientSettings, client_settings_path(config))
    wallet, customer, ledger = open_customer(settings)
    return GridClient(settings=settings, wallet=wallet, customer=customer, ledger=ledger)


def parse_job_number(text: str) -> int:
    """Return the job number that a text contains.

    Raises:
        InvalidInput: If the text is not a decimal or hexadecimal number, or is out of range.
    """
    invalid_number = InvalidInput(
        f"invalid job number {text[:80]!r}", hint="Give a number such as 7 or 0x7."
    )
    try:
        number = int(text, 16) if text.startswith("0x") else int(text)
    except ValueError as error:
        raise invalid_number from error
    if not 0 <= number < 2**256:
        raise invalid_number
    return number


def shell_exit_code(job: Job) -> int:
    """Return a job's exit code in the form of a shell: 128 + N if signal N ended the job."""
    code = job.exit_code >> 8
    signal = job.exit_code & 0x7F
    if code == 0 and signal:
        return 128 + signal
    return code


def cost_so_far(job: Job, now: int) -> int:
    """Return the cost of a job until now, in wei. For an ended job, this is the final cost."""
    if job.state in COLD:
        return job.final_cost
    if job.state is not JobState.RUNNING:
        return 0
    until = now if job.bill_until is None else min(now, job.bill_until)
    running_s = max(0, until - job.started_at)
    return min(job.escrow, cost_floor(running_s, job.price_per_min))


def job_to_json(job: Job) -> dict[str, object]:
    """Return a job as a JSON object. Units: wei, Unix seconds, MB."""
    resources = job.resources
    return {
        "number": job.id.number,
        "id": job.id.slurm_job_name,
        "name": job.name,
        "state": job.state.name,
        "customer": job.customer,
        "provider": job.provider or None,
        "resources": {
            "tasks": resources.tasks,
            "cpus_per_task": resources.cpus_per_task,
            "memory_per_cpu_mb": resources.memory_per_cpu_mb,
            "gpus": resources.gpus,
        },
        "batch_location_hash": job.batch_location_hash,
        "escrow_wei": job.escrow,
        "price_per_min_wei": job.price_per_min,
        "cost_wei": job.final_cost,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at or None,
        "ended_at": job.ended_at or None,
        "cancel_requested": job.cancel_requested,
        "cancel_requested_at": job.cancel_requested_at if job.cancel_requested else None,
        "exit_code": shell_exit_code(job) if job.state in COLD else None,
        "last_error": job.last_error,
    }
