# SPDX-License-Identifier: Apache-2.0
"""Tests of a site with two suppliers. A supplier is an LDAP server that replicates its changes.

Clients must resolve users while a supplier is down.
"""

import os
import secrets
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
SECRETS = CHECKOUT / ".lab" / os.environ["GRIDSTEAD_LAB_NAME"] / "secrets"
SUFFIX = "dc=gridstead,dc=internal"
SEARCH_AS_MANAGER = (
    "ldapsearch -QY EXTERNAL -LLL -o ldif_wrap=no -H ldapi://%2Frun%2Fslapd-gridstead.socket"
)
SUPPLIERS = ("ldap1", "ldap2")
# Each supplier assigns uids from its half of the range gridstead_wallet_uid_min to
# gridstead_wallet_uid_max.
UID_RANGES = {"ldap1": range(200001, 600000), "ldap2": range(600000, 1000000)}
USER_OF_FIRST = "0x" + 40 * "1"
# The time limit of a lookup while one supplier is down. The usual time is in
# docs/howto/directory.md.
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
KILL_SERVER = "systemctl kill --signal=KILL dirsrv@gridstead && systemctl stop dirsrv@gridstead"


def wait_for_value(probe, *, seconds=60):
    """Call a probe until it returns a true value. Return the value, or fail after a timeout."""
    end = time.monotonic() + seconds
    value = probe()
    while not value:
        assert time.monotonic() < end, f"no true value within {seconds} s"
        time.sleep(0.5)
        value = probe()
    return value


@pytest.fixture
def add_user_on(get_host):
    """Return a function that adds a user on a supplier and returns the user's name.

    The function logs in with the account of the ldap-connector service.
    """
    password = (SECRETS / "directory-connector").read_text().strip()

    def add_user(server):
        address = f"0x{secrets.token_hex(20)}"
        entry = ENTRY.format(address=address, suffix=SUFFIX)
        account = f"-x -H ldaps://{server} -D uid=connector,ou=services,{SUFFIX} -w {password}"
        get_host(server).check_output(
            f"printf '{entry}' | LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt ldapadd {account}"
        )
        return address

    return add_user


@pytest.fixture
def read_uid_on(get_host):
    """Return a function that returns the uid of a user on a supplier, or 0 for an unknown user."""

    def read_uid(server, address):
        text = get_host(server).check_output(
            f"{SEARCH_AS_MANAGER} -b ou=people,{SUFFIX} uid={address} uidNumber"
        )
        return int(text.partition("uidNumber: ")[2] or 0)

    return read_uid


@pytest.fixture
def kill_first_supplier(get_host):
    """Kill the first supplier, and start it after the test."""
    get_host("ldap1").check_output(KILL_SERVER)
    yield
    get_host("ldap1").check_output("systemctl start dirsrv@gridstead")


@pytest.fixture
def freeze_first_supplier(get_host):
    """Suspend the first supplier's process until the end of the test.

    The suspended supplier accepts connections but does not answer.
    """
    get_host("ldap1").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield
    get_host("ldap1").check_output("systemctl kill --signal=CONT dirsrv@gridstead")


@pytest.fixture
def resume_second_supplier(get_host):
    """Suspend the second supplier's process, and yield a function that resumes it."""

    def resume():
        get_host("ldap2").check_output("systemctl kill --signal=CONT dirsrv@gridstead")

    get_host("ldap2").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield resume
    resume()


def test_the_first_supplier_did_not_restart_when_the_second_was_added(get_host):
    invocation_id = get_host("ldap1").check_output(
        "systemctl show --property=InvocationID --value dirsrv@gridstead"
    )

    assert invocation_id == get_host("ldap1").file("/run/dirsrv-invocation").content_string


def test_the_second_supplier_has_the_user_of_the_first_supplier(read_uid_on):
    assert read_uid_on("ldap1", USER_OF_FIRST) == 200001
    assert read_uid_on("ldap2", USER_OF_FIRST) == 200001


@pytest.mark.parametrize("server", SUPPLIERS)
def test_a_new_user_is_replicated_with_a_uid_from_the_range_of_its_supplier(
    add_user_on, read_uid_on, server
):
    (other_server,) = {*SUPPLIERS} - {server}

    address = add_user_on(server)

    assert wait_for_value(lambda: read_uid_on(other_server, address)) == read_uid_on(
        server, address
    )
    assert read_uid_on(server, address) in UID_RANGES[server]


def test_a_client_resolves_a_new_user_immediately(get_host, add_user_on):
    assert get_host("client").check_output(f"id --user {add_user_on('ldap1')}")


@pytest.mark.parametrize("failure", ["freeze_first_supplier", "kill_first_supplier"])
def test_a_client_resolves_users_while_the_first_supplier_is_down(
    request, get_host, add_user_on, read_uid_on, failure
):
    """The client is connected to the first supplier and has not cached the user."""
    address = add_user_on("ldap1")
    wait_for_value(lambda: read_uid_on("ldap2", address))
    get_host("client").check_output("systemctl reset-failed sssd && systemctl restart sssd")
    get_host("client").check_output(f"id --user {add_user_on('ldap1')}")
    request.getfixturevalue(failure)

    assert get_host("client").run(f"timeout {LOOKUP_TIMEOUT_S} id --user {address}").rc == 0


def test_a_killed_supplier_sends_its_pending_changes_after_its_start(
    get_host, add_user_on, read_uid_on, resume_second_supplier
):
    """The first supplier is killed after a change that the second supplier has not received."""
    address = add_user_on("ldap1")
    get_host("ldap1").check_output(f"{KILL_SERVER} && systemctl start dirsrv@gridstead")

    resume_second_supplier()

    assert wait_for_value(lambda: read_uid_on("ldap2", address), seconds=90) in UID_RANGES["ldap1"]


def test_the_first_supplier_receives_the_changes_that_it_missed(get_host, add_user_on, read_uid_on):
    get_host("ldap1").check_output(KILL_SERVER)

    address = add_user_on("ldap2")

    get_host("ldap1").check_output("systemctl start dirsrv@gridstead")
    assert wait_for_value(lambda: read_uid_on("ldap1", address)) in UID_RANGES["ldap2"]


def test_the_replication_account_can_read_no_users(get_host):
    password = (SECRETS / "directory-replication").read_text().strip()
    account = f"-x -H ldaps://ldap1 -D uid=replication,cn=config -w {password}"

    search = f"ldapsearch {account} -LLL -b {SUFFIX} uid=0x* uid"
    result = get_host("ldap2").run(f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt {search}")

    assert result.rc == 0
    assert result.stdout == ""


@pytest.mark.parametrize("server", SUPPLIERS)
def test_suppliers_do_not_communicate_without_tls(get_host, server):
    assert not get_host(server).socket("tcp://389").is_listening
    search = "-b 'cn=mapping tree,cn=config' '(nsDS5ReplicaHost=*)' nsDS5ReplicaTransportInfo"
    agreements = get_host(server).check_output(f"{SEARCH_AS_MANAGER} {search}")
    assert "nsDS5ReplicaTransportInfo: LDAPS" in agreements
