# SPDX-License-Identifier: Apache-2.0
"""A fresh chain over an old cluster: numbers start again, and Slurm and its accounting hold jobs of
the same numbers.

The old chain is there again afterwards.
"""

import contextlib

import pytest
from tests import billing_oracle
from tests.e2e.conftest import GridClient, wait_until

ANVIL = "/var/lib/private/gridstead-anvil"
UNITS = " ".join(
    f"gridstead-{name}"
    for name in ("anvil", "supervisor", "meta-scheduler", "ldap-connector", "job-definitions")
)


@pytest.fixture
def fresh_chain(lab, play):
    """A context manager factory: inside, the chain has no history but newly deployed contracts."""

    @contextlib.contextmanager
    def replaced():
        lab.sh("control", f"systemctl stop {UNITS}; mv {ANVIL}/state.json {ANVIL}/old-state.json")
        try:
            code, said = play("control")
            assert code == 0, said[-3000:]
            with contextlib.closing(GridClient(lab)) as fresh:
                yield fresh
        finally:
            lab.sh(
                "control", f"systemctl stop {UNITS}; mv {ANVIL}/old-state.json {ANVIL}/state.json"
            )
            lab.sh("control", f"systemctl start gridstead-anvil; systemctl start {UNITS}")

    return replaced


def records(lab, name, job):
    """Return the records of a Slurm job name that prove to be of this job of this chain, and the
    others.
    """
    known = lab.sacct(name)
    ours = [
        one for one in known if one["admincomment"].split("/")[-1] == job["batch_location_hash"]
    ]
    return ours, [one for one in known if one not in ours]


def test_nothing_of_an_old_chain_is_adopted_on_a_fresh_one(grid, lab, fresh_chain):
    someone = grid.customer("pioneer")
    ended = grid.submit(someone, "sleep 1")
    alive = grid.submit(someone, "sleep 900")
    grid.wait(someone, ended, "FINISHED")
    old_job = grid.wait(someone, alive, "RUNNING")

    with fresh_chain() as fresh:
        someone = fresh.customer("pioneer")
        credits_before = fresh.balance(someone.address)
        assert fresh.balance(fresh.provider) == 0
        number = fresh.submit(someone, "sleep 3")
        assert number <= ended
        job = fresh.wait(someone, number, "FINISHED")
        wait_until(
            lambda: records(lab, old_job["id"], old_job)[0][-1]["state"].startswith("CANCELLED"),
            timeout=120,
        )

        ((record,), of_the_old_chain) = records(lab, job["id"], job)
        assert of_the_old_chain
        assert (record["state"], record["user"]) == ("COMPLETED", someone.address)
        fresh.check_money(someone, number, seconds=lab.billed_seconds(record))
        assert fresh.balance(someone.address) == credits_before - job["cost_wei"] > 0
        assert fresh.balance(fresh.provider) == billing_oracle.earned(job["cost_wei"]) > 0

    # On the old chain the job still runs. What we ended for want of a claim says nothing of it: it
    # is run anew.
    someone = grid.customer("pioneer")
    wait_until(lambda: lab.sacct(old_job["id"])[-1]["state"] == "RUNNING", timeout=180)
    someone.run("job", "cancel", str(alive))
    job = grid.wait(someone, alive, "CANCELLED")
    grid.check_money(
        someone, alive, seconds=lab.billed_seconds(records(lab, job["id"], job)[0][-1])
    )
