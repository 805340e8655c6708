# SPDX-License-Identifier: Apache-2.0
"""Test that two suppliers replicate and that a client resolves users while either one is down."""

import os
import secrets
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
SECRETS = CHECKOUT / ".lab" / os.environ["GRIDSTEAD_LAB_NAME"] / "secrets"
SUFFIX = "dc=gridstead,dc=internal"
MANAGER = "ldapsearch -QY EXTERNAL -LLL -o ldif_wrap=no -H ldapi://%2Frun%2Fslapd-gridstead.socket"
SUPPLIERS = ("ldap1", "ldap2")
# Each supplier assigns uids from its half of gridstead_wallet_uid_min to gridstead_wallet_uid_max.
UID_RANGES = {"ldap1": range(200001, 600000), "ldap2": range(600000, 1000000)}
USER_OF_FIRST = "0x" + 40 * "1"
# Upper limit for a lookup while one supplier is down. docs/howto/directory.md has the time that a
# client really waits.
LOOKUP_TIMEOUT_S = 30
ENTRY = """\
dn: uid={address},ou=people,{suffix}
objectClass: nsPerson
objectClass: nsAccount
objectClass: nsOrgPerson
objectClass: posixAccount
uid: {address}
cn: {address}
displayName: {address}
gidNumber: 100000
homeDirectory: /home/ldap-users/{address}
"""
KILL = "systemctl kill --signal=KILL dirsrv@gridstead && systemctl stop dirsrv@gridstead"


def until(probe, *, seconds=60):
    """Call a probe until it returns a true value, and return this value."""
    end = time.monotonic() + seconds
    value = probe()
    while not value:
        assert time.monotonic() < end, f"no true value within {seconds} s"
        time.sleep(0.5)
        value = probe()
    return value


@pytest.fixture
def add(on):
    """Return a function that adds a user on a supplier and returns the name, like the connector."""
    password = (SECRETS / "directory-connector").read_text().strip()

    def add_user(server):
        address = f"0x{secrets.token_hex(20)}"
        entry = ENTRY.format(address=address, suffix=SUFFIX)
        account = f"-x -H ldaps://{server} -D uid=connector,ou=services,{SUFFIX} -w {password}"
        on(server).check_output(
            f"printf '{entry}' | LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt ldapadd {account}"
        )
        return address

    return add_user


@pytest.fixture
def uid(on):
    """Return a function that returns the uid of a user on a supplier, 0 if it has no such user."""

    def read_uid(server, address):
        text = on(server).check_output(f"{MANAGER} -b ou=people,{SUFFIX} uid={address} uidNumber")
        return int(text.partition("uidNumber: ")[2] or 0)

    return read_uid


@pytest.fixture
def first_dead(on):
    """Kill the first supplier and start it again after the test."""
    on("ldap1").check_output(KILL)
    yield
    on("ldap1").check_output("systemctl start dirsrv@gridstead")


@pytest.fixture
def first_frozen(on):
    """Stop the first supplier's process, so that it accepts connections and answers nothing."""
    on("ldap1").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield
    on("ldap1").check_output("systemctl kill --signal=CONT dirsrv@gridstead")


@pytest.fixture
def second_frozen(on):
    """Stop the second supplier's process; yield a function that continues it."""

    def resume():
        on("ldap2").check_output("systemctl kill --signal=CONT dirsrv@gridstead")

    on("ldap2").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield resume
    resume()


def test_the_second_supplier_was_added_without_a_restart_of_the_first(on):
    now = on("ldap1").check_output(
        "systemctl show --property=InvocationID --value dirsrv@gridstead"
    )

    assert now == on("ldap1").file("/run/dirsrv-invocation").content_string


def test_the_second_supplier_has_the_users_of_the_first(uid):
    assert uid("ldap2", USER_OF_FIRST) == uid("ldap1", USER_OF_FIRST) == 200001


@pytest.mark.parametrize("server", SUPPLIERS)
def test_a_new_user_is_replicated_with_a_uid_from_the_range_of_its_supplier(add, uid, server):
    (other,) = {*SUPPLIERS} - {server}

    address = add(server)

    assert until(lambda: uid(other, address)) == uid(server, address)
    assert uid(server, address) in UID_RANGES[server]


def test_a_client_resolves_a_new_user_at_once(on, add):
    assert on("client").check_output(f"id --user {add('ldap1')}")


@pytest.mark.parametrize("how", ["first_frozen", "first_dead"])
def test_a_client_resolves_users_while_the_first_supplier_is_down(request, on, add, uid, how):
    """The client is connected to the first supplier and has not cached the user."""
    address = add("ldap1")
    until(lambda: uid("ldap2", address))
    on("client").check_output("systemctl reset-failed sssd && systemctl restart sssd")
    on("client").check_output(f"id --user {add('ldap1')}")
    request.getfixturevalue(how)

    assert on("client").run(f"timeout {LOOKUP_TIMEOUT_S} id --user {address}").rc == 0


def test_a_killed_supplier_sends_its_pending_changes_after_its_start(on, add, uid, second_frozen):
    """The first supplier is killed right after a change that the second could not receive."""
    address = add("ldap1")
    on("ldap1").check_output(f"{KILL} && systemctl start dirsrv@gridstead")

    second_frozen()

    assert until(lambda: uid("ldap2", address), seconds=90) in UID_RANGES["ldap1"]


def test_the_first_supplier_receives_the_changes_that_it_missed(on, add, uid):
    on("ldap1").check_output(KILL)

    address = add("ldap2")

    on("ldap1").check_output("systemctl start dirsrv@gridstead")
    assert until(lambda: uid("ldap1", address)) in UID_RANGES["ldap2"]


def test_the_replication_account_can_read_no_users(on):
    password = (SECRETS / "directory-replication").read_text().strip()
    account = f"-x -H ldaps://ldap1 -D uid=replication,cn=config -w {password}"

    search = f"ldapsearch {account} -LLL -b {SUFFIX} uid=0x* uid"
    result = on("ldap2").run(f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt {search}")

    assert (result.rc, result.stdout) == (0, "")


@pytest.mark.parametrize("server", SUPPLIERS)
def test_suppliers_use_only_tls(on, server):
    assert not on(server).socket("tcp://389").is_listening
    search = "-b 'cn=mapping tree,cn=config' '(nsDS5ReplicaHost=*)' nsDS5ReplicaTransportInfo"
    agreements = on(server).check_output(f"{MANAGER} {search}")
    assert "nsDS5ReplicaTransportInfo: LDAPS" in agreements
