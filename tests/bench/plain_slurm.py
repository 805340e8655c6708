# SPDX-License-Identifier: Apache-2.0
"""Submit the same job many times to plain Slurm, as SlurmUser on the controller.

The program reads JSON from stdin and prints the Unix time of the first submission. Slurm's
job_submit plugin refuses a job of a wallet's user if the job has no job key. Each job therefore has
a made-up job key, with the address of a contract that does not exist.
"""

import json
import sys
import time
from pathlib import Path

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.local import LocalRunner
from gridstead.adapters.slurm.rest import LocalSlurm
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.supervisor.submission import GridUser, Script, Submission

parameters = json.load(sys.stdin)
slurm = LocalSlurm(
    runner=LocalRunner(),
    socket=Path("/run/slurmrestd/slurmrestd.socket"),
    clock=SystemClock(),
    partition="main",
    account="grid",
    homes=Path("/home/ldap-users"),
)
submissions = []
for number in range(1, parameters["jobs"] + 1):
    job_id = JobId(chain_id=1, contract=parameters["contract"], number=number)
    submission = Submission(
        job_key=JobKey(job_id=job_id, batch_location_hash="plain-slurm"),
        user=GridUser(address=parameters["address"], uid=parameters["uid"], gid=parameters["gid"]),
        resources=Resources(**parameters["resources"]),
        time_limit_min=parameters["time_limit_min"],
        script=Script(text=parameters["script"]),
    )
    submissions.append(submission)
print(time.time(), flush=True)
for submission in submissions:
    slurm.submit(submission)
