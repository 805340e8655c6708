# SPDX-License-Identifier: Apache-2.0
"""The cluster agent's servers: gRPC with mutual TLS for the supervisor, UDP for the nodes' reports.

This module contains only conversions: messages to Python values, Python values to messages, and
errors to gRPC status codes.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import grpc

from gridstead.domain.benchmarks.progress import RunStatus
from gridstead.domain.benchmarks.report import MAX_REPORTS
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobKey, parse_job_key, parse_slurm_job_name
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, NodeReport
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.errors import (
    BenchmarksNotStarted,
    ConfigError,
    GridsteadError,
    InvalidInput,
    NotAllowed,
    SubmitRejected,
    Transient,
)
from gridstead.ports import Reports, Scheduler
from gridstead.ports.benchmarks import BenchmarkControl
from gridstead.proto import agent_pb2 as pb
from gridstead.proto import agent_pb2_grpc
from gridstead.rpc.tls import AllowedNames, TlsFiles, bind, grpc_server

_THREADS = 12
_MAX_DATAGRAM_BYTES = 4096
_SOCKET_TIMEOUT_S = 0.5
_STOP_GRACE_S = 3
_RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024

_STATUS_CODES: tuple[tuple[type[GridsteadError], grpc.StatusCode], ...] = (
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (SubmitRejected, grpc.StatusCode.FAILED_PRECONDITION),
    (BenchmarksNotStarted, grpc.StatusCode.FAILED_PRECONDITION),
    (NotAllowed, grpc.StatusCode.PERMISSION_DENIED),
    (Transient, grpc.StatusCode.UNAVAILABLE),
)


class ListRecords(Protocol):
    """A function that returns slurmdbd's records of Slurm jobs with certain names."""

    def __call__(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return the records of the jobs that were submitted since a time in Unix seconds."""
        ...


class ReportTexts(Protocol):
    """A function that returns the texts of the newest reports of the benchmarks."""

    def __call__(self, count: int, *, whole_site: bool) -> Iterable[str]:
        """Return the texts of at most this number of reports, the oldest of them first."""
        ...


class AgentServer:
    """The gRPC server for the supervisor. The constructor binds the port.

    Args:
        address: ``host:port``. Port 0 selects a free port.
        files: The certificate and key of the server, and the CA of the clients. A CA is required.
        scheduler: Controls Slurm for the calls of the supervisor.
        list_records: Returns the records that slurmdbd has of Slurm jobs with certain names.
        reports: The reports that the nodes have sent.
        report_texts: Returns the texts of a number of reports of the benchmarks, the newest last.
        benchmarks: Starts the benchmarks, and reports how far they are.
        allowed_client: The common name in the supervisor's certificate. All other clients are
            refused.

    Raises:
        ConfigError: If there is no client CA, a file cannot be read, or the address cannot be
            bound.
    """

    def __init__(  # noqa: PLR0913 - each argument is another part of the agent
        self,
        address: str,
        files: TlsFiles,
        *,
        scheduler: Scheduler,
        list_records: ListRecords,
        reports: Reports,
        report_texts: ReportTexts,
        benchmarks: BenchmarkControl,
        allowed_client: str,
    ) -> None:
        if files.client_ca is None:
            raise ConfigError("cannot start the agent without a client CA")
        self._server = grpc_server(threads=_THREADS, interceptors=[AllowedNames([allowed_client])])
        servicer = _Servicer(scheduler, list_records, reports, report_texts, benchmarks)
        # The generated function has no types.
        agent_pb2_grpc.add_ClusterAgentServicer_to_server(  # type: ignore[no-untyped-call]
            servicer,
            self._server,
        )
        self.port = bind(self._server, address, files)

    def start(self) -> None:
        """Start the server."""
        self._server.start()

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """Stop the server. Calls in progress have ``grace_s`` seconds to finish."""
        self._server.stop(grace_s).wait()


class _Servicer(agent_pb2_grpc.ClusterAgentServicer):
    def __init__(
        self,
        scheduler: Scheduler,
        list_records: ListRecords,
        reports: Reports,
        report_texts: ReportTexts,
        benchmarks: BenchmarkControl,
    ) -> None:
        self._scheduler = scheduler
        self._list_records = list_records
        self._reports = reports
        self._report_texts = report_texts
        self._benchmarks = benchmarks

    def Submit(  # noqa: N802
        self,
        request: pb.SubmitRequest,
        context: grpc.ServicerContext,
    ) -> pb.SubmitResponse:
        with _abort_on_error(context):
            slurm_job_id = self._scheduler.submit(_to_submission(request))
            return pb.SubmitResponse(slurm_job_id=slurm_job_id)

    def Cancel(  # noqa: N802
        self,
        request: pb.CancelRequest,
        context: grpc.ServicerContext,
    ) -> pb.CancelResponse:
        with _abort_on_error(context):
            self._scheduler.cancel(request.slurm_job_id, job_key=_to_job_key(request.job_key))
            return pb.CancelResponse()

    def Extend(  # noqa: N802
        self,
        request: pb.ExtendRequest,
        context: grpc.ServicerContext,
    ) -> pb.ExtendResponse:
        with _abort_on_error(context):
            self._scheduler.extend(
                request.slurm_job_id,
                job_key=_to_job_key(request.job_key),
                time_limit_min=request.time_limit_min,
            )
            return pb.ExtendResponse()

    def Live(  # noqa: N802
        self,
        _request: pb.LiveRequest,
        context: grpc.ServicerContext,
    ) -> pb.LiveResponse:
        with _abort_on_error(context):
            sample = self._scheduler.list_jobs()
            return pb.LiveResponse(
                taken_at=sample.taken_at, attempts=map(_to_attempt, sample.attempts)
            )

    def Accounting(  # noqa: N802
        self, request: pb.AccountingRequest, context: grpc.ServicerContext
    ) -> pb.AccountingResponse:
        with _abort_on_error(context):
            _check_names(request.names)
            sample = self._list_records(request.names, since=request.since)
            return pb.AccountingResponse(
                taken_at=sample.taken_at,
                complete=sample.is_complete,
                attempts=map(_to_attempt, sample.attempts),
            )

    def Gate(  # noqa: N802
        self,
        request: pb.GateRequest,
        context: grpc.ServicerContext,
    ) -> pb.GateResponse:
        with _abort_on_error(context):
            gate = self._scheduler.check_gate(request.address)
            if gate.user is None:
                return pb.GateResponse(missing=gate.missing)
            return pb.GateResponse(uid=gate.user.uid, gid=gate.user.gid, missing=gate.missing)

    def Hardware(  # noqa: N802
        self, _request: pb.HardwareRequest, context: grpc.ServicerContext
    ) -> pb.HardwareResponse:
        with _abort_on_error(context):
            return pb.HardwareResponse(nodes=_to_nodes(self._scheduler.hardware()))

    def FreeNodes(  # noqa: N802
        self, _request: pb.FreeNodesRequest, context: grpc.ServicerContext
    ) -> pb.FreeNodesResponse:
        with _abort_on_error(context):
            return pb.FreeNodesResponse(nodes=_to_nodes(self._scheduler.free_nodes()))

    def BenchmarkReports(  # noqa: N802
        self, request: pb.BenchmarkReportsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.BenchmarkReport]:
        with _abort_on_error(context):
            if not 1 <= request.count <= MAX_REPORTS:
                raise InvalidInput(f"count is {request.count}; allowed are 1 to {MAX_REPORTS}")
            for text in self._report_texts(request.count, whole_site=request.whole_site):
                yield pb.BenchmarkReport(text=text)

    def StartBenchmarks(  # noqa: N802
        self, request: pb.StartBenchmarksRequest, context: grpc.ServicerContext
    ) -> pb.StartBenchmarksResponse:
        with _abort_on_error(context):
            selection = Selection(nodes=tuple(request.nodes), suites=tuple(request.suites))
            self._benchmarks.start_benchmarks(selection)
            return pb.StartBenchmarksResponse()

    def BenchmarkProgress(  # noqa: N802
        self, _request: pb.BenchmarkProgressRequest, context: grpc.ServicerContext
    ) -> pb.BenchmarkProgressResponse:
        with _abort_on_error(context):
            return _to_progress(self._benchmarks.benchmark_status())

    def PullReports(  # noqa: N802
        self, request: pb.PullReportsRequest, context: grpc.ServicerContext
    ) -> pb.PullReportsResponse:
        with _abort_on_error(context):
            reports = self._reports.pull(after=request.after, wait_s=request.wait_s)
            return pb.PullReportsResponse(reports=map(_to_report, reports))


class DatagramReceiver:
    """Receives datagrams on a UDP address, in one thread.

    ``receive`` is called with each datagram and the sender's IP address.

    Raises:
        ConfigError: If the address cannot be bound.
    """

    def __init__(self, address: str, receive: Callable[[bytes, str], None]) -> None:
        host, _, port = address.rpartition(":")
        self._receive = receive
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.settimeout(_SOCKET_TIMEOUT_S)
        try:
            self._socket.bind((host, int(port)))
        except OSError as err:
            self._socket.close()
            raise ConfigError(f"could not listen on udp {address}", detail=str(err)) from err
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports")

    @property
    def port(self) -> int:
        """The UDP port."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def check(self) -> None:
        """Check that the thread is running.

        Raises:
            RuntimeError: If the thread has ended, which is a bug.
        """
        if not self._thread.is_alive():
            raise RuntimeError("the receiver of reports has stopped")

    def stop(self) -> None:
        """Stop the thread, which takes up to half a second, and wait for its end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                datagram, (sender_ip, _port) = self._socket.recvfrom(_MAX_DATAGRAM_BYTES)
            except TimeoutError:
                continue
            self._receive(datagram, sender_ip)


@contextmanager
def _abort_on_error(context: grpc.ServicerContext) -> Iterator[None]:
    """End the call with the status code of a GridsteadError."""
    try:
        yield
    except GridsteadError as error:
        context.abort(_status_code_of(error), str(error))


def _status_code_of(error: GridsteadError) -> grpc.StatusCode:
    for error_class, code in _STATUS_CODES:
        if isinstance(error, error_class):
            return code
    return grpc.StatusCode.INTERNAL


def _to_submission(request: pb.SubmitRequest) -> Submission:
    return Submission(
        job_key=_to_job_key(request.job_key),
        user=GridUser(address=request.user, uid=request.uid, gid=request.gid),
        resources=Resources(
            gpus=request.gpus,
            tasks=request.tasks,
            cpus_per_task=request.cpus_per_task,
            memory_per_cpu_mb=request.memory_per_cpu_mb,
        ),
        time_limit_min=request.time_limit_min,
        script=Script(text=request.script, environment=dict(request.environment)),
    )


def _to_job_key(text: str) -> JobKey:
    job_key = parse_job_key(text)
    if job_key is None:
        raise InvalidInput(f"invalid job key {text[:200]!r}")
    return job_key


def _check_names(names: Iterable[str]) -> None:
    if any(parse_slurm_job_name(name) is None for name in names):
        raise InvalidInput("invalid query for job names")


def _to_nodes(hardware: Hardware) -> list[pb.Node]:
    nodes = zip(
        hardware.cpus_per_node, hardware.memory_per_node_mb, hardware.gpus_per_node, strict=True
    )
    return [pb.Node(cpus=cpus, memory_mb=memory_mb, gpus=gpus) for cpus, memory_mb, gpus in nodes]


def _to_progress(status: RunStatus) -> pb.BenchmarkProgressResponse:
    progress = status.progress
    if progress is None:
        return pb.BenchmarkProgressResponse(state=status.state.value)
    return pb.BenchmarkProgressResponse(
        state=status.state.value,
        started_at=progress.started_at,
        ended_at=progress.ended_at,
        steps_total=progress.steps_total,
        steps_done=progress.steps_done,
        steps_failed=progress.steps_failed,
        steps_running=progress.steps_running,
        failure=progress.failure,
    )


def _to_report(report: NodeReport) -> pb.Report:
    return pb.Report(
        sequence=report.sequence,
        event=report.event,
        slurm_job_id=report.slurm_job_id,
        uid=report.uid,
        occurred_at=report.occurred_at,
    )


def _to_attempt(attempt: Attempt) -> pb.Attempt:
    return pb.Attempt(
        slurm_job_id=attempt.slurm_job_id,
        name=attempt.name,
        admin_comment=str(attempt.job_key) if attempt.job_key else "",
        user=attempt.user,
        uid=attempt.uid or 0,
        state=attempt.state,
        submitted_at=attempt.submitted_at,
        started_at=attempt.started_at or 0,
        ended_at=attempt.ended_at or 0,
        suspended_s=attempt.suspended_s,
        exit_code=attempt.exit_code,
        time_limit_min=attempt.time_limit_min or 0,
        step_out_of_memory=attempt.is_step_out_of_memory,
        failed_step=attempt.failed_step or 0,
    )
