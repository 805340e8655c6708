# SPDX-License-Identifier: Apache-2.0
"""Workflows as scripts in the lab's Slurm, where the chain adds nothing: as a mapped user, with
secrets beside them.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.ssh import SshAccess, SshScheduler
from gridstead.domain.billing import Resources
from gridstead.domain.ids import JobId, JobKey
from gridstead.domain.submission import GridUser, Script, Submission
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import render, secrets_of

PATIENCE_S = 90
MEMORY_MB = 256
NODES = ("compute1", "compute2")

# Runs on the control host: makes one user as the LDAP connector would.
MAKE_USER = """
import sys
from pathlib import Path
from gridstead.adapters.directory import DirectoryAccess, LdapDirectory
access = DirectoryAccess(
    url="ldaps://infra", suffix="dc=gridstead,dc=internal",
    bind_dn="uid=connector,ou=services,dc=gridstead,dc=internal",
    password_file=Path("/etc/gridstead/secrets/directory-connector.password"),
    ca_file=Path("/etc/gridstead/pki/ca.crt"), home_prefix="/home/ldap-users", gid=100000,
)
LdapDirectory(access).ensure_users([sys.argv[1]])
"""


def operator(lab, folder: Path) -> SshAccess:
    """Return the operator's way in: the lab's own key opens the account; the host's key is pinned
    under its address.
    """
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
    """Return the account of a wallet, once the cluster lets it run jobs; made if there is none."""
    lab.run("control", "/opt/gridstead/venv/bin/python", "-c", MAKE_USER, address)
    until = time.monotonic() + PATIENCE_S
    while not (gate := scheduler.gate(address)).open:
        assert time.monotonic() < until, f"the gate stays closed: {gate.missing}"
        time.sleep(0.5)
    return gate.user


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A job in Slurm."""

    slurm_job_id: int
    job_key: JobKey


class Ended(NamedTuple):
    """What became of a job: its code and what it said."""

    code: int
    output: str


class SlurmJobs:
    """Jobs of one customer with an empty home, submitted by the operator's account."""

    def __init__(self, lab, access: SshAccess, address: str) -> None:
        self.lab = lab
        self.scheduler = SshScheduler(access, SystemClock())
        self.user = make_user(lab, self.scheduler, address)
        self.home = f"/home/ldap-users/{address}"
        lab.run("infra", "find", self.home, "-mindepth", "1", "-delete")  # of earlier runs

    def close(self) -> None:
        """End what still runs, and let go of the connection."""
        self.lab.run("controller", "scancel", f"--user={self.user.address}")
        self.scheduler.close()

    def submit(
        self, *steps, nodes: str = "compute1", tasks: int = 2, minutes: int = 5, **fields
    ) -> Running:
        """Submit a workflow of these steps to nodes of the cluster."""
        resources = {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": MEMORY_MB, "gpus": 0}
        workflow = from_graphql({"resources": resources, "steps": steps, **fields})
        first, rest = render(workflow).split("\n", 1)
        wanted = f"#SBATCH --nodelist={nodes} --nodes={nodes.count(',') + 1}"  # a list alone may grow by busier nodes
        text = f"{first}\n{wanted}\n{rest}"
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
        """Return what became of a job, once it has ended."""
        until = time.monotonic() + PATIENCE_S
        while True:
            attempts = {each.slurm_job_id: each for each in self.scheduler.live().attempts}
            found = attempts.get(job.slurm_job_id)
            if found is not None and not found.alive:
                break
            assert time.monotonic() < until, f"{job} is {found}"
            time.sleep(0.3)
        output = self.lab.run(
            "infra", "cat", f"{self.home}/{job.job_key.job_id.slurm_name}.out"
        ).stdout
        return Ended(code=os.waitstatus_to_exitcode(found.exit_code), output=output)

    def cancel(self, job: Running) -> None:
        """End a job as its customer does."""
        self.scheduler.cancel(job.slurm_job_id, job_key=str(job.job_key))

    def left(self) -> str:
        """Return what is left once all jobs have ended: the customer's processes, and folders of
        jobs.
        """
        uid = self.user.uid
        # pgrep ends with 1 where it finds nobody, and higher where it could not look.
        script = f"pgrep -u {uid} -a || (($? == 1)); find /tmp -maxdepth 1 -name 'gridstead.*'"
        on_nodes = "".join(self.lab.sh(host, script) for host in NODES)
        return on_nodes + self.lab.sh("infra", f"ls /opt/cache/shared/{uid}")
