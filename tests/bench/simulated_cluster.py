# SPDX-License-Identifier: Apache-2.0
"""A provider's cluster for tests: the real agent's server, and a simulated Slurm behind it.

A supervisor connects to the agent as on a real site, with mutual TLS. Slurm is ``FakeScheduler``,
and ``Machines`` decides when jobs start. No script runs. Slurm reads from the script how long its
job should run and with which code it should exit, so a job that gets the script of another job
behaves as the other job.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.certificates import Authority
from tests.fakes.scheduler import FakeScheduler

from gridstead.adapters.clock import SystemClock
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.rpc.slurm import AgentServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.simulation.machines import Machines
from gridstead.services.slurm.agent import Agent

SUPERVISOR = "supervisor"  # the common name in the certificate of the supervisor
SCHEDULING_INTERVAL_S = 0.1
SECONDS_PER_MINUTE = 60
_COMMAND = re.compile(r"sleep (\d+); exit (\d+) # script (\d+)")


def job_command(script_number, *, run_s, exit_code):
    """Return the command of a job, from which the simulated Slurm reads these numbers."""
    return f"sleep {run_s}; exit {exit_code} # script {script_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRun:
    """A job that has started in Slurm.

    Attributes:
        job_id: The job.
        script_number: The number in the script that was submitted for the job.
        submitted_at: Unix seconds.
        started_at: Unix seconds.
        ended_at: Unix seconds. None while the job runs.
        node_s: The run time that ends when the node reported the end of the job. None if nodes
            report nothing.
    """

    job_id: JobId
    script_number: int
    submitted_at: int
    started_at: int
    ended_at: int | None
    node_s: int | None = None

    @property
    def billable_s(self):
        """The run times, one of which is billed. The job must have ended."""
        accounted_s = self.ended_at - self.started_at
        return (accounted_s,) if self.node_s is None else (accounted_s, self.node_s)


class SimulatedSlurm(FakeSlurm):
    """Port Slurm, for several threads. ``schedule`` starts and ends jobs.

    Args:
        hardware: The nodes.

    Attributes:
        keeps_running: While it is true, no running job ends, unless it is cancelled.
    """

    def __init__(self, hardware):
        self._clock = SystemClock()
        self._slurm = FakeScheduler(self._clock, hardware=hardware)
        super().__init__(self._slurm)
        self._machines = Machines(hardware)
        # Run time, exit code and script number of each job, by Slurm job id.
        self._commands = {}
        self._end_times = {}  # of the running jobs, by Slurm job id
        self._lock = threading.RLock()
        self.keeps_running = False

    def reject(self, reason):
        """Reject each later submission with a reason. With an empty reason, accept them again."""
        with self._lock:
            self._slurm.reject = reason

    def submit(self, submission):
        with self._lock:
            slurm_job_id = super().submit(submission)
            numbers = _COMMAND.search(submission.script.text).groups()
            self._commands[slurm_job_id] = tuple(map(int, numbers))
            limit_s = submission.time_limit_min * SECONDS_PER_MINUTE
            self._machines.submit(slurm_job_id, submission.resources, limit_s=limit_s)
            return slurm_job_id

    def cancel(self, slurm_job_id):
        with self._lock:
            super().cancel(slurm_job_id)
            if self._end_times.pop(slurm_job_id, None) is not None:
                self._machines.end(slurm_job_id)

    def extend(self, slurm_job_id, *, time_limit_min):
        with self._lock:
            super().extend(slurm_job_id, time_limit_min=time_limit_min)

    def list_jobs(self):
        with self._lock:
            return super().list_jobs()

    def list_records(self, names, *, since):
        with self._lock:
            return super().list_records(names, since=since)

    def schedule(self):
        """End the jobs whose run time is over, and start the jobs that have room."""
        with self._lock:
            now = self._clock.now()
            for slurm_job_id, end_time in list(self._end_times.items()):
                if end_time <= now and not self.keeps_running:
                    self._end(slurm_job_id)
            for slurm_job_id in self._machines.start_jobs(now):
                if not self._slurm.attempt(slurm_job_id).is_alive:
                    self._machines.end(slurm_job_id)  # it was cancelled in the queue
                    continue
                self._slurm.start(slurm_job_id)
                run_s, _, _ = self._commands[slurm_job_id]
                self._end_times[slurm_job_id] = now + run_s

    def _end(self, slurm_job_id):
        del self._end_times[slurm_job_id]
        self._machines.end(slurm_job_id)
        _, exit_code, _ = self._commands[slurm_job_id]
        state = "FAILED" if exit_code else "COMPLETED"
        # Slurm reports a wait status, which has the exit code in its second byte.
        self._slurm.end(slurm_job_id, state, exit_code=exit_code << 8)

    def runs(self):
        """Return the jobs that have started, in the order of their submission."""
        with self._lock:
            attempts = self._slurm.attempts(where=lambda attempt: attempt.has_started)
            runs = []
            for attempt in attempts:
                _, _, script_number = self._commands[attempt.slurm_job_id]
                run = SlurmRun(
                    job_id=attempt.job_key.job_id,
                    script_number=script_number,
                    submitted_at=attempt.submitted_at,
                    started_at=attempt.started_at,
                    ended_at=attempt.ended_at,
                )
                runs.append(run)
            return runs


def no_reports(_count, *, whole_site):
    """Return the texts of the reports of the benchmarks: none."""
    return ()


class SimulatedCluster:
    """A cluster: the agent's server, and a thread in which Slurm schedules.

    Args:
        folder: The folder for the certificates of the agent and of its client.
        hardware: The nodes.
        users: The accounts of the customers.

    Attributes:
        endpoint: The address of the agent.
        slurm: The cluster's Slurm.
        authority: The CA of the agent and of its client.
    """

    def __init__(self, folder, hardware, users):
        self.slurm = SimulatedSlurm(hardware)
        self.authority = Authority(folder)
        certificate = self.authority.issue("agent")
        self._files = TlsFiles(
            certificate=certificate.certificate,
            key=certificate.key,
            client_ca=self.authority.certificate,
        )
        self._agent = Agent(
            slurm=self.slurm,
            accounts=FakeAccounts(*users),
            reports=FakeReportStore(),
            wallet_ids=WalletIdRange(),
            clock=SystemClock(),
        )
        self._server = self._new_server(port=0)
        self.endpoint = f"localhost:{self._server.port}"
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._schedule_until_stopped)

    def agent_settings(self):
        """Return the table ``slurm.agent`` of the settings of the cluster's supervisor."""
        certificate = self.authority.issue(SUPERVISOR)
        return {
            "endpoint": self.endpoint,
            "ca_file": self.authority.certificate,
            "certificate_file": certificate.certificate,
            "key_file": certificate.key,
        }

    def start(self):
        """Start the agent's server and Slurm."""
        self._server.start()
        self._thread.start()

    def kill_agent(self):
        """Stop the agent's server and break its connections. Slurm continues."""
        self._server.stop(grace_s=0)

    def start_agent(self):
        """Start the agent's server again, at the same address."""
        self._server = self._new_server(self._server.port)
        self._server.start()

    def stop(self):
        """Stop the agent's server and Slurm."""
        self._is_stopping.set()
        self._thread.join()
        self._server.stop()

    def _new_server(self, port):
        return AgentServer(
            f"localhost:{port}",
            self._files,
            scheduler=self._agent,
            list_records=self._agent.list_records,
            reports=self._agent,
            report_texts=no_reports,
            benchmarks=None,
            allowed_client=SUPERVISOR,
        )

    def _schedule_until_stopped(self):
        while not self._is_stopping.wait(SCHEDULING_INTERVAL_S):
            self.slurm.schedule()
