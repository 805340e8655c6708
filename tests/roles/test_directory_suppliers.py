# SPDX-License-Identifier: Apache-2.0
"""Two directory suppliers: replication, ranges of uid numbers, and missing entries."""

from types import SimpleNamespace

import pytest
from ansible_collections.gridstead.site.plugins.filter import suppliers
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check import layout
from ansible_collections.gridstead.site.plugins.modules import directory_agreements as agreements
from ansible_collections.gridstead.site.plugins.modules import directory_replica_info as info

FIRST, LAST = 200001, 999999
PAIR = ("ldap1", "ldap2")


def look(*names, number=0, generation="", upcoming=0, numbers=(), stuck=False):
    state = {"id": number, "generation": generation, "next": upcoming, "stuck": stuck}
    return state | {"names": list(names), "numbers": list(numbers)}


@pytest.mark.parametrize(
    ("count", "state"), [(0, "0 hosts"), (1, ""), (2, ""), (3, "3 hosts: ldap0, ldap1, ldap2")]
)
def test_a_site_has_one_supplier_or_two(count, state):
    site = SimpleNamespace(groups={"directory": [f"ldap{number}" for number in range(count)]})

    problems = [group for group in layout.groups(site) if group.where == "group directory"]

    assert [item.fault for item in problems] == ([state] if state else [])
    assert all(item.allowed == "one, or two that replicate" for item in problems)


def test_one_supplier_assigns_all_uid_numbers():
    assert suppliers.supplier_numbers(FIRST, LAST, 0, 1) == {"first": FIRST, "last": LAST}


@pytest.mark.parametrize(("first", "last"), [(FIRST, LAST), (10, 13), (10, 14), ("10", "14")])
def test_two_suppliers_have_disjoint_ranges_of_uid_numbers(first, last):
    lower, upper = (suppliers.supplier_numbers(first, last, place, 2) for place in (0, 1))

    assert (lower["first"], upper["last"]) == (int(first), int(last))
    assert upper["first"] == lower["last"] + 1


def test_new_servers_can_be_any_suppliers():
    assert suppliers.supplier_problem({name: look() for name in PAIR}, PAIR, FIRST, LAST) == ""


def test_a_supplier_with_anothers_id_is_refused():
    looks = {"ldap1": look(number=1), "ldap2": look(number=2)}

    assert suppliers.supplier_problem(looks, PAIR, FIRST, LAST) == ""
    assert suppliers.supplier_problem(looks, PAIR[::-1], FIRST, LAST).startswith(
        "ldap2 is supplier 2 of its directory"
    )
    assert "replace it by a new, empty host in the same place" in suppliers.supplier_problem(
        looks, ["ldap2"], FIRST, LAST
    )


def test_a_server_that_assigned_numbers_of_the_other_range_is_refused():
    halves = suppliers.supplier_numbers(FIRST, LAST, 0, 2)
    at_end = {"ldap1": look(upcoming=halves["last"] + 1), "ldap2": look()}
    beyond = {"ldap1": look(upcoming=halves["last"] + 2), "ldap2": look()}

    assert suppliers.supplier_problem(at_end, PAIR, FIRST, LAST) == ""
    assert suppliers.supplier_problem(beyond, PAIR, FIRST, LAST).startswith(
        f"ldap1 assigns uid {halves['last'] + 2} to the next user"
    )
    assert suppliers.supplier_problem(beyond, ["ldap1"], FIRST, LAST) == ""


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [("a", "a", True), ("a", "b", False), ("a", "", False), ("", "", False)],
)
def test_suppliers_replicate_if_their_data_has_one_generation(first, second, same):
    looks = {"ldap1": look(generation=first), "ldap2": look(generation=second)}

    assert suppliers.supplier_heard(looks, PAIR) is same


@pytest.mark.parametrize("wrong", [{"stuck": True}, {"lacks": ["uid=0xa"]}])
def test_a_stuck_or_outdated_supplier_does_not_replicate(wrong):
    looks = {"ldap1": look(generation="a"), "ldap2": look(generation="a") | wrong}

    assert suppliers.supplier_heard(looks, PAIR) is False
    assert suppliers.supplier_heard(
        {name: looks[name] | {key: [] for key in wrong} for name in PAIR}, PAIR
    )


@pytest.mark.parametrize(("looks", "alike"), [({}, True), ("a", True), ("aa", True), ("ab", False)])
def test_suppliers_with_the_same_entries_are_in_sync(looks, alike):
    assert (
        suppliers.supplier_alike(
            {f"ldap{i}": {"digest": item} for i, item in enumerate(looks, 1)}, PAIR
        )
        is alike
    )


