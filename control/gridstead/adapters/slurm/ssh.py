# SPDX-License-Identifier: Apache-2.0
"""Access to Slurm over SSH to the login node. Implements the ports Scheduler and Accounting.

Rule 1: all commands share one connection, and each command has its own channel.
Rule 2: the host key of the server is pinned. An unknown key is refused.
Rule 3: an operation is retried only if it failed before the command was sent.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import fabric
import paramiko

from gridstead.adapters.slurm import commands, nodes, queries, wrapper
from gridstead.adapters.slurm.job import job_environment
from gridstead.adapters.slurm.runner import Command, CommandResult, read_output
from gridstead.adapters.users.storage import UserStorage
from gridstead.domain.jobs.ids import JobId, JobKey, is_address, parse_job_key
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import AccountingSample, ControllerSample
from gridstead.domain.supervisor.submission import Gate, Submission
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.errors import InvalidInput, SchedulerUnavailable, SubmitRejected
from gridstead.ports import Clock

_CONNECT_TIMEOUT_S = 10
_TIMEOUT_S = 30.0
_CHANNELS = 4  # sshd also counts closing channels. With eight channels, sshd refuses some.
_KEEPALIVE_S = 30
_CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """How to reach the login node.

    Attributes:
        endpoint: ``host:port`` of sshd, with the host name that is in the known hosts file.
        user: The operator's account on the login node.
        key_file: The OpenSSH private key.
        known_hosts_file: The file with the server's host key.
    """

    endpoint: str
    user: str
    key_file: Path
    known_hosts_file: Path


class SshRunner:
    """Runs commands on the login node. Implements ``Runner``. The class is thread-safe."""

    def __init__(self, access: SshAccess) -> None:
        self._access = access
        self._connection: fabric.Connection | None = None
        self._lock = threading.Lock()
        self._channel_slots = threading.BoundedSemaphore(_CHANNELS)

    def run(self, command: Command) -> CommandResult:
        """Run the command to its end and return its result.

        Raises:
            SchedulerUnavailable: If the connection failed or the command did not end in time.
        """
        variables = [f"{name}={value}" for name, value in command.environment.items()]
        command_line = shlex.join(["env", "-i", *variables, *command.argv])
        with self._channel_slots:
            try:
                return _run_on_channel(self._open_channel(), command_line, command.stdin.encode())
            except (OSError, EOFError, paramiko.SSHException) as err:
                self.close()
                raise SchedulerUnavailable(
                    f"could not run {command.argv[0]} on {self._access.endpoint}",
                    detail=f"{type(err).__name__}: {err}",
                ) from err

    def close(self) -> None:
        """Close the connection. The next command opens a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open_channel(self) -> paramiko.Channel:
        """Return a new channel. If the connection is closed, open a new connection first."""
        with self._lock:
            if self._connection is not None:
                try:
                    return _open_channel(self._connection)
                except (OSError, EOFError, paramiko.SSHException):
                    self._connection.close()
            self._connection = _connect(self._access)
            return _open_channel(self._connection)


