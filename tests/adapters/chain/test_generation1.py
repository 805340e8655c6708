# SPDX-License-Identifier: Apache-2.0
"""The double of the DeepSquare contracts has exactly their published ABI."""

from __future__ import annotations

import pytest
from tests.contracts.test_published_abi import published, to_entry
from tests.generation1 import FILES, compiled

# Functions that the contracts call on each other; the published table has those for clients.
INTERNAL = {
    "JobRepository": {
        *(
            "create",
            "setCost",
            "setExitCode",
            "setHasCancelRequest",
            "setJobStatus",
            "setLastError",
            "setProviderAddr",
        ),
        "setTime",
    },
    "ProviderJobQueues": {
        *("popNextCancellingJob", "popNextClaimableJob", "popNextTopUpJob"),
        *("pushCancellingJob", "pushClaimableJob", "pushTopUpJob"),
    },
    "ProviderManager": {"incJobCount"},
}
# Parts that our clients do not use are omitted: the linked list of providers, views of single
# fields, and the functions to renounce roles and ownership.
OMITTED = {
    "MetaScheduler": {"getRoleAdmin", "renounceRole", "supportsInterface", "RoleAdminChanged"},
    "JobRepository": {
        "getRoleAdmin",
        "renounceRole",
        "supportsInterface",
        "RoleAdminChanged",
        "jobs",
    },
    "ProviderManager": {
        *(
            "getRoleAdmin",
            "renounceRole",
            "supportsInterface",
            "RoleAdminChanged",
            "PROVIDER_REGISTRATION_TAX",
        ),
        *(
            "elementCount",
            "fetchPage",
            "findIdForDataFrom",
            "get",
            "head",
            "idCounter",
            "objects",
            "tail",
        ),
        *("NewHead", "NewTail", "ObjectCreated", "ObjectRemoved", "ObjectsLinked"),
        *(
            "getLabels",
            "getProviderHardware",
            "jobCountByProvider",
            "providers",
            "waitingApprovalProviders",
        ),
    },
    "ProviderJobQueues": {
        *(
            "providerCancellingJobsQueues",
            "providerClaimableJobsQueues",
            "providerTopUpJobsQueues",
            "renounceOwnership",
        ),
    },
    "Constants": {"renounceOwnership"},
    "Credit": {"renounceOwnership"},
}


def name_of(entry):
    return entry[2].split("(")[0]


@pytest.mark.parametrize("contract", FILES)
def test_double_has_the_published_abi(contract):
    table = [list(row[1:]) for row in published() if row[0] == contract]
    entries = map(to_entry, compiled()[contract]["abi"])
    own = [entry for entry in entries if entry is not None]
    tools = [list(row[1:]) for row in published() if row[0] == "Tools"]

    missing = {name_of(entry) for entry in table if entry not in own}
    added = {name_of(entry) for entry in own if entry not in table and entry not in tools}
    assert missing == OMITTED[contract]
    assert added - INTERNAL.get(contract, set()) <= {"JobCreated"}
