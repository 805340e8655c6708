# SPDX-License-Identifier: Apache-2.0
"""The double of the DeepSquare contracts answers what is published of them, and nothing else."""

from __future__ import annotations

import pytest
from tests.contracts.test_published_abi import published, to_entry
from tests.generation1 import FILES, compiled

# What the contracts ask of each other; the published table is of what clients ask.
BETWEEN = {
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
# What no client of ours looks at is left out: the linked list of providers, reads of single fields,
# the second ways to give up roles and ownership.
LEFT_OUT = {
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
def test_double_has_what_is_published(contract):
    table = [list(row[1:]) for row in published() if row[0] == contract]
    own = [entry for one in compiled()[contract]["abi"] if (entry := to_entry(one)) is not None]
    tools = [list(row[1:]) for row in published() if row[0] == "Tools"]

    missing = {name_of(entry) for entry in table if entry not in own}
    added = {name_of(entry) for entry in own if entry not in table and entry not in tools}
    assert missing == LEFT_OUT[contract]
    assert added - BETWEEN.get(contract, set()) <= {"JobCreated"}
