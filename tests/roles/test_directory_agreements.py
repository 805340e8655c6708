# SPDX-License-Identifier: Apache-2.0
"""Module directory_agreements creates the agreements by which a supplier sends its changes."""

import pytest
from ansible_collections.gridstead.site.plugins.modules import directory_agreements as agreements


class FakeSupplier:
    """A supplier in memory with its agreements. An initialisation ends with the given status."""

    def __init__(self, *, status="Error (0) Total update succeeded"):
        self.entries = {}
        self.status = status

    def replica(self):
        return "cn=replica"

    def agreements(self):
        """Return the agreements without their credentials. Attribute names are in lower case."""
        readable = {}
        for dn, entry in self.entries.items():
            attributes = {name.lower(): [value] for name, value in entry.items()}
            attributes.pop("nsds5replicacredentials", None)
            readable[dn] = attributes
        return readable

    def add(self, dn, attributes):
        self.entries[dn] = dict(attributes)

    def modify(self, dn, attributes):
        is_initialisation = attributes.pop("nsds5BeginReplicaRefresh", None)
        self.entries[dn] |= attributes
        if is_initialisation:
            self.entries[dn]["nsds5replicaLastInitStatus"] = self.status

    def remove(self, dn):
        del self.entries[dn]


def arguments(*peers, password="p" * 40):
    """Return the arguments of module directory_agreements."""
    return {
        "peers": list(peers),
        "suffix": "dc=x",
        "bind_dn": "uid=replication,cn=config",
        "password": password,
    }


@pytest.fixture
def supplier():
    return FakeSupplier()


def test_an_agreement_is_created_once(supplier):
    assert agreements.ensure(supplier, arguments("ldap2"), check_mode=False) == ["ldap2: new"]
    assert supplier.entries["cn=ldap2,cn=replica"]["nsDS5ReplicaTransportInfo"] == "LDAPS"
    assert agreements.ensure(supplier, arguments("ldap2"), check_mode=False) == []


def test_a_new_password_is_written_only_to_the_credentials_of_the_agreement(supplier):
    agreements.ensure(supplier, arguments("ldap2"), check_mode=False)

    changes = agreements.ensure(supplier, arguments("ldap2", password="q" * 40), check_mode=False)

    assert changes == ["ldap2: description, nsDS5ReplicaCredentials"]
    entry = supplier.entries["cn=ldap2,cn=replica"]
    assert entry.pop("nsDS5ReplicaCredentials") == "q" * 40
    assert "q" * 40 not in str(entry)


def test_an_agreement_with_an_unknown_supplier_is_removed(supplier):
    agreements.ensure(supplier, arguments("ldap2"), check_mode=False)

    assert agreements.ensure(supplier, arguments(), check_mode=False) == ["ldap2: removed"]
    assert supplier.entries == {}


def test_check_mode_changes_no_agreement(supplier):
    assert agreements.ensure(supplier, arguments("ldap2"), check_mode=True) == ["ldap2: new"]
    assert supplier.entries == {}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("Error (0) Total update succeeded", ""),
        ("Error (49) Problem connecting", "ldap2: Error (49) Problem connecting"),
    ],
)
def test_an_initialisation_returns_its_result(status, message):
    supplier = FakeSupplier(status=status)
    agreements.ensure(supplier, arguments("ldap2"), check_mode=False)

    assert agreements.initialise(supplier, ["ldap2"], wait_s=1) == message
