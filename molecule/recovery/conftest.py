# SPDX-License-Identifier: Apache-2.0
"""A site as it is remembered: what it owes to whom, and what its books say of it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.e2e.conftest import CHECKOUT, grid, lab  # noqa: F401 - fixtures

# Outside of the lab's folder, which is lost with the lab.
KEPT = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
SACCT = "jobid,jobname,user,account,partition,state,exitcode,elapsedraw,submit,start,end,reqtres,alloctres,admincomment"
PEOPLE = (
    "ldapsearch -QY EXTERNAL -LLL -o ldif_wrap=no -H ldapi://%2Frun%2Fslapd-gridstead.socket "
    "-b dc=gridstead,dc=internal '(objectClass=posixAccount)' '*' nsUniqueId createTimestamp"
)
TABLE = """
import contextlib, json, sqlite3, sys
with contextlib.closing(sqlite3.connect(f"file:/var/lib/gridstead/{sys.argv[1]}?mode=ro", uri=True)) as opened:
    print(json.dumps(opened.execute(f"select * from {sys.argv[2]} order by 1").fetchall()))
"""
JOURNALS = {
    "journal": ("supervisor/state.db", "journal"),
    "reports of jobs": ("agent/reports.db", "report"),
}


class Site:
    """What is compared."""

    def __init__(self, lab, grid):  # noqa: F811 - not the fixtures
        self.lab = lab
        self.grid = grid

    def customer(self, name, *, credits_=10_000):
        """Return a customer with so many credits, whose wallet outlives the site; its password is
        among the secrets.
        """
        wallet, kept = self.lab.folder / f"{name}.json", KEPT / f"{name}.json"
        if kept.exists() and (self.lab.secrets / f"wallet-{name}").exists():
            shutil.copy(kept, wallet)
        person = self.grid.customer(name, credits_)
        shutil.copy(wallet, kept)
        return person

    def greet(self, person):
        """Submit a job that says hello, and return its number."""
        asked = (
            "submit",
            str(CHECKOUT / "examples" / "hello-world.yaml"),
            "--credits",
            "100",
            "--json",
        )
        return json.loads(person.run(*asked).stdout)["number"]

    def output(self, person, number):
        """Return what a job has written."""
        return person.run("job", "logs", str(number)).stdout

    def jobs(self):
        """Return the accounting's rows of all jobs and their steps, by Slurm's ids."""
        text = self.lab.sh(
            self.lab.controller, f"TZ=UTC sacct -a -n -D --parsable2 -S now-1days -o {SACCT}"
        )
        return {line.partition("|")[0]: line for line in text.splitlines()}

    def associations(self):
        """Return who may use the cluster, and on which terms."""
        kinds = ("account", "association", "cluster format=cluster,id,rpc", "qos", "user")
        ask = "; ".join(f"sacctmgr --noheader --parsable2 show {kind}" for kind in kinds)
        return sorted(self.lab.sh(self.lab.controller, ask).splitlines())

    def people(self):
        """Return the directory's entries of users, by the first line of each."""
        entries = [
            one.splitlines()
            for one in self.lab.sh(self.lab.group("directory")[0], PEOPLE).split("\n\n")
        ]
        return {lines[0]: sorted(lines[1:]) for lines in entries if lines}

    def journals(self):
        """Return the rows of what services remember, oldest first."""
        asked = JOURNALS.items()
        return {
            name: json.loads(self.lab.run("control", "python3", "-c", TABLE, *where).stdout)
            for name, where in asked
        }

    def obligation(self, person, number):
        """Return what the chain says of a job, and its way there."""
        return {"job": self.grid.job(person, number), "history": self.grid.history(person, number)}

    def balances(self, person):
        """Return the credits of the parties, wei."""
        return {
            name: self.grid.balance(who)
            for name, who in (("customer", person.address), ("provider", self.grid.provider))
        }


@pytest.fixture(scope="session")
def site(lab, grid):  # noqa: F811 - the fixtures
    return Site(lab, grid)


@pytest.fixture(scope="session")
def picture():
    """The file with what the site was."""
    return KEPT / "picture.json"
