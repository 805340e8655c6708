# SPDX-License-Identifier: Apache-2.0
"""The Ansible modules of role directory: directory_entries and directory_instance.

Before a module changes a setting that needs a restart of the LDAP server, the module creates the
pending-changes file. A handler restarts the server and removes the file. If a run is killed before
the handler, the next run finds the file and restarts the server.
"""

import re
import types
from pathlib import Path

import pytest
from ansible_collections.gridstead.site.plugins.modules import directory_entries as entries
from ansible_collections.gridstead.site.plugins.modules import directory_instance as instance


class FakeDirectory:
    """A directory in memory that stores entries and counts the writes."""

    def __init__(self, **tree):
        self.tree = {dn: dict(attributes) for dn, attributes in tree.items()}
        self.passwords = {}
        self.writes = 0

    def read(self, dn, names):
        if dn not in self.tree:
            return None
        requested_names = {name.lower() for name in [*names, "objectClass"]}
        attributes = {name.lower(): values for name, values in self.tree[dn].items()}
        return {name: values for name, values in attributes.items() if name in requested_names}

    def add(self, dn, attributes):
        self.writes += 1
        stored_attributes = {name: values for name, values in attributes.items() if values}
        self.passwords[dn] = stored_attributes.pop("userPassword", [])
        self.tree[dn] = stored_attributes

    def modify(self, dn, changes):
        self.writes += 1
        for how, name, values in changes:
            if name == "userPassword":
                old_passwords = self.passwords.get(dn, [])
                self.passwords[dn] = [*old_passwords, *values] if how == "add" else values
            else:
                old_values = self.tree[dn].get(name, [])
                self.tree[dn][name] = [*old_values, *values] if how == "add" else values

    def accepts(self, dn, password):
        return password in self.passwords.get(dn, [])

    def password_count(self, dn):
        return len(self.passwords.get(dn, []))


def entry(dn, *, initial=None, password=None, keep=False, **attributes):
    """Return the arguments of module directory_entries for an entry.

    The module writes ``initial`` only when it adds the entry.
    """
    return {
        "dn": dn,
        "attributes": attributes,
        "initial": initial or {},
        "password": password,
        "keep_passwords": keep,
    }


def ensure(directory, desired, *, check_mode=False):
    return entries.ensure(directory, desired, check_mode=check_mode)


def test_a_missing_entry_is_added_with_its_initial_values_and_password():
    directory = FakeDirectory()

    desired_entry = entry(
        "cn=x", initial={"next": 1}, password="pass", objectClass=["top"], size=-1
    )

    changes = ensure(directory, desired_entry)

    assert changes == ["cn=x"]
    assert directory.tree == {"cn=x": {"objectClass": ["top"], "size": ["-1"], "next": ["1"]}}
    assert directory.accepts("cn=x", "pass")


def test_a_second_run_changes_nothing():
    desired = entry(
        "cn=x", password="pass", objectClass=["top", "person"], aci=["b", "a"], size=-1, absent=[]
    )
    directory = FakeDirectory()
    ensure(directory, desired)

    assert ensure(directory, desired) == []
    assert directory.writes == 1


def test_check_mode_writes_nothing_and_reports_the_changes():
    directory = FakeDirectory(**{"cn=old": {"size": ["1"]}})

    assert ensure(directory, entry("cn=new", size=1), check_mode=True) == ["cn=new"]
    assert ensure(directory, entry("cn=old", size=2, password="pass"), check_mode=True) == [
        "cn=old: size",
        "cn=old: userPassword",
    ]
    assert directory.writes == 0


def test_initial_values_are_not_written_to_an_existing_entry():
    directory = FakeDirectory(**{"cn=x": {"next": ["17"]}})

    assert ensure(directory, entry("cn=x", initial={"next": 1})) == []


def test_a_password_is_replaced_only_if_the_login_fails():
    directory = FakeDirectory(**{"cn=x": {}})
    directory.passwords["cn=x"] = ["old"]

    assert ensure(directory, entry("cn=x", password="old")) == []
    assert ensure(directory, entry("cn=x", password="new")) == ["cn=x: userPassword"]
    assert directory.passwords["cn=x"] == ["new"]


def test_an_old_password_is_removed_unless_the_entry_keeps_it():
    directory = FakeDirectory(**{"cn=x": {}})
    directory.passwords["cn=x"] = ["old"]

    assert ensure(directory, entry("cn=x", password="new", keep=True)) == ["cn=x: userPassword"]
    assert ensure(directory, entry("cn=x", password="new", keep=True)) == []
    assert directory.passwords["cn=x"] == ["old", "new"]

    assert ensure(directory, entry("cn=x", password="new")) == ["cn=x: userPassword"]
    assert ensure(directory, entry("cn=x", password="new")) == []
    assert directory.passwords["cn=x"] == ["new"]


