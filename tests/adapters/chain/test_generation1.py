# SPDX-License-Identifier: Apache-2.0
"""Test our copy of the contracts of DeepSquare 1.2: it has their ABI, except for unused parts."""

from __future__ import annotations

import pytest
from tests.contracts.test_published_abi import published_rows, to_entry
from tests.generation1 import FILES, build_artifacts

# Functions that only the contracts call. The published ABI lists only functions for clients.
INTERNAL = {
    "JobRepository": {
        "create", "setCost", "setExitCode", "setHasCancelRequest", "setJobStatus",
        "setLastError", "setProviderAddr", "setTime",
    },
    "ProviderJobQueues": {
        "popNextCancellingJob", "popNextClaimableJob", "popNextTopUpJob",
        "pushCancellingJob", "pushClaimableJob", "pushTopUpJob",
    },
    "ProviderManager": {"incJobCount"},
}  # fmt: skip
# Parts that our clients do not use: the linked list of providers, views of single fields, and the
# functions to renounce roles and ownership.
OMITTED = {
    "MetaScheduler": {"getRoleAdmin", "renounceRole", "supportsInterface", "RoleAdminChanged"},
    "JobRepository": {
        "getRoleAdmin", "renounceRole", "supportsInterface", "RoleAdminChanged", "jobs",
    },
    "ProviderManager": {
        "getRoleAdmin", "renounceRole", "supportsInterface", "RoleAdminChanged",
        "PROVIDER_REGISTRATION_TAX",
        "elementCount", "fetchPage", "findIdForDataFrom", "get", "head", "idCounter", "objects",
        "tail",
        "NewHead", "NewTail", "ObjectCreated", "ObjectRemoved", "ObjectsLinked",
        "getLabels", "getProviderHardware", "jobCountByProvider", "providers",
        "waitingApprovalProviders",
    },
    "ProviderJobQueues": {
        "providerCancellingJobsQueues", "providerClaimableJobsQueues", "providerTopUpJobsQueues",
        "renounceOwnership",
    },
    "Constants": {"renounceOwnership"},
    "Credit": {"renounceOwnership"},
}  # fmt: skip


def published_entries(contract):
    """Return the rows of a contract in the published ABI, without the name of the contract."""
    return [list(row[1:]) for row in published_rows() if row[0] == contract]


def compiled_entries(contract):
    """Return the ABI of our copy of a contract, in the format of the published rows."""
    entries = map(to_entry, build_artifacts()[contract]["abi"])
    return [entry for entry in entries if entry is not None]


def names_of_difference(entries, other_entries):
    """Return the names of the entries that are not in the other list."""
    names = set()
    for entry in entries:
        if entry not in other_entries:
            signature = entry[2]
            names.add(signature.split("(")[0])
    return names


@pytest.mark.parametrize("contract", FILES)
def test_copy_has_the_published_abi(contract):
    compiled_abi = compiled_entries(contract)
    published_abi = published_entries(contract)

    missing_names = names_of_difference(published_abi, compiled_abi)
    # The published ABI has separate rows for the errors of the library Tools.
    library_abi = published_entries("Tools")
    added_names = names_of_difference(compiled_abi, published_abi + library_abi)

    assert missing_names == OMITTED[contract]
    # The published ABI does not contain the event JobCreated.
    assert added_names - INTERNAL.get(contract, set()) <= {"JobCreated"}
