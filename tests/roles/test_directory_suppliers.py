# SPDX-License-Identifier: Apache-2.0
"""Two suppliers of the LDAP directory: replication, ranges of uid numbers, and missing entries.

If two suppliers do not replicate, one supplier is the source and the other is initialised: its
entries are replaced by the entries of the source. A supplier is stuck if it cannot send its
changes.
"""

from types import SimpleNamespace

import pytest
from ansible_collections.gridstead.site.plugins.filter import suppliers
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check import layout
from ansible_collections.gridstead.site.plugins.modules import directory_replica_info as info

FIRST, LAST = 200001, 999999
PAIR = ("ldap1", "ldap2")


def supplier_state(*names, replica_id=0, generation="", next_uid=0, uids=(), stuck=False):
    """Return the state of a supplier as module directory_replica_info returns it.

    Args:
        names: The DNs of its entries.
        replica_id: Its replica id; 0 for a new server.
        generation: The id of the data that both suppliers replicate; empty without replication.
        next_uid: The uid number of the next user.
        uids: The uid numbers of its users.
        stuck: Whether its attempts to send changes to the other supplier keep failing.
    """
    return {
        "id": replica_id,
        "generation": generation,
        "next": next_uid,
        "stuck": stuck,
        "names": list(names),
        "numbers": list(uids),
    }


@pytest.mark.parametrize(
    ("count", "reported"),
    [(0, ["0 hosts"]), (1, []), (2, []), (3, ["3 hosts: ldap0, ldap1, ldap2"])],
)
def test_a_site_has_one_supplier_or_two(count, reported):
    site = SimpleNamespace(groups={"directory": [f"ldap{number}" for number in range(count)]})

    problems = [
        problem for problem in layout.check_groups(site) if problem.where == "group directory"
    ]

    assert [problem.fault for problem in problems] == reported
    for problem in problems:
        assert problem.allowed == "one, or two that replicate"


def test_one_supplier_assigns_all_uid_numbers():
    assert suppliers.supplier_uid_range(FIRST, LAST, 0, 1) == {"first": FIRST, "last": LAST}


@pytest.mark.parametrize(("first", "last"), [(FIRST, LAST), (10, 13), (10, 14), ("10", "14")])
def test_two_suppliers_have_disjoint_ranges_of_uid_numbers(first, last):
    lower = suppliers.supplier_uid_range(first, last, 0, 2)
    upper = suppliers.supplier_uid_range(first, last, 1, 2)

    assert lower["first"] == int(first)
    assert upper["last"] == int(last)
    assert upper["first"] == lower["last"] + 1


def test_two_new_servers_are_accepted():
    states = {"ldap1": supplier_state(), "ldap2": supplier_state()}

    assert suppliers.supplier_problem(states, PAIR, FIRST, LAST) == ""


def test_a_supplier_whose_id_differs_from_its_place_is_refused():
    """The replica id of a supplier is its position in the list of suppliers: 1 or 2."""
    states = {"ldap1": supplier_state(replica_id=1), "ldap2": supplier_state(replica_id=2)}

    problem_if_swapped = suppliers.supplier_problem(states, ["ldap2", "ldap1"], FIRST, LAST)
    without_first = suppliers.supplier_problem(states, ["ldap2"], FIRST, LAST)

    assert suppliers.supplier_problem(states, PAIR, FIRST, LAST) == ""
    assert problem_if_swapped.startswith("ldap2 is supplier 2 of its directory")
    assert "replace it by a new, empty host in the same place" in without_first


def test_a_server_that_assigned_numbers_of_its_peers_range_is_refused():
    last = suppliers.supplier_uid_range(FIRST, LAST, 0, 2)["last"]
    used_up = {"ldap1": supplier_state(next_uid=last + 1), "ldap2": supplier_state()}
    exceeded_range = {"ldap1": supplier_state(next_uid=last + 2), "ldap2": supplier_state()}

    assert suppliers.supplier_problem(used_up, PAIR, FIRST, LAST) == ""
    assert suppliers.supplier_problem(exceeded_range, PAIR, FIRST, LAST).startswith(
        f"ldap1 assigns uid {last + 2} to the next user"
    )
    assert suppliers.supplier_problem(exceeded_range, ["ldap1"], FIRST, LAST) == ""


