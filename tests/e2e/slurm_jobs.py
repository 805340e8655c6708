# SPDX-License-Identifier: Apache-2.0
"""Submits workflows to the lab's Slurm as a wallet's user. The chain is not used."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.ssh import SshAccess, SshScheduler
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render, secrets_of

TIMEOUT_S = 90
MEMORY_MB = 256
NODES = ("compute1", "compute2")

# This program runs on the control host. It creates a user as the LDAP connector does.
CREATE_USER = """
import sys
from pathlib import Path
from gridstead.adapters.users.directory import DirectoryAccess, LdapDirectory
access = DirectoryAccess(
    url="ldaps://infra", suffix="dc=gridstead,dc=internal",
    bind_dn="uid=connector,ou=services,dc=gridstead,dc=internal",
    password_file=Path("/etc/gridstead/secrets/directory-connector.password"),
    ca_file=Path("/etc/gridstead/pki/ca.crt"), home_prefix="/home/ldap-users", gid=100000,
)
LdapDirectory(access).ensure_users([sys.argv[1]])
"""


def operator_access(lab, folder: Path) -> SshAccess:
    """Return SSH access to the operator's account, with the lab's key and a pinned host key."""
    login = lab.address("login")
    known_hosts, key = folder / "known_hosts", lab.folder / "id_ed25519"
    lines = ""
    for line in (lab.folder / "known_hosts").read_text().splitlines():
        if login in line:
            _, host_key = line.split(maxsplit=1)
            lines += f"{login} {host_key}\n"
    known_hosts.write_text(lines)
    return SshAccess(
        endpoint=f"{login}:22",
        user="gridstead-operator",
        key_file=key,
        known_hosts_file=known_hosts,
    )


def create_user(lab, scheduler, address: str) -> GridUser:
    """Create the user of a wallet, wait until the cluster accepts its jobs and return the user."""
    lab.run("control", "/opt/gridstead/venv/bin/python", "-c", CREATE_USER, address)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        gate = scheduler.check_gate(address)
        if gate.is_open:
            return gate.user
        assert time.monotonic() < deadline, f"the cluster does not accept jobs: {gate.missing}"
        time.sleep(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A submitted Slurm job."""

    slurm_job_id: int
    job_key: JobKey


class JobResult(NamedTuple):
    """The result of a job: its exit code and its output."""

    code: int
    output: str


class SlurmJobs:
    """Submits jobs of one customer with the operator's account.

    The home of the customer is emptied first.
    """

    def __init__(self, lab, access: SshAccess, address: str) -> None:
        self.lab = lab
        self.scheduler = SshScheduler(access, SystemClock())
        self.user = create_user(lab, self.scheduler, address)
        self.home = f"/home/ldap-users/{address}"
        # remove the files of earlier runs
        lab.run("infra", "find", self.home, "-mindepth", "1", "-delete")

    def close(self) -> None:
        """Cancel the remaining jobs and close the connection."""
        self.lab.run("controller", "scancel", f"--user={self.user.address}")
        self.scheduler.close()

    def submit(
        self, *steps, nodes: str = "compute1", tasks: int = 2, minutes: int = 5, **fields
    ) -> SubmittedJob:
        """Submit a workflow with these steps to nodes, which are separated by commas."""
        resources = {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": MEMORY_MB, "gpus": 0}
        workflow = from_graphql({"resources": resources, "steps": steps, **fields})
        first, rest = render(workflow).split("\n", 1)
        # Without --nodes, Slurm may add nodes to the list.
        placement = f"#SBATCH --nodelist={nodes} --nodes={nodes.count(',') + 1}"
        text = f"{first}\n{placement}\n{rest}"
        job_id = JobId(
            chain_id=1, contract=f"0x{secrets.token_hex(20)}", number=secrets.randbits(256)
        )
        job_key = JobKey(job_id=job_id, batch_location_hash=secrets.token_hex(8))
        submission = Submission(
            job_key=job_key,
            user=self.user,
            resources=Resources(gpus=0, tasks=tasks, cpus_per_task=1, memory_per_cpu_mb=MEMORY_MB),
            time_limit_min=minutes,
            script=Script(text=text, environment=secrets_of(workflow)),
        )
        return SubmittedJob(slurm_job_id=self.scheduler.submit(submission), job_key=job_key)

    def wait(self, job: SubmittedJob) -> JobResult:
        """Wait until a job has ended and return its result."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            live = self.scheduler.list_jobs()
            attempts = {attempt.slurm_job_id: attempt for attempt in live.attempts}
            attempt = attempts.get(job.slurm_job_id)
            if attempt is not None and not attempt.is_alive:
                break
            assert time.monotonic() < deadline, f"{job} is {attempt}"
            time.sleep(0.3)
        output = self.lab.run(
            "infra", "cat", f"{self.home}/{job.job_key.job_id.slurm_job_name}.out"
        ).stdout
        return JobResult(code=os.waitstatus_to_exitcode(attempt.exit_code), output=output)

    def cancel(self, job: SubmittedJob) -> None:
        """Cancel a job as its customer does."""
        self.scheduler.cancel(job.slurm_job_id, job_key=job.job_key)

    def leftovers(self) -> str:
        """Return the processes of the customer and the folders of jobs on the cluster.

        The text has a line for each, and is empty if there are none.
        """
        uid = self.user.uid
        # pgrep exits with 1 if no process matches, and with more after an error.
        script = f"pgrep -u {uid} -a || (($? == 1)); find /tmp -maxdepth 1 -name 'gridstead.*'"
        output = ""
        for host in NODES:
            output += self.lab.sh(host, script)
        return output + self.lab.sh("infra", f"ls /opt/cache/shared/{uid}")
