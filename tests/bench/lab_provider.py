# SPDX-License-Identifier: Apache-2.0
"""The provider of a running lab for the soak, which has a real Slurm, and the lab's services.

Each job writes the number of its script to a file in the home of its customer, so the campaign
knows which scripts ran, and how often.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from operator import itemgetter

from tests.bench.simulated_cluster import SlurmRun, job_command
from tests.e2e.conftest import has_ended, wait_until

RECORDS_TIMEOUT_S = 120  # until slurmdbd has the ends of all jobs
SERVICE_TIMEOUT_S = 60  # until a killed service is active again
POLL_S = 1


class LabService:
    """A service on a host of a lab. After a kill, systemd starts it again.

    Args:
        lab: The lab.
        host: The name of the host.
        unit: The name of the systemd unit.
    """

    def __init__(self, lab, host, unit):
        self._lab = lab
        self._host = host
        self._unit = unit
        self._killed_pid = 0

    def kill(self):
        """Kill all processes of the service with SIGKILL."""
        _, self._killed_pid = self._state()
        self._lab.run(self._host, "systemctl", "kill", "--signal=KILL", self._unit)

    def start(self):
        """Wait until the service is active, with another process than the one that was killed."""
        wait_until(self.is_up, timeout=SERVICE_TIMEOUT_S)

    def is_up(self):
        """Return whether the service is active with another process than the killed one."""
        state, pid = self._state()
        return state == "active" and pid != self._killed_pid

    def _state(self):
        """Return the state of the unit and its main process id, which is 0 without a process."""
        command = ("systemctl", "show", "--property=ActiveState,MainPID", self._unit)
        lines = self._lab.run(self._host, *command).stdout.splitlines()
        properties = dict(line.split("=", 1) for line in lines)
        return properties["ActiveState"], int(properties["MainPID"])


class LabProvider:
    """The provider of the lab.

    Args:
        lab: The lab.
        record: The provider's record on the chain (``Provider``).
        contracts: The contracts.
        customers: The addresses of the customers.

    Attributes:
        name: A name for people.
        address: The address of the wallet.
        prices: The prices.
    """

    def __init__(self, lab, record, contracts, customers):
        self.name = "lab"
        self.address = record.address
        self.prices = record.prices
        self._lab = lab
        self._contracts = contracts
        self._homes = [f"/home/ldap-users/{address}" for address in customers]
        self._storage = lab.group("storage")[0]
        self._folder = f"soak-{secrets.token_hex(4)}"
        self._started_at = int(time.time())

    def job_command(self, job):
        """Return the command of a job (``SoakJob``), which also writes the number of its script.

        Each run appends a line to a file whose name is the Slurm job id.
        """
        command = job_command(job.script_number, run_s=job.run_s, exit_code=job.exit_code)
        folder = f"~/{self._folder}"
        return f"mkdir -p {folder}; echo {job.script_number} >>{folder}/$SLURM_JOB_ID; {command}"

    def runs(self):
        """Return the runs of the scripts, with the times that slurmdbd recorded."""
        script_numbers = self._script_numbers()
        records = self._records(script_numbers)
        ended_records = [record for record in records.values() if has_ended(record)]
        seconds = self._lab.billed_seconds_of(ended_records)
        node_seconds = dict(zip(map(itemgetter("jobid"), ended_records), seconds, strict=True))
        runs = []
        for slurm_job_id, record in records.items():
            for script_number in script_numbers[slurm_job_id]:
                run = SlurmRun(
                    job_id=self._contracts.job_id(int(record["jobname"], 16)),
                    script_number=script_number,
                    submitted_at=int(record["submit"]),
                    started_at=int(record["start"]),
                    ended_at=int(record["end"]) if has_ended(record) else None,
                    node_s=node_seconds.get(slurm_job_id),
                )
                runs.append(run)
        return runs

    def remove_files(self):
        """Remove the files of the jobs."""
        folders = [f"{home}/{self._folder}" for home in self._homes]
        self._lab.run(self._storage, "rm", "-rf", *folders)

    def _script_numbers(self):
        """Return the numbers that the runs of each Slurm job have written, by Slurm job id."""
        # grep exits with 1 if no file has a line.
        script = 'for folder; do test ! -d "$folder" || grep -rH . "$folder" || test $? = 1; done'
        folders = [f"{home}/{self._folder}" for home in self._homes]
        output = self._lab.run(self._storage, "bash", "-euc", script, "bash", *folders).stdout
        numbers = defaultdict(list)
        for line in output.splitlines():
            path, number = line.rsplit(":", 1)
            numbers[path.rsplit("/", 1)[1]].append(int(number))
        return numbers

    def _records(self, slurm_job_ids):
        """Return the last accounting record of each job, by Slurm job id.

        The method waits until all jobs have ended, but at most RECORDS_TIMEOUT_S.
        """
        deadline = time.monotonic() + RECORDS_TIMEOUT_S
        while True:
            records = {}
            for record in self._lab.records_since(self._started_at):
                if record["jobid"] in slurm_job_ids:
                    records[record["jobid"]] = record
            has_all = len(records) == len(slurm_job_ids)
            if has_all and all(map(has_ended, records.values())):
                return records
            if time.monotonic() > deadline:
                return records
            time.sleep(POLL_S)
