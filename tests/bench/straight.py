# SPDX-License-Identifier: Apache-2.0
"""Submit the same job many times to plain Slurm, as SlurmUser on the controller.

Standard input is JSON. Each job has a job key with a contract that does not exist, because the
job_submit plugin refuses a wallet's job without a job key. The program prints the Unix time of the
first submission.
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

task = json.load(sys.stdin)
slurm = LocalSlurm(
    runner=LocalRunner(),
    socket=Path("/run/slurmrestd/slurmrestd.socket"),
    clock=SystemClock(),
    partition="main",
    account="grid",
    homes=Path("/home/ldap-users"),
)
submissions = [
    Submission(
        job_key=JobKey(
            job_id=JobId(chain_id=1, contract=task["contract"], number=number),
            batch_location_hash="straight",
        ),
        user=GridUser(address=task["address"], uid=task["uid"], gid=task["gid"]),
        resources=Resources(**task["resources"]),
        time_limit_min=task["time_limit_min"],
        script=Script(text=task["script"]),
    )
    for number in range(1, task["jobs"] + 1)
]
print(time.time(), flush=True)
for submission in submissions:
    slurm.submit(submission)