def test_the_reported_changes_contain_no_attribute_values():
    directory = FakeDirectory(**{"cn=x": {"size": ["1"]}})

    changes = ensure(directory, entry("cn=x", size=4711, password="hunter2hunter2"))

    assert "4711" not in str(changes)
    assert "hunter2" not in str(changes)


@pytest.mark.parametrize(
    ("current", "desired", "planned"),
    [
        ({}, {"a": ["1"]}, [("replace", "a", ["1"])]),
        ({"a": ["1"]}, {"A": ["1"]}, []),
        ({"a": ["2", "1"]}, {"a": ["1", "2"]}, []),
        ({"a": ["1", "2"]}, {"a": ["1"]}, [("replace", "a", ["1"])]),
        ({"a": ["1"]}, {"a": []}, [("replace", "a", [])]),
        ({}, {"a": []}, []),
        ({"a": ["ON"]}, {"a": ["on"]}, [("replace", "a", ["on"])]),
        ({"a": ["1"], "b": ["2"]}, {"b": ["3"]}, [("replace", "b", ["3"])]),
    ],
)
def test_an_attribute_gets_exactly_the_desired_values(current, desired, planned):
    assert entries.plan_modifications(current, desired) == planned


def test_missing_object_classes_are_added():
    current_attributes = {"objectclass": ["TOP", "nsContainer", "extensibleObject"]}

    assert (
        entries.plan_modifications(current_attributes, {"objectClass": ["top", "nscontainer"]})
        == []
    )
    assert entries.plan_modifications(current_attributes, {"objectClass": ["top", "person"]}) == [
        ("add", "objectClass", ["person"])
    ]


def test_a_schema_definition_is_identified_by_its_oid():
    current = {
        "attributetypes": [
            "( 1.2.3 NAME 'mine' DESC 'as the server words it' X-ORIGIN 'user defined' )"
        ]
    }

    assert entries.plan_modifications(current, {"attributeTypes": ["( 1.2.3 NAME 'mine' )"]}) == []
    assert entries.plan_modifications(current, {"attributeTypes": ["( 1.2.30 NAME 'yours' )"]}) == [
        ("add", "attributeTypes", ["( 1.2.30 NAME 'yours' )"])
    ]


def test_the_first_certificate_is_read_without_line_breaks():
    pem = "subject=x\r\n-----BEGIN CERTIFICATE-----\r\nAAA\r\nBBB=\r\n-----END CERTIFICATE-----\r\n"
    other_pem = pem.replace("AAA", "CCC")
    chain = f"-----BEGIN CERTIFICATE-----\nAAABBB=\n-----END CERTIFICATE-----\n{other_pem}"

    assert instance.first_certificate(pem) == "AAABBB="
    assert instance.first_certificate(chain) == "AAABBB="
    assert instance.first_certificate("certutil: Could not find cert: Server-Cert") == ""


class FakeConnection:
    """An LDAP connection that fails at each write."""

    def add_s(self, *_):
        raise ConnectionError

    modify_s = add_s


@pytest.mark.parametrize(
    "change", [("add", "cn=x", {"size": ["1"]}), ("modify", "cn=x", [("replace", "size", ["1"])])]
)
def test_the_pending_changes_file_is_created_before_the_change(tmp_path, monkeypatch, change):
    """If a run is killed during the change, the next run needs the file to restart the server."""
    method, *arguments = change
    monkeypatch.setattr(entries.Directory, "__init__", lambda *_: None)
    directory = entries.Directory("ldapi://")
    directory._connection = FakeConnection()
    directory._pending_changes_file = tmp_path / "var/pending"
    monkeypatch.setattr(entries, "ldap", types.SimpleNamespace(MOD_ADD=0, MOD_REPLACE=2))

    with pytest.raises(ConnectionError):
        getattr(directory, method)(*arguments)

    assert (tmp_path / "var/pending").exists()


