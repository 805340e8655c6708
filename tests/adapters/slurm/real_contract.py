# SPDX-License-Identifier: Apache-2.0
"""Contract tests of port Scheduler that need a real Slurm.

The fake scheduler neither checks submissions nor runs scripts.
"""

from dataclasses import replace

import pytest

from gridstead.domain.supervisor.submission import Script
from gridstead.errors import GridsteadError, SubmitRejected


def attempts_of(cluster, submission):
    """Return the attempts that slurmctld lists for a submission."""
    attempts = cluster.scheduler.list_jobs().attempts
    return [attempt for attempt in attempts if attempt.job_key == submission.job_key]


def test_a_submission_that_exceeds_the_cluster_is_rejected(cluster):
    submission = cluster.new_submission(tasks=100_000)

    with pytest.raises(SubmitRejected):
        cluster.scheduler.submit(submission)

    for attempt in attempts_of(cluster, submission):
        assert not attempt.is_alive


@pytest.mark.parametrize(
    "change",
    # 64030 is the uid of SlurmUser.
    [{"uid": 0}, {"uid": 64030}, {"gid": 0}, {"address": "root"}, {"address": f"0x{'e' * 40}"}],
)
def test_a_submission_with_a_changed_user_is_refused(cluster, change):
    submission = cluster.new_submission(user=replace(cluster.user, **change))

    with pytest.raises(GridsteadError):
        cluster.scheduler.submit(submission)

    assert attempts_of(cluster, submission) == []


def test_the_gate_is_closed_while_the_user_does_not_resolve(cluster):
    gate = cluster.scheduler.check_gate(f"0x{'e' * 40}")

    assert gate.user is None
    assert gate.missing


def test_a_job_runs_as_its_user_in_its_home_with_its_environment(cluster):
    """The script of the job makes the checks. The exit code tells which check failed."""
    checks = [
        f'[ "$(id -u)" = {cluster.user.uid} ] || exit 11',
        f'[ "$(id -g)" = {cluster.user.gid} ] || exit 12',
        f'[ "$(id -G)" = {cluster.user.gid} ] || exit 13',
        f'[ "$PWD" = /home/ldap-users/{cluster.user.address} ] || exit 14',
        '[ "$HOME" = "$PWD" ] || exit 15',
        '[ "$SECRET" = $\'two words\\nand "more"\' ] || exit 16',
        '[ "$USER" = "$(id -un)" ] || exit 17',
        "exit 0",
    ]
    submission = cluster.new_submission("\n".join(checks))
    script = Script(text=submission.script.text, environment={"SECRET": 'two words\nand "more"'})

    slurm_job_id = cluster.scheduler.submit(replace(submission, script=script))

    assert cluster.wait_until_ended(slurm_job_id, submission.job_key).exit_code == 0
