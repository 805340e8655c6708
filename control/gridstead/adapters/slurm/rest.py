# SPDX-License-Identifier: Apache-2.0
"""slurmrestd, data parser v0.0.42, over its unix socket: what changes jobs.

Rule 1: we are SlurmUser and every submission names uid *and* gid; an omitted gid would be
SlurmUser's. Rule 2: an answer with errors is a failure whatever its status, and one without what
was asked for is no answer. Rule 3: only an error about the request itself is a refusal; after
anything else the effect is not known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from gridstead.adapters.slurm.job import environment
from gridstead.domain.submission import Submission
from gridstead.errors import (
    AssociationUnknown,
    GridsteadError,
    SchedulerUnavailable,
    SubmitRejected,
)
from gridstead.ports import Clock

SLURM_USER = "slurm"
TOKEN_LIFE_S = 1800
_RENEW_BEFORE_S = 300
_TIMEOUT_S = 15.0
_BASE = "http://slurmrestd/slurm/v0.0.42"

# Errors about a request (slurm_errno.h): slurmctld's 2000-2999 and the parser's 9000-9999. Some
# only say "not now": copy failed, writing to file, changing state, standby, disabled, association
# not known yet, use backup.
_REFUSALS = frozenset(range(2000, 3000)) | frozenset(range(9000, 10000))
_UNKNOWN_ASSOCIATION = 2045
_NOT_NOW = frozenset({2007, 2019, 2020, 2027, 2037, _UNKNOWN_ASSOCIATION, 2131})
_ALREADY_ENDED = frozenset({2017, 2021})  # invalid job id, already done
# A token is refused by slurmrestd, or by slurmctld behind it, which knows when the key of tokens
# has changed.
_TOKEN_REFUSED = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.NETWORK_AUTHENTICATION_REQUIRED})


class Slurmrestd:
    """A client of slurmrestd; may be used from several threads.

    Args:
        socket: Path of its unix socket.
        new_token: Makes a token of SlurmUser that lives TOKEN_LIFE_S.
        clock: Says when the token needs renewal.
        partition: Where jobs go.
        account: What they are accounted to.
        homes: The directory of the users' homes.
    """

    def __init__(
        self,
        *,
        socket: Path,
        new_token: Callable[[], str],
        clock: Clock,
        partition: str,
        account: str,
        homes: Path,
    ) -> None:
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)), timeout=_TIMEOUT_S
        )
        self._new_token = new_token
        self._clock = clock
        self._partition = partition
        self._account = account
        self._homes = homes
        self._token = ""
        self._renew_at = 0
        self._lock = threading.Lock()

    def submit(self, submission: Submission) -> int:
        """Queue an attempt and return its Slurm job id; errors as in port Scheduler."""
        body = {"script": submission.script.text, "job": self._description(submission)}
        what = f"could not submit job {submission.job_key.job_id.slurm_name}"
        answer = self._call("POST", "/job/submit", what, body=body)
        slurm_job_id = answer.get("job_id")
        if not isinstance(slurm_job_id, int) or slurm_job_id <= 0:
            raise SchedulerUnavailable(
                what, detail=f"the answer has no job id: {str(answer)[:200]!r}"
            )
        return slurm_job_id

    def cancel(self, slurm_job_id: int) -> None:
        """Ask for the end of a job; one that has ended or is unknown is left alone."""
        self._call(
            "DELETE",
            f"/job/{slurm_job_id}",
            f"could not cancel {slurm_job_id}",
            harmless=_ALREADY_ENDED,
        )

    def set_time_limit(self, slurm_job_id: int, time_limit_min: int) -> None:
        """Set a job's time limit; one that has ended or is unknown is left alone."""
        body = {"time_limit": _number(time_limit_min)}
        what = f"could not extend {slurm_job_id}"
        self._call("POST", f"/job/{slurm_job_id}", what, body=body, harmless=_ALREADY_ENDED)

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    def _description(self, submission: Submission) -> dict[str, object]:
        name = submission.job_key.job_id.slurm_name
        home = self._homes / submission.user.address
        resources = submission.resources
        description: dict[str, object] = {
            "name": name,
            "admin_comment": str(submission.job_key),
            "user_id": str(submission.user.uid),
            "group_id": str(submission.user.gid),
            "account": self._account,
            "partition": self._partition,
            "tasks": resources.tasks,
            "cpus_per_task": resources.cpus_per_task,
            "memory_per_cpu": _number(resources.memory_per_cpu_mb),
            "time_limit": _number(submission.time_limit_min),
            "environment": [
                f"{key}={value}" for key, value in environment(submission, home=home).items()
            ],
            "current_working_directory": str(home),
            "standard_output": str(home / f"{name}.out"),
            "requeue": False,
        }
        if resources.gpus:
            description["tres_per_job"] = f"gres/gpu:{resources.gpus}"
        return description

    def _call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        body: Mapping[str, object] | None = None,
        harmless: frozenset[int] = frozenset(),
    ) -> dict[str, Any]:
        try:
            response = self._send(method, path, body, fresh=False)
            if response.status_code in _TOKEN_REFUSED:
                response = self._send(method, path, body, fresh=True)
            answer = response.json()
            errors = answer["errors"]
        except httpx.HTTPError as err:
            raise SchedulerUnavailable(what, detail=f"slurmrestd: {err!r}") from err
        except (ValueError, KeyError, TypeError) as err:
            detail = f"slurmrestd answered {response.status_code}: {response.text[:200]!r}"
            raise SchedulerUnavailable(what, detail=detail) from err
        if errors:
            numbers = {int(error.get("error_number", 0)) for error in errors}
            if numbers <= harmless:
                return {}
            raise _failure(what, numbers, answer)
        if response.is_error:
            raise SchedulerUnavailable(
                what, detail=f"slurmrestd answered {response.status_code} without a reason"
            )
        return dict(answer)

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None, *, fresh: bool
    ) -> httpx.Response:
        headers = {
            "X-SLURM-USER-NAME": SLURM_USER,
            "X-SLURM-USER-TOKEN": self._current_token(fresh=fresh),
        }
        return self._client.request(method, f"{_BASE}{path}", json=body, headers=headers)

    def _current_token(self, *, fresh: bool) -> str:
        with self._lock:
            now = self._clock.now()
            if fresh or now >= self._renew_at:
                self._token = self._new_token()
                self._renew_at = now + TOKEN_LIFE_S - _RENEW_BEFORE_S
            return self._token


def _failure(what: str, numbers: set[int], answer: Mapping[str, Any]) -> GridsteadError:
    # What could not be done, and why not.
    words = [
        (error.get("error_number"), error.get("description"), error.get("error"))
        for error in answer["errors"]
    ]
    told = [f"{number} {': '.join(filter(None, told))}" for number, *told in words]
    message = str(answer.get("job_submit_user_msg") or "").strip()
    detail = "slurmrestd: " + "; ".join([*told, *([message] if message else [])])[:500]
    if numbers == {_UNKNOWN_ASSOCIATION} and not answer.get("job_id"):
        return AssociationUnknown(what, detail=detail)
    refused = bool(numbers & _REFUSALS) and not numbers & _NOT_NOW and not answer.get("job_id")
    return (
        SubmitRejected(what, detail=detail)
        if refused
        else SchedulerUnavailable(what, detail=detail)
    )


def _number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}