class FakeModule:
    """A fake AnsibleModule with a fake certutil. Records all other commands, but runs none.

    ``change_was_pending`` is whether the pending-changes file existed during the last recorded
    command.
    """

    def __init__(self, tmp_path, *, check_mode=False):
        self.check_mode = check_mode
        self.certificates = {}
        self.calls = []
        self.dscreate_inputs = []
        self.change_was_pending = False
        self.params = {
            "name": "t",
            "hostname": "h",
            "suffix": "dc=t",
            "pending_changes_file": str(tmp_path / "var/pending"),
            "certificate": str(tmp_path / "a.crt"),
            "certificate_key": str(tmp_path / "a.key"),
            "ca_certificate": str(tmp_path / "ca.crt"),
        }

    def run_command(self, command, *, check_rc=False):
        if command[:2] == ["certutil", "-L"]:
            nickname = command[command.index("-n") + 1]
            return 0, self.certificates.get(nickname, ""), ""
        self.calls.append(command[:2])
        if command[0] == "dscreate":
            self.dscreate_inputs.append(Path(command[-1]).read_text())
        self.change_was_pending = Path(self.params["pending_changes_file"]).exists()
        return 0, "", ""


def write_certificate(path, body):
    Path(path).write_text(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")


@pytest.fixture
def settings(tmp_path):
    """Return the path of the server's settings file dse.ldif, which sets the opt-level to 0."""
    path = tmp_path / "etc/slapd-t/dse.ldif"
    path.parent.mkdir(parents=True)
    path.write_text("cn: config\nnsslapd-backend-opt-level: 0\nnsslapd-backend-implement: mdb\n")
    return path


@pytest.fixture
def module(tmp_path, settings, monkeypatch):
    """A fake module whose parameters name two certificate files."""
    monkeypatch.setattr(instance, "CONFIGURATION", settings.parents[1])
    fake = FakeModule(tmp_path)
    write_certificate(fake.params["certificate"], "AAA")
    write_certificate(fake.params["ca_certificate"], "BBB")
    return fake


@pytest.fixture
def existing_instance(module):
    """An instance of the LDAP server whose settings file dse.ldif exists."""
    return instance.Instance(module)


def test_a_new_instance_is_created_with_its_certificates(module, monkeypatch):
    monkeypatch.setattr(instance.Instance, "exists", lambda self: False)

    changes = instance.ensure(instance.Instance(module), module)

    assert changes == ["instance", "authority", "certificate"]
    assert module.calls[0] == ["dscreate", "from-file"]


def test_an_instance_that_has_the_certificates_of_the_files_is_not_changed(
    existing_instance, module
):
    module.certificates = {
        instance.SERVER_NICKNAME: Path(module.params["certificate"]).read_text(),
        instance.CA_NICKNAME: Path(module.params["ca_certificate"]).read_text(),
    }

    assert instance.ensure(existing_instance, module) == []
    assert module.calls == []
    assert not Path(module.params["pending_changes_file"]).exists()


def test_a_renewed_certificate_is_imported(existing_instance, module):
    module.certificates = {
        instance.SERVER_NICKNAME: "-----BEGIN CERTIFICATE-----\nOLD\n-----END CERTIFICATE-----",
        instance.CA_NICKNAME: Path(module.params["ca_certificate"]).read_text(),
    }

    assert instance.ensure(existing_instance, module) == ["certificate"]
    assert module.calls == [["dsctl", "t"]]
    assert module.change_was_pending


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_server_with_an_unsafe_opt_level_must_be_restarted(
    existing_instance, module, settings, check_mode
):
    """If the opt-level is not 0, a killed server forgets which changes it has received."""
    module.check_mode = check_mode
    module.certificates = {
        instance.SERVER_NICKNAME: Path(module.params["certificate"]).read_text(),
        instance.CA_NICKNAME: Path(module.params["ca_certificate"]).read_text(),
    }
    settings.write_text("cn: config\nnsslapd-backend-opt-level: 1\n")

    changes = instance.ensure(existing_instance, module)

    assert changes == ["start"]  # only a start of the unit changes the setting
    is_pending = Path(module.params["pending_changes_file"]).exists()
    assert is_pending == (not check_mode)


def test_check_mode_creates_no_instance(module, settings):
    settings.unlink()
    module.check_mode = True

    assert instance.ensure(instance.Instance(module), module) == ["instance"]
    assert module.calls == []


def test_each_instance_gets_a_new_password_of_the_directory_manager(existing_instance, module):
    for _ in range(2):
        existing_instance.create()

    first_input, second_input = module.dscreate_inputs
    assert root_password(first_input) != root_password(second_input)


def root_password(dscreate_input):
    """Return the password of the directory manager in an input file of dscreate."""
    return re.search(r"^root_password = (\S{32,})$", dscreate_input, re.MULTILINE)[1]
