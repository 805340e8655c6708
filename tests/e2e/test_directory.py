# SPDX-License-Identifier: Apache-2.0
"""The directory of the running lab: access rules, and the delay until hosts know a new user."""

import json
import secrets
from pathlib import Path

import pytest
from tests.e2e.conftest import wait_until

pytestmark = pytest.mark.hosts

SERVER = "infra"
CLIENTS = ("controller", "login", "compute1", "compute2", "infra")
SUFFIX = "dc=gridstead,dc=internal"
PEOPLE = f"ou=people,{SUFFIX}"
MANAGER = ["-QY", "EXTERNAL", "-H", "ldapi://%2Frun%2Fslapd-gridstead.socket"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1nG2n0aXU0c0pGl5nWm3cO4m5yqj1lG8kq0m3o2c7P test"

# Runs on the directory's host. Performs one operation with one account and prints "done", the
# values of a search, or the error's name.
PROBE = """
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

    def do(self, *action):
        """Return the directory's answer to an operation."""
        task = json.dumps({"uri": self._uri, "account": self._dn, "do": action})
        # The password is passed by standard input, so that it is not on a command line.
        answer = self._lab.run(SERVER, "python3", "-c", PROBE, task, input=self._password)
        return json.loads(answer.stdout)


def user(address, **changed):
    """Return the attributes of a user that the connector writes, with changes. None removes an
    attribute.
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


def dn(address):
    return f"uid={address},{PEOPLE}"


@pytest.fixture
def connector(lab):
    return Account(lab, "connector")


@pytest.fixture
def reader(lab):
    return Account(lab, "sssd")


@pytest.fixture
def address(lab):
    """The address of a new wallet. The fixture removes the wallet's entry afterwards."""
    new_address = f"0x{secrets.token_hex(20)}"
    yield new_address
    lab.run(SERVER, "ldapdelete", *MANAGER, dn(new_address), check=False)


@pytest.fixture
def known(connector, address):
    """The address of a wallet with an entry."""
    assert connector.do("add", dn(address), user(address)) == "done"
    return address


ANOTHER = "0x" + "b" * 40
ACCOUNT_ONLY = ("gidNumber", "homeDirectory", "loginShell")
OTHER_ENTRIES = {
    "root": ("uid=root,{people}", {"uid": ["root"], "homeDirectory": ["/root"]}),
    "a short name": (
        "uid=alice,{people}",
        {"uid": ["alice"], "homeDirectory": ["/home/ldap-users/alice"]},
    ),
    "a second name": (None, {"uid": ["{address}", "slurm"]}),
    "another wallet's name": (None, {"uid": ["{address}", ANOTHER, "root"]}),
    "user number 0": (None, {"uidNumber": ["0"]}),
    "a user number in range": (None, {"uidNumber": ["300000"]}),
    "the number that asks for one": (None, {"uidNumber": ["-1"]}),
    "group root": (None, {"gidNumber": ["0"]}),
    "another group": (None, {"gidNumber": ["100001"]}),
    "home of root": (None, {"homeDirectory": ["/root"]}),
    "home elsewhere": (None, {"homeDirectory": ["/home/{address}"]}),
    "home of a name": (None, {"homeDirectory": ["/home/ldap-users/alice"]}),
    "a password": (None, {"userPassword": ["secret-of-mine"]}),
    "an access rule": (
        None,
        {"aci": ['(targetattr="*")(version 3.0; acl "x"; allow (all) userdn="ldap:///anyone";)']},
    ),
    "no account": (
        None,
        {"objectClass": ["nsPerson", "ldapPublicKey"], **dict.fromkeys(ACCOUNT_ONLY)},
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
    "the root": ("uid={address},{suffix}", {}),
    "below another user": ("uid={address},uid=0xabc,{people}", {}),
}


@pytest.mark.parametrize("case", OTHER_ENTRIES)
def test_connector_cannot_add_an_entry_with(connector, address, case):
    pattern, changed = OTHER_ENTRIES[case]
    words = {"address": address, "people": PEOPLE, "suffix": SUFFIX, "dn": dn(address)}
    name = (pattern or dn("{address}")).format(**words)
    attributes = {}
    for key, values in changed.items():
        attributes[key] = values and [value.format(**words) for value in values]

    answer = connector.do("add", name, user(address, **attributes))

    assert answer in {"INSUFFICIENT_ACCESS", "NO_SUCH_OBJECT"}, f"the directory answered {answer}"


CHANGES = {
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


def test_connector_cannot_change_an_entry(connector, known):
    answers = {name: connector.do("modify", dn(known), *change) for name, change in CHANGES.items()}

    assert dict.fromkeys(CHANGES, "INSUFFICIENT_ACCESS") == answers


def test_connector_cannot_remove_or_rename_an_entry(connector, known):
    assert connector.do("delete", dn(known)) == "INSUFFICIENT_ACCESS"
    assert connector.do("rename", dn(known), f"uid={ANOTHER}", PEOPLE) == "INSUFFICIENT_ACCESS"
    assert connector.do("passwd", dn(known), "secret-of-mine") == "INSUFFICIENT_ACCESS"


def test_connector_cannot_touch_groups_accounts_or_the_server(connector):
    itself = f"uid=connector,ou=services,{SUFFIX}"
    everything = '(targetattr="*")(version 3.0; acl "x"; allow (all) userdn="ldap:///anyone";)'
    refused = [
        ("modify", f"cn=grid-users,ou=groups,{SUFFIX}", "MOD_REPLACE", "gidNumber", ["0"]),
        ("modify", f"cn=grid-users,ou=groups,{SUFFIX}", "MOD_ADD", "member", [itself]),
        ("modify", itself, "MOD_REPLACE", "userPassword", ["secret-of-mine"]),
        ("passwd", itself, "secret-of-mine"),
        ("passwd", f"uid=sssd,ou=services,{SUFFIX}", "secret-of-mine"),
        ("modify", PEOPLE, "MOD_ADD", "aci", [everything]),
        ("modify", SUFFIX, "MOD_ADD", "aci", [everything]),
        ("modify", "cn=config", "MOD_REPLACE", "nsslapd-require-secure-binds", ["off"]),
        ("delete", f"uid=sssd,ou=services,{SUFFIX}"),
        ("delete", PEOPLE),
    ]

    answers = [connector.do(*action) for action in refused]

    assert ["INSUFFICIENT_ACCESS"] * len(refused) == answers


def test_reader_cannot_write(reader, address):
    assert reader.do("add", dn(address), user(address)) == "INSUFFICIENT_ACCESS"
    assert reader.do("modify", PEOPLE, "MOD_ADD", "description", ["mine"]) == "INSUFFICIENT_ACCESS"


def test_reader_sees_no_service_account(reader):
    assert reader.do("search", f"ou=services,{SUFFIX}", "(objectClass=*)", ["*"]) == []


def test_anonymous_access_is_refused(lab):
    assert Account(lab, None).do("search", SUFFIX, "(objectClass=*)", ["*"]) == "INAPPROPRIATE_AUTH"


def test_port_without_tls_is_closed(lab):
    anonymous = Account(lab, None, f"ldap://{SERVER}")
    assert anonymous.do("search", SUFFIX, "(objectClass=*)", ["*"]) == "SERVER_DOWN"


def test_the_server_assigns_a_uid_number_to_a_new_user(connector, known):
    names = ["uidNumber", "gidNumber", "sshPublicKey"]
    (entry,) = connector.do("search", PEOPLE, f"(uid={known})", names)

    assert 200001 <= int(entry["uidNumber"][0]) <= 999999
    assert (entry["gidNumber"], entry["sshPublicKey"]) == (["100000"], [KEY])


def test_a_second_entry_of_a_wallet_is_refused_in_any_case(connector, known):
    upper_case = "0x" + known[2:].upper()

    assert connector.do("add", dn(known), user(known)) == "ALREADY_EXISTS"
    assert connector.do("add", dn(upper_case), user(upper_case)) == "ALREADY_EXISTS"
    two_names = user(ANOTHER, uid=[ANOTHER, known])
    assert connector.do("add", dn(ANOTHER), two_names) == "CONSTRAINT_VIOLATION"


def test_every_host_knows_a_new_user_immediately(lab, known):
    answers = {
        host: lab.run(host, "getent", "passwd", known, check=False).stdout.strip()
        for host in CLIENTS
    }

    assert len(set(answers.values())) == 1, answers
    name, _, uid, gid, _, home, shell = answers["login"].split(":")
    assert (name, gid, home, shell) == (known, "100000", f"/home/ldap-users/{known}", "/bin/bash")
    assert 200001 <= int(uid) <= 999999
    assert lab.run("login", "id", "-gn", known).stdout.strip() == "grid-users"


def test_a_user_that_was_looked_up_too_early_is_known_soon(lab, connector, address):
    assert lab.run("login", "getent", "passwd", address, check=False).returncode == 2

    connector.do("add", dn(address), user(address))

    wait_until(
        lambda: lab.run("login", "getent", "passwd", address, check=False).returncode == 0,
        timeout=5,
    )


def test_key_of_a_user_reaches_sshd(lab, known):
    assert lab.run("login", "sss_ssh_authorizedkeys", known).stdout.strip() == KEY


def test_only_root_can_read_the_directorys_password(lab):
    for host in CLIENTS:
        answer = lab.run(
            host, "runuser", "-u", "nobody", "--", "cat", "/etc/sssd/sssd.conf", check=False
        )
        assert answer.returncode != 0


def test_the_server_writes_a_backup_while_it_runs(lab):
    folder = "/var/lib/dirsrv/slapd-gridstead/bak"
    before = set(lab.run(SERVER, "ls", folder).stdout.split())

    lab.run(SERVER, "systemctl", "start", "gridstead-directory-backup.service")

    (backup,) = set(lab.run(SERVER, "ls", folder).stdout.split()) - before
    owner = lab.run(SERVER, "stat", "--format=%U", f"{folder}/{backup}/data.mdb").stdout
    assert owner.strip() == "dirsrv"
