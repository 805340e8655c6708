# SPDX-License-Identifier: Apache-2.0
"""Workflows as Slurm jobs of the lab, without the chain: as a mapped user, with their secrets."""

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

# Runs on the control host. Creates a user as the LDAP connector does.
MAKE_USER = """
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


def operator(lab, folder: Path) -> SshAccess:
    """Return the operator's SSH access: with the lab's key, and with the host key pinned."""
    login = lab.address("login")
    pinned = [
        line for line in (lab.folder / "known_hosts").read_text().splitlines() if login in line
    ]
    known_hosts, key = folder / "known_hosts", lab.folder / "id_ed25519"
    known_hosts.write_text("".join(f"{login} {' '.join(line.split()[1:])}\n" for line in pinned))
    return SshAccess(
        endpoint=f"{login}:22",
        user="gridstead-operator",
        key_file=key,
        known_hosts_file=known_hosts,
    )


def make_user(lab, scheduler, address: str) -> GridUser:
    """Create the account of a wallet and return it, once the cluster accepts its jobs."""
    lab.run("control", "/opt/gridstead/venv/bin/python", "-c", MAKE_USER, address)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        gate = scheduler.check_gate(address)
        if gate.is_open:
            return gate.user
        assert time.monotonic() < deadline, f"the cluster does not accept jobs yet: {gate.missing}"
        time.sleep(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A submitted Slurm job."""

    slurm_job_id: int
    job_key: JobKey


class Ended(NamedTuple):
    """The result of a job: its exit code and its output."""

    code: int
    output: str


class SlurmJobs:
    """Jobs of one customer with an empty home, submitted by the operator's account."""

    def __init__(self, lab, access: SshAccess, address: str) -> None:
        self.lab = lab
        self.scheduler = SshScheduler(access, SystemClock())
        self.user = make_user(lab, self.scheduler, address)
        self.home = f"/home/ldap-users/{address}"
        lab.run("infra", "find", self.home, "-mindepth", "1", "-delete")  # from earlier runs

    def close(self) -> None:
        """Cancel the remaining jobs and close the connection."""
        self.lab.run("controller", "scancel", f"--user={self.user.address}")
        self.scheduler.close()

    def submit(
        self, *steps, nodes: str = "compute1", tasks: int = 2, minutes: int = 5, **fields
    ) -> Running:
        """Submit a workflow with these steps to the named nodes."""
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
        return Running(slurm_job_id=self.scheduler.submit(submission), job_key=job_key)

    def wait(self, job: Running) -> Ended:
        """Return the result of a job, once it has ended."""
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
            "infra", "cat", f"{self.home}/{job.job_key.job_id.slurm_name}.out"
        ).stdout
        return Ended(code=os.waitstatus_to_exitcode(attempt.exit_code), output=output)

    def cancel(self, job: Running) -> None:
        """Cancel a job as its customer does."""
        self.scheduler.cancel(job.slurm_job_id, job_key=job.job_key)

    def left(self) -> str:
        """Return the customer's processes and the jobs' folders that still exist on the cluster."""
        uid = self.user.uid
        # pgrep exits with 1 if no process matches, and with more after an error.
        script = f"pgrep -u {uid} -a || (($? == 1)); find /tmp -maxdepth 1 -name 'gridstead.*'"
        on_nodes = "".join(self.lab.sh(host, script) for host in NODES)
        return on_nodes + self.lab.sh("infra", f"ls /opt/cache/shared/{uid}")
