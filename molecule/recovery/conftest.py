# SPDX-License-Identifier: Apache-2.0
"""Fixtures that read those parts of a site's state that backup and restore preserve."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.e2e.conftest import CHECKOUT, grid, lab  # noqa: F401 - fixtures

# This folder is outside the lab's folder, which the scenario removes with the hosts.
SAVED_FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
SACCT_FIELDS = (
    "jobid,jobname,user,account,partition,state,exitcode,elapsedraw,submit,start,end,reqtres,"
    "alloctres,admincomment"
)
SEARCH_USERS = (
    "ldapsearch -QY EXTERNAL -LLL -o ldif_wrap=no -H ldapi://%2Frun%2Fslapd-gridstead.socket "
    "-b dc=gridstead,dc=internal '(objectClass=posixAccount)' '*' nsUniqueId createTimestamp"
)
PRINT_TABLE = """
import contextlib, json, sqlite3, sys
database = f"file:/var/lib/gridstead/{sys.argv[1]}?mode=ro"
with contextlib.closing(sqlite3.connect(database, uri=True)) as connection:
    rows = connection.execute(f"select * from {sys.argv[2]} order by 1").fetchall()
print(json.dumps(rows))
"""
# The database and the table of each journal.
JOURNALS = {
    "journal": ("supervisor/state.db", "journal"),
    "reports of jobs": ("agent/reports.db", "report"),
}


class SiteState:
    """A client of a site that reads its state and submits jobs."""

    def __init__(self, lab, grid):  # noqa: F811 - parameters, no imported fixtures
        self.lab = lab
        self.grid = grid

    def customer(self, name, *, credits_=10_000):
        """Return a customer, after adding credits to the wallet.

        The method copies the wallet to a folder that the loss of the site does not affect. After
        the loss, it uses this copy if the password of the wallet has been restored. The password is
        one of the site's secrets.
        """
        wallet, saved_wallet = self.lab.folder / f"{name}.json", SAVED_FOLDER / f"{name}.json"
        if saved_wallet.exists() and (self.lab.secrets / f"wallet-{name}").exists():
            shutil.copy(saved_wallet, wallet)
        customer = self.grid.customer(name, credits_)
        shutil.copy(wallet, saved_wallet)
        return customer

    def submit_hello(self, customer):
        """Submit the example hello-world and return the job's number."""
        workflow = str(CHECKOUT / "examples" / "hello-world.yaml")
        result = customer.run("submit", workflow, "--credits", "100", "--json")
        return json.loads(result.stdout)["number"]

    def output(self, customer, number):
        """Return the output of a job."""
        return customer.run("job", "logs", str(number)).stdout

    def jobs(self):
        """Return the accounting records of all jobs and steps, by Slurm's job and step ids."""
        text = self.lab.sh(
            self.lab.controller, f"TZ=UTC sacct -a -n -D --parsable2 -S now-1days -o {SACCT_FIELDS}"
        )
        records = {}
        for line in text.splitlines():
            jobid, _, _ = line.partition("|")
            records[jobid] = line
        return records

    def associations(self):
        """Return the accounts, associations, QOS and users of the cluster, as sorted lines."""
        kinds = ("account", "association", "cluster format=cluster,id,rpc", "qos", "user")
        commands = [f"sacctmgr --noheader --parsable2 show {kind}" for kind in kinds]
        return sorted(self.lab.sh(self.lab.controller, "; ".join(commands)).splitlines())

    def users(self):
        """Return each user's LDAP entry as sorted lines. The key is the first line, with the DN."""
        users = {}
        for entry in self.lab.sh(self.lab.group("directory")[0], SEARCH_USERS).split("\n\n"):
            lines = entry.splitlines()
            if lines:
                users[lines[0]] = sorted(lines[1:])
        return users

    def journals(self):
        """Return the rows of the services' journals, oldest first."""
        rows = {}
        for name, (database, table) in JOURNALS.items():
            program = ("python3", "-c", PRINT_TABLE, database, table)
            rows[name] = json.loads(self.lab.run("control", *program).stdout)
        return rows

    def chain_record(self, customer, number):
        """Return a job and its history on the chain."""
        return {
            "job": self.grid.job(customer, number),
            "history": self.grid.history(customer, number),
        }

    def balances(self, customer):
        """Return the credits of the customer and of the provider, in wei."""
        return {
            "customer": self.grid.balance(customer.address),
            "provider": self.grid.balance(self.grid.provider),
        }


@pytest.fixture(scope="session")
def site(lab, grid):  # noqa: F811 - the fixtures
    return SiteState(lab, grid)


@pytest.fixture(scope="session")
def state_file():
    """Return the file with the state of the site before its loss."""
    return SAVED_FOLDER / "state.json"
