# SPDX-License-Identifier: Apache-2.0
"""Helper functions for tests of the script store of the Job Definition service.

A script is stored as a record under an id. A *use* says that a job runs the script.
"""

from __future__ import annotations

from tests.fakes.definitions import job_id

from gridstead.adapters.definitions.script_seal import ScriptSeal
from gridstead.adapters.definitions.scripts import Scripts
from gridstead.adapters.store.database import Database
from gridstead.domain.definitions.job_definition import ScriptUse

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20


def put(scripts, name="id", record="text", owner="", expires_at=100):
    """Store a script with the id ``name``. A sweep after ``expires_at`` removes it if unused."""
    scripts.put(name, record, owner=owner, expires_at=expires_at)


def use(number, name="id", customer=ALICE):
    """Return the use of a script by the job with this number."""
    return ScriptUse(job_id=job_id(number), batch_location_hash=name, customer=customer)


def open_scripts(url, *keys):
    """Open the script store as a new process does. Only the first key is used to encrypt."""
    return Scripts(Database(url, shared=True), ScriptSeal(keys), job_id)


def close(scripts):
    scripts._database.close()