class SshScheduler:
    """Implements the ports ``Scheduler`` and ``Accounting``.

    Args:
        access: How to reach the login node.
        clock: The wall clock.
        wallet_ids: The uids and the gid with which jobs may run.
        storage: The parents of the users' directories on the login node.
        account: The Slurm account of the customers' associations.
    """

    def __init__(
        self,
        access: SshAccess,
        clock: Clock,
        *,
        wallet_ids: WalletIdRange | None = None,
        storage: UserStorage | None = None,
        account: str = "grid",
    ) -> None:
        self._runner = SshRunner(access)
        self._clock = clock
        self._wallet_ids = wallet_ids or WalletIdRange()
        self._storage = storage or UserStorage()
        self._account = account
        self._associated_addresses: set[str] = set()

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id."""
        message = f"could not submit job {submission.job_key.job_id.slurm_job_name}"
        if not self._wallet_ids.contains(submission.user):
            raise SubmitRejected(message, detail=f"{submission.user} is not a wallet's account")
        home = self._storage.homes / submission.user.address
        result = self._runner.run(
            wrapper.submit(submission, job_environment(submission, home=home))
        )
        return wrapper.parse_submitted(result, message)

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        """Cancel a Slurm job if it has this job key."""
        _check_job_key(job_key)
        result = self._runner.run(wrapper.cancel(slurm_job_id, job_key=job_key))
        wrapper.check_success(result, f"could not cancel {slurm_job_id}")

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        """Raise the time limit of a Slurm job if it has this job key."""
        _check_job_key(job_key)
        result = self._runner.run(
            wrapper.extend(slurm_job_id, job_key=job_key, time_limit_min=time_limit_min)
        )
        wrapper.check_success(result, f"could not extend {slurm_job_id}")

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists now."""
        return queries.list_jobs(self._runner, self._clock)

    def list_records(self, job_ids: Iterable[JobId], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these jobs that were submitted since a time."""
        names = [job_id.slurm_job_name for job_id in job_ids]
        return queries.list_records(self._runner, self._clock, names, since=since)

    def check_gate(self, address: str) -> Gate:
        """Return whether a customer can run jobs on this cluster."""
        if not is_address(address):
            raise InvalidInput(f"invalid address {address[:80]!r}")
        user = wrapper.parse_user(self._runner.run(wrapper.user(address)), address)
        if user is None:
            return Gate(user=None, missing=(f"user {address} does not resolve",))
        if not self._wallet_ids.contains(user):
            reason = f"ids {user.uid}:{user.gid} of user {address} are not in the wallet range"
            return Gate(user=user, missing=(reason,))
        paths = self._storage.directories_of(user)
        listing = self._runner.run(wrapper.directories(paths))
        missing_directories = wrapper.parse_missing(listing, paths, uid=user.uid)
        if not missing_directories and address not in self._associated_addresses:
            self._associate(address)
        return Gate(user=user, missing=missing_directories)

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster."""
        return nodes.parse_nodes(read_output(self._runner, nodes.show_nodes()))

    def free_nodes(self) -> Hardware:
        """Return the free resources of the nodes that accept jobs."""
        return nodes.parse_free_nodes(read_output(self._runner, nodes.show_nodes()))

    def close(self) -> None:
        """Close the connection."""
        self._runner.close()

    def _associate(self, address: str) -> None:
        listing = read_output(self._runner, commands.associations(address, account=self._account))
        if not commands.parse_associated(listing, address, account=self._account):
            result = self._runner.run(wrapper.associate(address))
            wrapper.check_success(result, f"could not associate {address}")
        self._associated_addresses.add(address)


def _check_job_key(job_key: JobKey) -> None:
    """Check that the text of a job key can be parsed."""
    text = str(job_key)
    if parse_job_key(text) != job_key:
        raise InvalidInput(f"invalid job key {text[:200]!r}")


def _connect(access: SshAccess) -> fabric.Connection:
    host, _, port = access.endpoint.rpartition(":")
    connection = fabric.Connection(
        host,
        user=access.user,
        port=int(port),
        config=fabric.Config(lazy=True, overrides={"load_ssh_configs": False}),
        connect_timeout=_CONNECT_TIMEOUT_S,
        connect_kwargs={
            "key_filename": str(access.key_file),
            "look_for_keys": False,
            "allow_agent": False,
        },
    )
    connection.client.load_host_keys(str(access.known_hosts_file))
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    connection.open()
    connection.transport.set_keepalive(_KEEPALIVE_S)
    return connection


def _open_channel(connection: fabric.Connection) -> paramiko.Channel:
    """Return a new channel.

    Some servers accept the connection but do not answer the request for a channel. Fabric's own
    method waits for an hour in this case, so this function sets a timeout.
    """
    return connection.transport.open_session(timeout=_CONNECT_TIMEOUT_S)


def _run_on_channel(channel: paramiko.Channel, command_line: str, stdin: bytes) -> CommandResult:
    """Run a command line on a new channel.

    Standard output is read first. Until the end of standard output, standard error must fit into
    the channel's window (2 MiB).
    """
    with channel:
        channel.settimeout(_TIMEOUT_S)
        channel.exec_command(command_line)
        if stdin:
            channel.sendall(stdin)
        channel.shutdown_write()
        stdout = _read_to_end(channel.recv)
        stderr = _read_to_end(channel.recv_stderr)
        if not channel.status_event.wait(_TIMEOUT_S):
            raise paramiko.SSHException("no exit status")
        return CommandResult(
            exit_status=channel.recv_exit_status(),
            stdout=stdout.decode(errors="replace"),
            stderr=stderr.decode(errors="replace"),
        )


def _read_to_end(receive: Callable[[int], bytes]) -> bytes:
    chunks = []
    while chunk := receive(_CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)
