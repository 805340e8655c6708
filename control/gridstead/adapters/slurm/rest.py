# SPDX-License-Identifier: Apache-2.0
"""Access to Slurm on the controller's host: slurmrestd for changes, Slurm's commands for queries.

slurmrestd is called over its unix socket. Paths, fields and error numbers depend on the installed
release of Slurm (``release.py``). The release may change, because an upgrade restarts slurmrestd.
So the version is read before the first request, after each lost connection, and after each answer
that contains another version.

Rule 1: the client runs as Slurm's user ``SlurmUser``, and every submission has a uid *and* a gid.
Without a gid, Slurm would use the gid of SlurmUser.
Rule 2: a response with errors is a failure for every HTTP status. A response without the requested
value is invalid.
Rule 3: an error is a rejection only if it is about the request itself. After any other error,
Slurm may have performed the request.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx

from gridstead.adapters.slurm import commands, nodes, queries
from gridstead.adapters.slurm.job import job_environment
from gridstead.adapters.slurm.release import RestRelease, rest_release
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, ControllerSample
from gridstead.domain.supervisor.submission import Submission
from gridstead.errors import (
    AssociationUnknown,
    GridsteadError,
    SchedulerUnavailable,
    SubmitRejected,
)
from gridstead.ports import Clock
from gridstead.slurm_releases import release_of

SLURM_USER = "slurm"
TOKEN_LIFE_S = 1800
_TOKEN_RENEWAL_MARGIN_S = 300
_TIMEOUT_S = 15.0
_BASE_URL = "http://slurmrestd/slurm"
# slurmrestd refuses an expired token. slurmctld refuses a token after the JWT key has changed.
_TOKEN_REFUSED_STATUSES = frozenset(
    {httpx.codes.UNAUTHORIZED, httpx.codes.NETWORK_AUTHENTICATION_REQUIRED}
)


class LocalSlurm:
    """Implements port ``Slurm``. All methods are thread-safe.

    Args:
        runner: Runs commands on this host.
        socket: The path of slurmrestd's unix socket.
        clock: The wall clock.
        partition: The partition of the jobs.
        account: The Slurm account of the jobs.
        homes: The parent directory of the users' homes.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        socket: Path,
        clock: Clock,
        partition: str,
        account: str,
        homes: Path,
    ) -> None:
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)), timeout=_TIMEOUT_S
        )
        self._runner = runner
        self._release: RestRelease | None = None
        self._clock = clock
        self._partition = partition
        self._account = account
        self._homes = homes
        self._token = ""
        self._renew_at = 0
        self._lock = threading.Lock()

    def release(self) -> RestRelease:
        """Return the paths, fields and error numbers of the installed release of Slurm.

        Raises:
            ConfigError: If the installed release is not supported.
            SchedulerUnavailable: If Slurm's command failed.
            UnexpectedOutput: If the command did not print a version.
        """
        with self._lock:
            if self._release is None:
                version = commands.parse_version(read_output(self._runner, commands.version()))
                self._release = rest_release(version)
            return self._release

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id. Raises the errors of port Slurm."""
        body = {"script": submission.script.text, "job": self._job_fields(submission)}
        message = f"could not submit job {submission.job_key.job_id.slurm_job_name}"
        answer = self._call("POST", "/job/submit", message, body=body)
        slurm_job_id = answer.get("job_id")
        if not isinstance(slurm_job_id, int) or slurm_job_id <= 0:
            raise SchedulerUnavailable(
                message, detail=f"the response has no job id: {str(answer)[:200]!r}"
            )
        return slurm_job_id

    def cancel(self, slurm_job_id: int) -> None:
        """Cancel a job. Do nothing if the job has ended or is unknown."""
        self._call(
            "DELETE",
            f"/job/{slurm_job_id}",
            f"could not cancel {slurm_job_id}",
            ignored_errors=self.release().already_ended_errors,
        )

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        """Set a job's time limit. Do nothing if the job has ended or is unknown."""
        body = {self.release().fields["time_limit_min"]: _number_field(time_limit_min)}
        message = f"could not extend {slurm_job_id}"
        self._call(
            "POST",
            f"/job/{slurm_job_id}",
            message,
            body=body,
            ignored_errors=self.release().already_ended_errors,
        )

    def find(self, slurm_job_id: int) -> Attempt | None:
        """Return the job with this id. Returns None if slurmctld does not list the job."""
        return queries.find(self._runner, slurm_job_id)

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists now."""
        return queries.list_jobs(self._runner, self._clock)

    def list_records(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of the Slurm jobs with these names."""
        return queries.list_records(self._runner, self._clock, names, since=since)

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster."""
        return nodes.parse_nodes(read_output(self._runner, nodes.show_nodes()))

    def free_nodes(self) -> Hardware:
        """Return the free resources of the nodes that accept jobs."""
        return nodes.parse_free_nodes(read_output(self._runner, nodes.show_nodes()))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _job_fields(self, submission: Submission) -> dict[str, object]:
        """Return the description of a job, with the field names of the installed release."""
        name = submission.job_key.job_id.slurm_job_name
        home = self._homes / submission.user.address
        resources = submission.resources
        variables = job_environment(submission, home=home)
        properties: dict[str, object] = {
            "name": name,
            "job_key": str(submission.job_key),
            "uid": str(submission.user.uid),
            "gid": str(submission.user.gid),
            "account": self._account,
            "partition": self._partition,
            "tasks": resources.tasks,
            "cpus_per_task": resources.cpus_per_task,
            "memory_per_cpu_mb": _number_field(resources.memory_per_cpu_mb),
            "time_limit_min": _number_field(submission.time_limit_min),
            "environment": [f"{key}={value}" for key, value in variables.items()],
            "directory": str(home),
            "output": str(home / f"{name}.out"),
            "requeue": False,
        }
        if resources.gpus:
            properties["gpus"] = f"gres/gpu:{resources.gpus}"
        field_names = self.release().fields
        return {field_names[name]: value for name, value in properties.items()}

    def _call(
        self,
        method: str,
        path: str,
        message: str,
        *,
        body: Mapping[str, object] | None = None,
        ignored_errors: frozenset[int] = frozenset(),
    ) -> dict[str, Any]:
        """Send a request and return slurmrestd's answer.

        Returns an empty dictionary if the answer contains only ``ignored_errors``.

        Raises:
            GridsteadError: If the request failed. The error has the message ``message``.
        """
        release = self.release()
        url = f"{_BASE_URL}/{release.data_parser}{path}"
        try:
            response = self._send(method, url, body, renew_token=False)
            if response.status_code in _TOKEN_REFUSED_STATUSES:
                response = self._send(method, url, body, renew_token=True)
            answer = response.json()
            errors = answer["errors"]
        except httpx.HTTPError as err:
            self._forget_release()
            raise SchedulerUnavailable(message, detail=f"slurmrestd: {err!r}") from err
        except (ValueError, KeyError, TypeError) as err:
            self._forget_release()
            detail = f"slurmrestd answered {response.status_code}: {response.text[:200]!r}"
            raise SchedulerUnavailable(message, detail=detail) from err
        version = _version(answer)
        if version and release_of(version) != release.name:
            self._forget_release()
        if errors:
            error_numbers = {int(error.get("error_number", 0)) for error in errors}
            if error_numbers.issubset(ignored_errors):
                return {}
            raise _failure(message, error_numbers, answer, release)
        if response.is_error:
            raise SchedulerUnavailable(
                message, detail=f"slurmrestd answered {response.status_code} without an error"
            )
        return dict(answer)

    def _send(
        self, method: str, url: str, body: Mapping[str, object] | None, *, renew_token: bool
    ) -> httpx.Response:
        headers = {
            "X-SLURM-USER-NAME": SLURM_USER,
            "X-SLURM-USER-TOKEN": self._current_token(renew=renew_token),
        }
        return self._client.request(method, url, json=body, headers=headers)

    def _forget_release(self) -> None:
        with self._lock:
            self._release = None

    def _current_token(self, *, renew: bool) -> str:
        """Return a valid token. If ``renew`` is set or the token expires soon, create a new one."""
        with self._lock:
            now = self._clock.now()
            if renew or now >= self._renew_at:
                command = commands.token(SLURM_USER, life_s=TOKEN_LIFE_S)
                self._token = commands.parse_token(read_output(self._runner, command))
                self._renew_at = now + TOKEN_LIFE_S - _TOKEN_RENEWAL_MARGIN_S
            return self._token


def _version(answer: Mapping[str, Any]) -> str | None:
    """Return the version of Slurm that an answer contains. Returns None if it contains none."""
    meta = answer.get("meta") or {}
    return (meta.get("slurm") or {}).get("release")


def _failure(
    message: str, error_numbers: set[int], answer: Mapping[str, Any], release: RestRelease
) -> GridsteadError:
    """Return the error for an operation that failed with these error numbers."""
    texts = [_error_text(error) for error in answer["errors"]]
    user_message = str(answer.get("job_submit_user_msg") or "").strip()
    if user_message:
        texts.append(user_message)
    detail = "slurmrestd: " + "; ".join(texts)[:500]
    if answer.get("job_id"):  # Slurm may have queued the job in spite of the error.
        return SchedulerUnavailable(message, detail=detail)
    if error_numbers == {release.unknown_association_error}:
        return AssociationUnknown(message, detail=detail)
    is_rejection = bool(error_numbers & release.rejection_errors)
    is_temporary = bool(error_numbers & release.temporary_errors)
    if is_rejection and not is_temporary:
        return SubmitRejected(message, detail=detail)
    return SchedulerUnavailable(message, detail=detail)


def _error_text(error: Mapping[str, Any]) -> str:
    texts = (error.get("description"), error.get("error"))
    description = ": ".join(text for text in texts if text)
    return f"{error.get('error_number')} {description}"


def _number_field(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}
