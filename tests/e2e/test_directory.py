# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab's directory: access rules, and how soon hosts know a new user."""

import json
import secrets
from pathlib import Path

import pytest
from tests.e2e.conftest import wait_until

pytestmark = pytest.mark.hosts

SERVER = "infra"
HOSTS_WITH_USERS = ("controller", "login", "compute1", "compute2", "infra")
SUFFIX = "dc=gridstead,dc=internal"
PEOPLE = f"ou=people,{SUFFIX}"
MANAGER = ["-QY", "EXTERNAL", "-H", "ldapi://%2Frun%2Fslapd-gridstead.socket"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1nG2n0aXU0c0pGl5nWm3cO4m5yqj1lG8kq0m3o2c7P test"

# This program runs on the directory's host and performs one operation with one account. It prints
# "done", the entries of a search, or the name of the error.
OPERATION_PROGRAM = """
import json, sys
import ldap
task = json.loads(sys.argv[1])
connection = ldap.initialize(task["uri"])
connection.set_option(ldap.OPT_X_TLS_CACERTFILE, "/etc/gridstead/pki/ca.crt")
connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
def encoded(values):
    return [value.encode() for value in values]
def decoded(entry):
    return {name: [value.decode() for value in values] for name, values in entry.items()}
def attempt():
    if task["account"]:
        connection.simple_bind_s(task["account"], sys.stdin.read())
    match task["do"]:
        case ["add", dn, attributes]:
            connection.add_s(dn, [(name, encoded(values)) for name, values in attributes.items()])
        case ["modify", dn, how, name, values]:
            connection.modify_s(dn, [(getattr(ldap, how), name, encoded(values) or None)])
        case ["delete", dn]:
            connection.delete_s(dn)
        case ["rename", dn, rdn, parent]:
            connection.rename_s(dn, rdn, parent)
        case ["passwd", dn, password]:
            connection.passwd_s(dn, None, password)
        case ["search", base, filter, names]:
            found = connection.search_s(base, ldap.SCOPE_SUBTREE, filter, names)
            return [decoded(entry) for _, entry in found]
    return "done"
try:
    print(json.dumps(attempt()))
except ldap.LDAPError as error:
    print(json.dumps(type(error).__name__))
"""


class Account:
    """A service account of the directory, or anonymous access."""

    def __init__(self, lab, name, uri=f"ldaps://{SERVER}"):
        self._lab = lab
        self._uri = uri
        self._dn = f"uid={name},ou=services,{SUFFIX}" if name else ""
        self._password = ""
        if name:
            self._password = (Path(lab.secrets) / f"directory-{name}").read_text().strip()

    def perform(self, *action):
        """Return the directory's answer to an operation."""
        task = json.dumps({"uri": self._uri, "account": self._dn, "do": action})
        # A password on the command line would be visible to other users, so pass it on stdin.
        answer = self._lab.run(
            SERVER, "python3", "-c", OPERATION_PROGRAM, task, input=self._password
        )
        return json.loads(answer.stdout)


def user_attributes(address, **changed):
    """Return the attributes that the connector writes for a user. Arguments replace attributes.

    The value None removes an attribute.
    """
    classes = ["top", "nsPerson", "nsAccount", "nsOrgPerson", "posixAccount", "ldapPublicKey"]
    attributes = {
        "objectClass": classes,
        "uid": [address],
        "cn": [address],
        "displayName": [address],
        "gidNumber": ["100000"],
        "homeDirectory": [f"/home/ldap-users/{address}"],
        "loginShell": ["/bin/bash"],
        "sshPublicKey": [KEY],
    } | changed
    return {name: values for name, values in attributes.items() if values is not None}


def dn_of(address):
    return f"uid={address},{PEOPLE}"


@pytest.fixture
def connector(lab):
    return Account(lab, "connector")


@pytest.fixture
def sssd_account(lab):
    return Account(lab, "sssd")


@pytest.fixture
def address(lab):
    """Return the address of a new wallet, and remove the wallet's entry after the test."""
    new_address = f"0x{secrets.token_hex(20)}"
    yield new_address
    lab.run(SERVER, "ldapdelete", *MANAGER, dn_of(new_address), check=False)


@pytest.fixture
def known_address(connector, address):
    """Return the address of a wallet that has an entry."""
    assert connector.perform("add", dn_of(address), user_attributes(address)) == "done"
    return address


OTHER_ADDRESS = "0x" + "b" * 40
ACCOUNT_ATTRIBUTES = ("gidNumber", "homeDirectory", "loginShell")
# For each case the DN, or None for the DN of the wallet, and the attributes that differ from the
# attributes of a user. The value None removes an attribute.
OTHER_ENTRIES = {
    "root": ("uid=root,{people}", {"uid": ["root"], "homeDirectory": ["/root"]}),
    "a short name": (
        "uid=alice,{people}",
        {"uid": ["alice"], "homeDirectory": ["/home/ldap-users/alice"]},
    ),
    "a second name": (None, {"uid": ["{address}", "slurm"]}),
    "another wallet's name": (None, {"uid": ["{address}", OTHER_ADDRESS, "root"]}),
    "user number 0": (None, {"uidNumber": ["0"]}),
    "a user number in range": (None, {"uidNumber": ["300000"]}),
    "the user number that requests a new number": (None, {"uidNumber": ["-1"]}),
    "group root": (None, {"gidNumber": ["0"]}),
    "another group": (None, {"gidNumber": ["100001"]}),
    "home of root": (None, {"homeDirectory": ["/root"]}),
    "home elsewhere": (None, {"homeDirectory": ["/home/{address}"]}),
    "home of another name": (None, {"homeDirectory": ["/home/ldap-users/alice"]}),
    "a password": (None, {"userPassword": ["secret-of-mine"]}),
    "an access rule": (
        None,
        {"aci": ['(targetattr="*")(version 3.0; acl "x"; allow (all) userdn="ldap:///anyone";)']},
    ),
    "no account": (
        None,
        {"objectClass": ["nsPerson", "ldapPublicKey"], **dict.fromkeys(ACCOUNT_ATTRIBUTES)},
    ),
    "any attribute": (
        None,
        {"objectClass": ["nsPerson", "posixAccount", "ldapPublicKey", "extensibleObject"]},
    ),
    "a template for other entries": (
        None,
        {
            "objectClass": [
                "nsPerson",
                "posixAccount",
                "cosSuperDefinition",
                "cosPointerDefinition",
            ],
            "cosTemplateDn": ["{dn}"],
            "cosAttribute": ["homeDirectory override"],
            "sshPublicKey": None,
        },
    ),
    "the service branch": ("uid={address},ou=services,{suffix}", {}),
    "the group branch": ("uid={address},ou=groups,{suffix}", {}),
    "a branch of its own": (
        "ou=mine,{people}",
        {"objectClass": ["organizationalUnit"], "ou": ["mine"]},
    ),
    "the root of the directory": ("uid={address},{suffix}", {}),
    "below another user": ("uid={address},uid=0xabc,{people}", {}),
}


@pytest.mark.parametrize("case", OTHER_ENTRIES)
def test_connector_can_add_only_entries_of_users(connector, address, case):
    pattern, changed = OTHER_ENTRIES[case]
    texts = {"address": address, "people": PEOPLE, "suffix": SUFFIX, "dn": dn_of(address)}
    dn = (pattern or dn_of("{address}")).format(**texts)
    attributes = {}
    for key, values in changed.items():
        attributes[key] = None
        if values is not None:
            attributes[key] = [value.format(**texts) for value in values]

    answer = connector.perform("add", dn, user_attributes(address, **attributes))

    assert answer in {"INSUFFICIENT_ACCESS", "NO_SUCH_OBJECT"}, f"the directory answered {answer}"


ENTRY_CHANGES = {
    "user number": ("MOD_REPLACE", "uidNumber", ["0"]),
    "group": ("MOD_REPLACE", "gidNumber", ["0"]),
    "home": ("MOD_REPLACE", "homeDirectory", ["/root"]),
    "shell": ("MOD_REPLACE", "loginShell", ["/bin/sh"]),
    "key": ("MOD_REPLACE", "sshPublicKey", [KEY]),
    "second key": ("MOD_ADD", "sshPublicKey", [KEY + "2"]),
    "no key": ("MOD_DELETE", "sshPublicKey", []),
    "second name": ("MOD_ADD", "uid", ["root"]),
    "password": ("MOD_ADD", "userPassword", ["secret-of-mine"]),
    "access rule": (
        "MOD_ADD",
        "aci",
        ['(version 3.0; acl "x"; allow (all) userdn="ldap:///anyone";)'],
    ),
    "class": ("MOD_ADD", "objectClass", ["inetUser"]),
}


def test_connector_cannot_change_an_entry(connector, known_address):
    answers = {}
    for name, change in ENTRY_CHANGES.items():
        answers[name] = connector.perform("modify", dn_of(known_address), *change)

    assert set(answers.values()) == {"INSUFFICIENT_ACCESS"}, answers


def test_connector_cannot_remove_or_rename_an_entry(connector, known_address):
    assert connector.perform("delete", dn_of(known_address)) == "INSUFFICIENT_ACCESS"
    assert (
        connector.perform("rename", dn_of(known_address), f"uid={OTHER_ADDRESS}", PEOPLE)
        == "INSUFFICIENT_ACCESS"
    )
    assert (
        connector.perform("passwd", dn_of(known_address), "secret-of-mine") == "INSUFFICIENT_ACCESS"
    )


def test_connector_cannot_change_groups_accounts_or_the_server(connector):
    connector_dn = f"uid=connector,ou=services,{SUFFIX}"
    allow_all = '(targetattr="*")(version 3.0; acl "x"; allow (all) userdn="ldap:///anyone";)'
    operations = [
        ("modify", f"cn=grid-users,ou=groups,{SUFFIX}", "MOD_REPLACE", "gidNumber", ["0"]),
        ("modify", f"cn=grid-users,ou=groups,{SUFFIX}", "MOD_ADD", "member", [connector_dn]),
        ("modify", connector_dn, "MOD_REPLACE", "userPassword", ["secret-of-mine"]),
        ("passwd", connector_dn, "secret-of-mine"),
        ("passwd", f"uid=sssd,ou=services,{SUFFIX}", "secret-of-mine"),
        ("modify", PEOPLE, "MOD_ADD", "aci", [allow_all]),
        ("modify", SUFFIX, "MOD_ADD", "aci", [allow_all]),
        ("modify", "cn=config", "MOD_REPLACE", "nsslapd-require-secure-binds", ["off"]),
        ("delete", f"uid=sssd,ou=services,{SUFFIX}"),
        ("delete", PEOPLE),
    ]

    for operation in operations:
        assert connector.perform(*operation) == "INSUFFICIENT_ACCESS", operation


def test_sssd_account_cannot_write(sssd_account, address):
    assert (
        sssd_account.perform("add", dn_of(address), user_attributes(address))
        == "INSUFFICIENT_ACCESS"
    )
    assert (
        sssd_account.perform("modify", PEOPLE, "MOD_ADD", "description", ["mine"])
        == "INSUFFICIENT_ACCESS"
    )


def test_sssd_account_sees_no_service_account(sssd_account):
    assert sssd_account.perform("search", f"ou=services,{SUFFIX}", "(objectClass=*)", ["*"]) == []


def test_anonymous_access_is_refused(lab):
    assert (
        Account(lab, None).perform("search", SUFFIX, "(objectClass=*)", ["*"])
        == "INAPPROPRIATE_AUTH"
    )


def test_port_without_tls_is_closed(lab):
    anonymous = Account(lab, None, f"ldap://{SERVER}")
    assert anonymous.perform("search", SUFFIX, "(objectClass=*)", ["*"]) == "SERVER_DOWN"


def test_the_server_assigns_a_uid_number_to_a_new_user(connector, known_address):
    names = ["uidNumber", "gidNumber", "sshPublicKey"]
    (entry,) = connector.perform("search", PEOPLE, f"(uid={known_address})", names)

    assert 200001 <= int(entry["uidNumber"][0]) <= 999999
    assert entry["gidNumber"] == ["100000"]
    assert entry["sshPublicKey"] == [KEY]


def test_a_second_entry_of_a_wallet_is_refused(connector, known_address):
    upper_case = "0x" + known_address[2:].upper()

    assert (
        connector.perform("add", dn_of(known_address), user_attributes(known_address))
        == "ALREADY_EXISTS"
    )
    assert (
        connector.perform("add", dn_of(upper_case), user_attributes(upper_case)) == "ALREADY_EXISTS"
    )
    two_names = user_attributes(OTHER_ADDRESS, uid=[OTHER_ADDRESS, known_address])
    assert connector.perform("add", dn_of(OTHER_ADDRESS), two_names) == "CONSTRAINT_VIOLATION"


def test_every_host_knows_a_new_user_immediately(lab, known_address):
    answers = {}
    for host in HOSTS_WITH_USERS:
        result = lab.run(host, "getent", "passwd", known_address, check=False)
        answers[host] = result.stdout.strip()

    assert len(set(answers.values())) == 1, answers
    name, _, uid, gid, _, home, shell = answers["login"].split(":")
    assert (name, gid, home, shell) == (
        known_address,
        "100000",
        f"/home/ldap-users/{known_address}",
        "/bin/bash",
    )
    assert 200001 <= int(uid) <= 999999
    assert lab.run("login", "id", "-gn", known_address).stdout.strip() == "grid-users"


def test_a_host_soon_knows_a_user_that_it_looked_up_before_the_creation(lab, connector, address):
    assert lab.run("login", "getent", "passwd", address, check=False).returncode == 2

    connector.perform("add", dn_of(address), user_attributes(address))

    wait_until(
        lambda: lab.run("login", "getent", "passwd", address, check=False).returncode == 0,
        timeout=5,
    )


def test_sshd_receives_the_key_of_a_user(lab, known_address):
    assert lab.run("login", "sss_ssh_authorizedkeys", known_address).stdout.strip() == KEY


def test_only_root_can_read_the_directorys_password(lab):
    for host in HOSTS_WITH_USERS:
        result = lab.run(
            host, "runuser", "-u", "nobody", "--", "cat", "/etc/sssd/sssd.conf", check=False
        )
        assert result.returncode != 0


def test_the_server_writes_a_backup_while_it_runs(lab):
    folder = "/var/lib/dirsrv/slapd-gridstead/bak"
    backups_before = set(lab.run(SERVER, "ls", folder).stdout.split())

    lab.run(SERVER, "systemctl", "start", "gridstead-directory-backup.service")

    backups_after = set(lab.run(SERVER, "ls", folder).stdout.split())
    (backup,) = backups_after - backups_before
    owner = lab.run(SERVER, "stat", "--format=%U", f"{folder}/{backup}/data.mdb").stdout
    assert owner.strip() == "dirsrv"