@pytest.mark.parametrize(
    ("first", "second", "replicate"),
    [("a", "a", True), ("a", "b", False), ("a", "", False), ("", "", False)],
)
def test_suppliers_replicate_if_their_generation_ids_are_equal(first, second, replicate):
    states = {
        "ldap1": supplier_state(generation=first),
        "ldap2": supplier_state(generation=second),
    }

    assert suppliers.suppliers_replicate(states, PAIR) is replicate


@pytest.mark.parametrize(
    ("fault", "no_fault"),
    [({"stuck": True}, {"stuck": False}), ({"lacks": ["uid=0xa"]}, {"lacks": []})],
)
def test_a_stuck_or_outdated_supplier_does_not_replicate(fault, no_fault):
    state = supplier_state(generation="a")

    assert not suppliers.suppliers_replicate({"ldap1": state, "ldap2": state | fault}, PAIR)
    assert suppliers.suppliers_replicate({"ldap1": state, "ldap2": state | no_fault}, PAIR)


@pytest.mark.parametrize(
    ("digests", "in_sync"),
    [
        ({}, True),
        ({"ldap1": "a"}, True),
        ({"ldap1": "a", "ldap2": "a"}, True),
        ({"ldap1": "a", "ldap2": "b"}, False),
    ],
)
def test_suppliers_with_the_same_entries_are_in_sync(digests, in_sync):
    states = {name: {"digest": digest} for name, digest in digests.items()}

    assert suppliers.suppliers_have_same_entries(states, PAIR) is in_sync


@pytest.mark.parametrize(("more_entries", "source"), [((), "ldap2"), (("uid=0xa",), "ldap1")])
def test_a_stuck_supplier_is_the_source_unless_it_lacks_entries(more_entries, source):
    states = {
        "ldap1": supplier_state("dc=x", *more_entries),
        "ldap2": supplier_state("dc=x", stuck=True),
    }

    assert suppliers.supplier_source(states, PAIR) == source


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
    states = {"ldap1": supplier_state(*first), "ldap2": supplier_state(*second)}

    assert suppliers.supplier_source(states, PAIR) == source


def test_an_unreachable_host_has_no_state():
    hostvars = {
        "ldap1": {"seen": {"replica": supplier_state()}},
        "ldap2": {"seen": {"skipped": True}},
        "ldap3": {},
    }

    states = suppliers.supplier_replicas(hostvars, ["ldap1", "ldap2", "ldap3"], "seen")

    assert states.keys() == {"ldap1"}


def test_a_new_supplier_assigns_no_number_that_was_used_before():
    share = suppliers.supplier_uid_range(FIRST, LAST, 0, 2)

    def next_number(*used_numbers, own_next=0):
        """Return the next uid number of the new supplier ldap1.

        The supplier skips 1000 numbers after the highest used number in its range.

        Users on ldap2 have ``used_numbers``. ``own_next`` is the next number in ldap1's settings.
        """
        states = {
            "ldap1": supplier_state(next_uid=own_next),
            "ldap2": supplier_state(uids=used_numbers),
        }
        return suppliers.supplier_next(states, "ldap2", "ldap1", share, 1000)

    assert next_number() == FIRST
    # 600000 is in the range of ldap2.
    assert next_number(600000) == FIRST
    assert next_number(FIRST, 300000, 600000) == 301001  # 300000 + 1, and 1000 skipped numbers
    assert next_number(300000, own_next=400000) == 400000
    assert next_number(share["last"]) == share["last"]


RUV = [
    "{replicageneration} 6b022651000000010000",
    "{replica 1 ldap://ldap1:0} 6b02265c000000010000 6b022670000000010000",
    "{replica 2 ldap://ldap2:0}",
]


def test_a_ruv_has_the_generation_and_the_last_change_of_each_supplier():
    """RUV (replica update vector) is recorded with 389ds 3.1.2, before a change on supplier 2."""
    expected = {"generation": "6b022651000000010000", "csns": {"1": "6b022670000000010000"}}

    assert info.parse_vector(RUV) == expected
    assert info.parse_vector([]) == {"generation": "", "csns": {}}


# Recorded with 389ds 3.1.2: the status of an agreement while replication works, and after the other
# supplier was killed.
HEALTHY_STATUS = (
    '{"state": "green", "ldap_rc": "0", "ldap_rc_text": "Success", "repl_rc": "0", '
    '"repl_rc_text": "replica acquired", '
    '"date": "2026-11-22T02:47:28Z", '
    '"message": "Error (0) Replica acquired successfully: Incremental update succeeded"}'
)
STUCK_STATUS = (
    '{"state": "amber", "ldap_rc": "0", "ldap_rc_text": "Success", "repl_rc": "18", '
    '"repl_rc_text": "transient warning", "date": "2026-11-22T00:58:08Z", '
    '"message": "Error (18) Can\'t acquire replica (Incremental update transient warning.  '
    'Backing off, will retry update later.)"}'
)