@pytest.mark.parametrize(("others", "source"), [((), "ldap2"), (("uid=0xa",), "ldap1")])
def test_a_stuck_supplier_without_missing_entries_is_the_source(others, source):
    looks = {"ldap1": look("dc=x", *others), "ldap2": look("dc=x", stuck=True)}

    assert suppliers.supplier_source(looks, PAIR) == source


@pytest.mark.parametrize(
    ("first", "second", "source"),
    [
        (("dc=x", "uid=0xa"), ("dc=x",), "ldap1"),
        (("dc=x",), ("dc=x", "uid=0xa"), "ldap2"),
        (("dc=x",), ("dc=x",), "ldap1"),
        (("dc=x", "uid=0xa"), ("dc=x", "uid=0xb"), ""),
    ],
)
def test_the_supplier_with_all_entries_is_the_source(first, second, source):
    assert (
        suppliers.supplier_source({"ldap1": look(*first), "ldap2": look(*second)}, PAIR) == source
    )


def test_an_unreachable_host_has_no_state():
    hostvars = {
        "ldap1": {"seen": {"replica": look()}},
        "ldap2": {"seen": {"skipped": True}},
        "ldap3": {},
    }

    assert list(suppliers.supplier_looks(hostvars, ["ldap1", "ldap2", "ldap3"], "seen")) == [
        "ldap1"
    ]


def test_a_new_supplier_assigns_no_number_that_was_used_before():
    share = suppliers.supplier_numbers(FIRST, LAST, 0, 2)

    def upcoming(*numbers, own=0):
        looks = {"ldap1": look(upcoming=own), "ldap2": look(numbers=numbers)}
        return suppliers.supplier_next(looks, "ldap2", "ldap1", share, 1000)

    assert upcoming() == upcoming(600000) == FIRST
    assert upcoming(FIRST, 300000, 600000) == 301001
    assert upcoming(300000, own=400000) == 400000
    assert upcoming(share["last"]) == share["last"]


VALUES = [
    "{replicageneration} 6b022651000000010000",
    "{replica 1 ldap://ldap1:0} 6b02265c000000010000 6b022670000000010000",
    "{replica 2 ldap://ldap2:0}",
]


def test_a_ruv_has_the_generation_and_the_last_change_of_each_supplier():
    """Recorded with 389ds 3.1.2. A supplier without changes has no last change."""
    expected = {"generation": "6b022651000000010000", "csns": {"1": "6b022670000000010000"}}

    assert info.parse_vector(VALUES) == expected
    assert info.parse_vector([]) == {"generation": "", "csns": {}}


# Recorded of 389ds 3.1.2: all is well; the supplier was killed after a change.
GREEN = (
    '{"state": "green", "ldap_rc": "0", "ldap_rc_text": "Success", "repl_rc": "0", "repl_rc_text": "replica acquired", '
    '"date": "2026-11-22T02:47:28Z", '
    '"message": "Error (0) Replica acquired successfully: Incremental update succeeded"}'
)
STUCK = (
    '{"state": "amber", "ldap_rc": "0", "ldap_rc_text": "Success", "repl_rc": "18", '
    '"repl_rc_text": "transient warning", "date": "2026-11-22T00:58:08Z", '
    '"message": "Error (18) Can\'t acquire replica (Incremental update transient warning.  Backing off, will retry '
    'update later.)"}'
)


@pytest.mark.parametrize(
    ("statuses", "stuck"), [([], False), ([GREEN], False), ([STUCK], True), ([GREEN, STUCK], True)]
)
def test_a_supplier_that_retries_to_send_changes_is_stuck(statuses, stuck):
    assert info.is_stuck(statuses) is stuck


def test_a_supplier_must_have_the_others_entries():
    def mine(csn, generation="a"):
        return {"generation": generation, "csns": {"1": csn}}

    assert (
        info.replication_fault(mine("6b02"), mine("6b02"))
        == info.replication_fault(mine("6b03"), mine("6b02"))
        == ""
    )
    assert (
        info.replication_fault(mine("6b02"), mine("6b0a"))
        == "changes made on supplier 1 have not arrived"
    )
    assert (
        info.replication_fault({"generation": "a", "csns": {}}, mine("6b02"))
        == "changes made on supplier 1 have not arrived"
    )
    assert info.replication_fault(mine("6b02"), mine("6b02", "b")).startswith(
        "their data has different origins"
    )
    assert info.replication_fault(mine("6b02"), {}) == ""


