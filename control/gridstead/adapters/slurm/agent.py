# SPDX-License-Identifier: Apache-2.0
"""A client of the cluster agent: gRPC with mutual TLS.

Implements the ports ``Scheduler``, ``Accounting``, ``Reports``, ``BenchmarkRuns``,
``BenchmarkHistory`` and ``BenchmarkControl``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import grpc

from gridstead.domain.benchmarks.progress import Progress, RunState, RunStatus
from gridstead.domain.benchmarks.report import COMPARED_RUNS, PastRun, Report
from gridstead.domain.benchmarks.report_text import parse_report
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.jobs.ids import JobId, JobKey, parse_job_key
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
    parse_base_state,
)
from gridstead.domain.supervisor.submission import Gate, GridUser, Submission
from gridstead.errors import (
    BenchmarksNotStarted,
    GridsteadError,
    InvalidInput,
    NotAllowed,
    SchedulerUnavailable,
    SubmitRejected,
    UnexpectedOutput,
)
from gridstead.proto import agent_pb2 as pb
from gridstead.proto import agent_pb2_grpc

_TIMEOUT_S = 45.0
_PULL_MARGIN_S = 15.0
_SOURCE = "agent"

Answer = TypeVar("Answer")


class AgentClient:
    """A client of the agent. All methods are thread-safe.

    Args:
        channel: An open channel to the agent (``adapters/channel.py``).
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = agent_pb2_grpc.ClusterAgentStub(channel)  # type: ignore[no-untyped-call]

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id."""
        resources = submission.resources
        request = pb.SubmitRequest(
            job_key=str(submission.job_key),
            user=submission.user.address,
            uid=submission.user.uid,
            gid=submission.user.gid,
            tasks=resources.tasks,
            cpus_per_task=resources.cpus_per_task,
            memory_per_cpu_mb=resources.memory_per_cpu_mb,
            gpus=resources.gpus,
            time_limit_min=submission.time_limit_min,
            script=submission.script.text,
            environment=dict(submission.script.environment),
        )
        message = f"could not submit job {submission.job_key.job_id.slurm_job_name}"
        try:
            answer = self._call(self._stub.Submit, request, message)
        except InvalidInput as err:
            raise SubmitRejected(message, detail=err.detail) from err
        return int(answer.slurm_job_id)

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        """Cancel a Slurm job if it has this job key."""
        request = pb.CancelRequest(slurm_job_id=slurm_job_id, job_key=str(job_key))
        self._call(self._stub.Cancel, request, f"could not cancel {slurm_job_id}")

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        """Raise the time limit of a Slurm job if it has this job key."""
        request = pb.ExtendRequest(
            slurm_job_id=slurm_job_id, job_key=str(job_key), time_limit_min=time_limit_min
        )
        self._call(self._stub.Extend, request, f"could not extend {slurm_job_id}")

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists now."""
        answer = self._call(self._stub.Live, pb.LiveRequest(), "could not list live jobs")
        return ControllerSample(
            taken_at=answer.taken_at, attempts=tuple(map(_to_attempt, answer.attempts))
        )

    def list_records(self, job_ids: Iterable[JobId], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these jobs that were submitted since a time."""
        names = [job_id.slurm_job_name for job_id in job_ids]
        request = pb.AccountingRequest(names=names, since=since)
        answer = self._call(self._stub.Accounting, request, "could not read the accounting")
        return AccountingSample(
            taken_at=answer.taken_at,
            is_complete=answer.complete,
            attempts=tuple(map(_to_attempt, answer.attempts)),
        )

    def check_gate(self, address: str) -> Gate:
        """Return whether a customer can run jobs on this cluster."""
        answer = self._call(
            self._stub.Gate,
            pb.GateRequest(address=address),
            f"could not check the gate of {address}",
        )
        user = GridUser(address=address, uid=answer.uid, gid=answer.gid) if answer.uid else None
        return Gate(user=user, missing=tuple(answer.missing))

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster."""
        request = pb.HardwareRequest()
        return _to_hardware(self._call(self._stub.Hardware, request, "could not list nodes"))

    def last_runs(self) -> tuple[PastRun, ...]:
        """Return the last two runs of the benchmarks, or those that exist, the older one first."""
        return tuple(map(PastRun.of, self._last_reports(COMPARED_RUNS, whole_site=True)))

    def last_reports(self, count: int) -> tuple[Report, ...]:
        """Return the newest reports of the benchmarks, the oldest of them first."""
        return self._last_reports(count, whole_site=False)

    def _last_reports(self, count: int, *, whole_site: bool) -> tuple[Report, ...]:
        def read_all(request: object, *, timeout: float) -> list[pb.BenchmarkReport]:
            return list(self._stub.BenchmarkReports(request, timeout=timeout))

        request = pb.BenchmarkReportsRequest(count=count, whole_site=whole_site)
        answers = self._call(read_all, request, "could not read the reports of the benchmarks")
        return tuple(parse_report(answer.text, source=_SOURCE) for answer in answers)

    def start_benchmarks(self, selection: Selection) -> None:
        """Request a run of the benchmarks."""
        request = pb.StartBenchmarksRequest(nodes=selection.nodes, suites=selection.suites)
        message = "could not request a run of the benchmarks"
        try:
            self._call(self._stub.StartBenchmarks, request, message)
        except SubmitRejected as error:  # FAILED_PRECONDITION
            raise BenchmarksNotStarted(message, detail=error.detail) from error

    def benchmark_status(self) -> RunStatus:
        """Return the state of the last run of the benchmarks."""
        request = pb.BenchmarkProgressRequest()
        message = "could not read the progress of the benchmarks"
        return _to_status(self._call(self._stub.BenchmarkProgress, request, message))

    def free_nodes(self) -> Hardware:
        """Return the free resources of the nodes that accept jobs."""
        request = pb.FreeNodesRequest()
        return _to_hardware(self._call(self._stub.FreeNodes, request, "could not list free nodes"))

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a sequence number above ``after``."""
        request = pb.PullReportsRequest(after=after, wait_s=wait_s)
        answer = self._call(
            self._stub.PullReports,
            request,
            "could not pull reports",
            timeout_s=wait_s + _PULL_MARGIN_S,
        )
        return tuple(map(_to_report, answer.reports))

    def _call(
        self,
        method: Callable[..., Answer],
        request: object,
        message: str,
        *,
        timeout_s: float = _TIMEOUT_S,
    ) -> Answer:
        try:
            return method(request, timeout=timeout_s)
        except grpc.RpcError as err:
            raise _to_error(message, err) from err


def _to_error(message: str, err: Any) -> GridsteadError:  # noqa: ANN401 # grpc has no types
    detail = f"agent: {err.code().name}: {err.details()}"
    match err.code():
        case grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidInput(message, detail=detail)
        case grpc.StatusCode.FAILED_PRECONDITION:
            return SubmitRejected(message, detail=detail)
        case grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNAUTHENTICATED:
            return NotAllowed(
                message,
                detail=detail,
                hint="Check that the agent's allowed_client is the name in this certificate.",
            )
        case grpc.StatusCode.INTERNAL:
            return UnexpectedOutput(_SOURCE, err.details() or "")
        case _:
            return SchedulerUnavailable(message, detail=detail)


def _to_hardware(answer: pb.HardwareResponse | pb.FreeNodesResponse) -> Hardware:
    nodes = answer.nodes
    return Hardware(
        gpus_per_node=tuple(node.gpus for node in nodes),
        cpus_per_node=tuple(node.cpus for node in nodes),
        memory_per_node_mb=tuple(node.memory_mb for node in nodes),
    )


def _to_status(answer: pb.BenchmarkProgressResponse) -> RunStatus:
    try:
        state = RunState(answer.state)
    except ValueError as error:
        raise UnexpectedOutput(_SOURCE, answer.state) from error
    if not answer.started_at:
        return RunStatus(state=state)
    progress = Progress(
        started_at=answer.started_at,
        ended_at=answer.ended_at,
        steps_total=answer.steps_total,
        steps_done=answer.steps_done,
        steps_failed=answer.steps_failed,
        steps_running=tuple(answer.steps_running),
        failure=answer.failure,
    )
    return RunStatus(state=state, progress=progress)


def _to_report(report: pb.Report) -> NodeReport:
    return NodeReport(
        sequence=report.sequence,
        event=report.event,
        slurm_job_id=report.slurm_job_id,
        uid=report.uid,
        occurred_at=report.occurred_at,
    )


def _to_attempt(attempt: pb.Attempt) -> Attempt:
    return Attempt(
        slurm_job_id=attempt.slurm_job_id,
        name=attempt.name,
        job_key=parse_job_key(attempt.admin_comment),
        user=attempt.user,
        uid=attempt.uid or None,
        state=parse_base_state(attempt.state, source=_SOURCE),
        submitted_at=attempt.submitted_at,
        started_at=attempt.started_at or None,
        ended_at=attempt.ended_at or None,
        suspended_s=attempt.suspended_s,
        exit_code=attempt.exit_code,
        time_limit_min=attempt.time_limit_min or None,
        is_step_out_of_memory=attempt.step_out_of_memory,
        failed_step=attempt.failed_step or None,
    )