@pytest.mark.parametrize(
    ("statuses", "stuck"),
    [
        ([], False),
        ([HEALTHY_STATUS], False),
        ([STUCK_STATUS], True),
        ([HEALTHY_STATUS, STUCK_STATUS], True),
    ],
)
def test_a_supplier_that_retries_to_send_changes_is_stuck(statuses, stuck):
    assert info.is_stuck(statuses) is stuck


def test_a_supplier_without_the_changes_of_its_peer_has_a_fault():
    """replication_fault gets the state of the checked supplier and that of the other supplier."""

    def state(csn, generation="a"):
        """Return the state of a supplier that has the changes of supplier 1 up to this CSN."""
        return {"generation": generation, "csns": {"1": csn}}

    no_changes = {"generation": "a", "csns": {}}
    pending = "changes made on supplier 1 have not arrived"

    assert info.replication_fault(state("6b02"), state("6b02")) == ""
    assert info.replication_fault(state("6b03"), state("6b02")) == ""
    assert info.replication_fault(state("6b02"), state("6b0a")) == pending
    assert info.replication_fault(no_changes, state("6b02")) == pending
    assert info.replication_fault(state("6b02"), state("6b02", generation="b")).startswith(
        "their data has different origins"
    )
    assert info.replication_fault(state("6b02"), {}) == ""


@pytest.fixture
def read_supplier(monkeypatch):
    """A function that returns the state of a server with the entries ``names``.

    ``other`` is the state of the other supplier, ``deleted`` has the DNs of tombstones, and ``csn``
    is the number of the last change.
    """

    def read(names, other=None, *, deleted=(), csn="6b02"):
        ruv = ["{replicageneration} a", f"{{replica 1 ldap://l:0}} 6b01 {csn}"]
        results = {
            info.VECTOR_FILTER: [("", {"nsds50ruv": ruv})],
            "(objectClass=nsTombstone)": [("", {"nscpentrydn": [dn]}) for dn in deleted],
            "(objectClass=*)": [(dn, {}) for dn in (*names, "cn=repl keep alive 1,dc=x")],
        }
        connection = SimpleNamespace(
            sasl_non_interactive_bind_s=lambda how: None, unbind_s=lambda: None
        )
        ldap = SimpleNamespace(SCOPE_SUBTREE=2, SCOPE_BASE=0, initialize=lambda uri: connection)

        def search(_connection, base, _scope, pattern, _names):
            return results.get(pattern, []) if base else []

        monkeypatch.setattr(info, "ldap", ldap)
        monkeypatch.setattr(info, "search", search)
        arguments = {"uri": "", "suffix": "dc=x", "numbers": "", "names": True, "covers": other}
        return info.read(arguments)

    return read


def test_suppliers_with_the_same_entries_have_the_same_digest(read_supplier):
    digest = read_supplier(["dc=x", "uid=0xa"])["digest"]

    assert digest == read_supplier(["uid=0xa", "dc=x"])["digest"]
    assert digest != read_supplier(["dc=x"])["digest"]


def test_an_entry_that_was_never_replicated_is_missing(read_supplier):
    other_supplier = read_supplier(["dc=x", "uid=0xa", "uid=0xb"])

    own_supplier = read_supplier(["dc=x", "uid=0xc"], other_supplier)

    assert own_supplier["lacks"] == ["uid=0xa", "uid=0xb"]
    assert (
        info.replication_fault(own_supplier, other_supplier)
        == "2 entries of the other supplier never arrived, for example uid=0xa"
    )


def test_a_deleted_entry_is_not_missing(read_supplier):
    other_supplier = read_supplier(["dc=x", "uid=0xa"])

    own_supplier = read_supplier(["dc=x"], other_supplier, deleted=["uid=0xA"])

    assert own_supplier["lacks"] == []


def test_entries_of_pending_changes_are_not_missing(read_supplier):
    other_supplier = read_supplier(["dc=x", "uid=0xa"], csn="6b09")

    own_supplier = read_supplier(["dc=x"], other_supplier)

    assert "lacks" not in own_supplier
    assert (
        info.replication_fault(own_supplier, other_supplier)
        == "changes made on supplier 1 have not arrived"
    )
