# SPDX-License-Identifier: Apache-2.0
"""Two suppliers of a directory, and a host that knows its users whichever of them is there."""

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
# Halves of gridstead_wallet_uid_min to gridstead_wallet_uid_max.
SHARES = {"ldap1": range(200001, 600000), "ldap2": range(600000, 1000000)}
OF_BEFORE = "0x" + 40 * "1"
# A client that waits that long for a directory waits for ever; docs/howto/directory.md tells how
# long it does wait.
FOR_EVER_S = 30
KILL = "systemctl kill --signal=KILL dirsrv@gridstead && systemctl stop dirsrv@gridstead"


def until(probe, *, seconds=60):
    """Return the first true answer."""
    end = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < end, "no answer in time"
        time.sleep(0.5)
    return found


@pytest.fixture
def add(on):
    """Return a function that makes a user as the connector does, on a supplier, and returns its
    name.
    """
    password = (SECRETS / "directory-connector").read_text().strip()

    def made(server):
        address = f"0x{secrets.token_hex(20)}"
        classes = "".join(
            f"objectClass: {one}\n"
            for one in ("nsPerson", "nsAccount", "nsOrgPerson", "posixAccount")
        )
        entry = (
            f"dn: uid={address},ou=people,{SUFFIX}\n{classes}uid: {address}\ncn: {address}\ndisplayName: {address}\n"
            f"gidNumber: 100000\nhomeDirectory: /home/ldap-users/{address}\n"
        )
        account = f"-x -H ldaps://{server} -D uid=connector,ou=services,{SUFFIX} -w {password}"
        on(server).check_output(
            f"printf '{entry}' | LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt ldapadd {account}"
        )
        return address

    return made


@pytest.fixture
def number(on):
    """Return a function that tells the number a user has on a supplier, 0 if it is not there."""

    def told(server, address):
        text = on(server).check_output(f"{MANAGER} -b ou=people,{SUFFIX} uid={address} uidNumber")
        return int(text.partition("uidNumber: ")[2] or 0)

    return told


@pytest.fixture
def first_dead(on):
    """The first supplier was killed and stays away; afterwards it is back."""
    on("ldap1").check_output(KILL)
    yield
    on("ldap1").check_output("systemctl start dirsrv@gridstead")


@pytest.fixture
def first_frozen(on):
    """The first supplier takes connections and says nothing; afterwards it is back."""
    on("ldap1").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield
    on("ldap1").check_output("systemctl kill --signal=CONT dirsrv@gridstead")


@pytest.fixture
def second_frozen(on):
    """The second supplier takes no change until the returned function is called."""

    def back():
        on("ldap2").check_output("systemctl kill --signal=CONT dirsrv@gridstead")

    on("ldap2").check_output("systemctl kill --signal=STOP dirsrv@gridstead")
    yield back
    back()


def test_the_second_came_without_a_restart_of_the_first(on):
    now = on("ldap1").check_output(
        "systemctl show --property=InvocationID --value dirsrv@gridstead"
    )

    assert now == on("ldap1").file("/run/dirsrv-invocation").content_string


def test_the_second_has_whom_the_first_had(number):
    assert number("ldap2", OF_BEFORE) == number("ldap1", OF_BEFORE) == 200001


@pytest.mark.parametrize("server", SUPPLIERS)
def test_a_user_made_on_one_supplier_is_on_the_other_with_a_number_of_its_own_share(
    add, number, server
):
    (other,) = {*SUPPLIERS} - {server}

    address = add(server)

    assert until(lambda: number(other, address)) == number(server, address)
    assert number(server, address) in SHARES[server]


def test_a_new_user_is_known_at_once(on, add):
    assert on("client").check_output(f"id --user {add('ldap1')}")


@pytest.mark.parametrize("how", ["first_frozen", "first_dead"])
def test_a_dead_first_supplier_keeps_nobody_waiting(request, on, add, number, how):
    """The user is one that the client never asked for, while it is connected to the first."""
    address = add("ldap1")
    until(lambda: number("ldap2", address))
    on("client").check_output("systemctl reset-failed sssd && systemctl restart sssd")
    on("client").check_output(f"id --user {add('ldap1')}")
    request.getfixturevalue(how)

    assert on("client").run(f"timeout {FOR_EVER_S} id --user {address}").rc == 0


def test_what_a_supplier_had_not_sent_when_it_was_killed_comes_to_the_other(
    on, add, number, second_frozen
):
    """It is killed at once after its change, which the other could not take."""
    address = add("ldap1")
    on("ldap1").check_output(f"{KILL} && systemctl start dirsrv@gridstead")

    second_frozen()

    assert until(lambda: number("ldap2", address), seconds=90) in SHARES["ldap1"]


def test_what_the_second_got_meanwhile_comes_to_the_first(on, add, number):
    on("ldap1").check_output(KILL)

    address = add("ldap2")

    on("ldap1").check_output("systemctl start dirsrv@gridstead")
    assert until(lambda: number("ldap1", address)) in SHARES["ldap2"]


def test_nobody_but_the_other_supplier_brings_changes(on):
    """The account is for replication alone; it reads nothing."""
    password = (SECRETS / "directory-replication").read_text().strip()
    account = f"-x -H ldaps://ldap1 -D uid=replication,cn=config -w {password}"

    found = on("ldap2").run(
        f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt ldapsearch {account} -LLL -b {SUFFIX} uid=0x* uid"
    )

    assert (found.rc, found.stdout) == (0, "")


@pytest.mark.parametrize("server", SUPPLIERS)
def test_suppliers_speak_tls_alone(on, server):
    assert not on(server).socket("tcp://389").is_listening
    found = on(server).check_output(
        f"{MANAGER} -b 'cn=mapping tree,cn=config' '(nsDS5ReplicaHost=*)' nsDS5ReplicaTransportInfo"
    )
    assert "nsDS5ReplicaTransportInfo: LDAPS" in found