@pytest.fixture
def seen(monkeypatch):
    """A function that reads a server with entries and deleted entries. ``csn``: the last change."""

    def looked(names, covers=None, *, deleted=(), csn="6b02"):
        answers = {
            info.VECTOR_FILTER: [
                (
                    "",
                    {
                        "nsds50ruv": [
                            "{replicageneration} a",
                            f"{{replica 1 ldap://l:0}} 6b01 {csn}",
                        ]
                    },
                )
            ],
            "(objectClass=nsTombstone)": [("", {"nscpentrydn": [dn]}) for dn in deleted],
            "(objectClass=*)": [(dn, {}) for dn in (*names, "cn=repl keep alive 1,dc=x")],
        }
        connection = SimpleNamespace(
            sasl_non_interactive_bind_s=lambda how: None, unbind_s=lambda: None
        )
        scopes = {"SCOPE_SUBTREE": 2, "SCOPE_BASE": 0, "initialize": lambda uri: connection}
        monkeypatch.setattr(info, "ldap", SimpleNamespace(**scopes))
        monkeypatch.setattr(
            info,
            "search",
            lambda _c, base, _s, pattern, _n: answers.get(pattern, []) if base else [],
        )
        return info.read(
            {"uri": "", "suffix": "dc=x", "numbers": "", "names": True, "covers": covers}
        )

    return looked


def test_suppliers_with_the_same_entries_have_the_same_digest(seen):
    digest = seen(["dc=x", "uid=0xa"])["digest"]

    assert digest == seen(["uid=0xa", "dc=x"])["digest"]
    assert digest != seen(["dc=x"])["digest"]


def test_an_entry_that_was_never_replicated_is_missing(seen):
    other = seen(["dc=x", "uid=0xa", "uid=0xb"])

    mine = seen(["dc=x", "uid=0xc"], other)

    assert mine["lacks"] == ["uid=0xa", "uid=0xb"]
    assert (
        info.replication_fault(mine, other)
        == "2 entries of the other supplier never arrived, for example uid=0xa"
    )


def test_a_deleted_entry_is_not_missing(seen):
    assert seen(["dc=x"], seen(["dc=x", "uid=0xa"]), deleted=["uid=0xA"])["lacks"] == []


def test_entries_of_pending_changes_are_not_missing(seen):
    other = seen(["dc=x", "uid=0xa"], csn="6b09")

    mine = seen(["dc=x"], other)

    assert "lacks" not in mine
    assert info.replication_fault(mine, other) == "changes made on supplier 1 have not arrived"


class FakeSupplier:
    """A supplier in memory. An initialisation ends with the given result."""

    def __init__(self, *, says="Error (0) Total update succeeded"):
        self.entries = {}
        self.says = says

    def replica(self):
        return "cn=replica"

    def agreements(self):
        return {
            dn: {
                name.lower(): [value]
                for name, value in entry.items()
                if name != "nsDS5ReplicaCredentials"
            }
            for dn, entry in self.entries.items()
        }

    def add(self, dn, attributes):
        self.entries[dn] = dict(attributes)

    def modify(self, dn, attributes):
        started = attributes.pop("nsds5BeginReplicaRefresh", None)
        self.entries[dn] |= attributes | (
            {"nsds5replicaLastInitStatus": self.says} if started else {}
        )

    def remove(self, dn):
        del self.entries[dn]


def asked(*peers, password="p" * 40):
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
    assert agreements.ensure(supplier, asked("ldap2"), check=False) == ["ldap2: new"]
    assert supplier.entries["cn=ldap2,cn=replica"]["nsDS5ReplicaTransportInfo"] == "LDAPS"
    assert agreements.ensure(supplier, asked("ldap2"), check=False) == []


def test_a_new_password_is_written_only_to_the_agreement(supplier):
    agreements.ensure(supplier, asked("ldap2"), check=False)

    changes = agreements.ensure(supplier, asked("ldap2", password="q" * 40), check=False)

    assert changes == ["ldap2: description, nsDS5ReplicaCredentials"]
    entry = supplier.entries["cn=ldap2,cn=replica"]
    assert entry.pop("nsDS5ReplicaCredentials") == "q" * 40
    assert not any("q" * 40 in value for value in entry.values())


def test_an_agreement_with_an_unknown_supplier_is_removed(supplier):
    agreements.ensure(supplier, asked("ldap2"), check=False)

    assert agreements.ensure(supplier, asked(), check=False) == ["ldap2: removed"]
    assert supplier.entries == {}


def test_check_mode_changes_no_agreement(supplier):
    assert agreements.ensure(supplier, asked("ldap2"), check=True) == ["ldap2: new"]
    assert supplier.entries == {}


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ("Error (0) Total update succeeded", ""),
        ("Error (49) Problem connecting", "ldap2: Error (49) Problem connecting"),
    ],
)
def test_an_initialisation_returns_its_result(says, wrong):
    supplier = FakeSupplier(says=says)
    agreements.ensure(supplier, asked("ldap2"), check=False)

    assert agreements.initialise(supplier, ["ldap2"], wait_s=1) == wrong
