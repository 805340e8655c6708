# SPDX-License-Identifier: Apache-2.0
"""Tests of role control_plane: the settings of services, and the reasons to restart services."""

import tomllib

import pytest
from ansible.errors import AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gridstead.site.plugins.filter import reads as reads_filter
from ansible_collections.gridstead.site.plugins.filter import toml as toml_filter
from hypothesis import given
from hypothesis import strategies as st
from tests.roles.catalogue import Role
from tests.roles.conftest import trust_templates
from tests.roles.content import tasks_with
from tests.yaml_files import read_yaml

from gridstead.config import SERVICE_SETTINGS

ROLE = Role("control_plane")

# Names in the variables __control_plane_NAME_result, on which a restart depends.
RESULTS = ("environment", "secrets", "settings", "units", "ssh_keys", "known_hosts", "files")
PLAIN_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])),
)
SERVICES = sorted(SERVICE_SETTINGS.keys() - {"benchmarks"})  # role benchmarks writes these settings
TABLES = st.recursive(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        PLAIN_VALUES | st.lists(PLAIN_VALUES),
    ),
    lambda inner: st.dictionaries(st.text("abc-_. ü", min_size=1), inner | PLAIN_VALUES),
)


def start_task():
    """Return the task that starts the services."""
    block, _ = read_yaml(ROLE.path / "tasks/service.yml")
    (task,) = tasks_with("gridstead.site.daemon", block["block"])
    return task


@given(TABLES)
def test_a_dictionary_written_as_toml_is_read_back_unchanged(table):
    assert tomllib.loads(toml_filter.to_toml(table)) == table


def test_a_value_without_a_toml_form_is_refused():
    with pytest.raises(AnsibleFilterError):
        toml_filter.to_toml({"a": object()})


@pytest.mark.parametrize("service", SERVICES)
def test_the_settings_of_the_example_inventory_are_valid(service, site):
    for host in site.hosts_of(ROLE):
        templar = site.templar(ROLE, host)
        settings = templar.template(templar.available_variables["control_plane_settings"])
        text = toml_filter.to_toml(settings[service])

        SERVICE_SETTINGS[service].model_validate(tomllib.loads(text))


def test_the_public_service_has_a_memory_limit_and_the_supervisor_has_none(site):
    template = ROLE.path / "templates/etc/systemd/system/gridstead.service.j2"
    units = {}
    for name in SERVICE_SETTINGS.keys() & {"job-definitions", "supervisor"}:
        templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
        variables = templar.available_variables
        variables["__control_plane_item"] = name
        variables["__control_plane_unit"] = variables["__control_plane_units"][name]
        units[name] = templar.template(trust_as_template(template.read_text()))

    assert "\nMemoryMax=2G\n" in units["job-definitions"]
    assert "MemoryMax" not in units["supervisor"]


@pytest.mark.parametrize(
    ("check_mode", "changed", "renewed", "restart"),
    [
        (False, set(), [], False),
        (False, {"settings"}, [], True),
        # In a real run, module daemon compares the times of these files.
        (False, {"files"}, ["logger"], False),
        (True, {"files"}, [], True),
        (True, set(), ["logger"], True),
    ],
)
def test_services_restart_for_new_files_and_check_mode_predicts_the_restart(
    check_mode, changed, renewed, restart
):
    task = start_task()
    variables = {"ansible_check_mode": check_mode, "pki_renewed": renewed}
    for name in RESULTS:
        variables[f"__control_plane_{name}_result"] = {"changed": name in changed}
    variables |= trust_templates(task["vars"])
    templar = Templar(DataLoader(), variables)

    assert templar.template(trust_as_template(task["gridstead.site.daemon"]["restart"])) is restart


def test_a_service_reads_its_credentials_and_the_files_of_its_settings():
    """The list contains neither the files that the service writes nor systemd's copies of the
    credentials, because these files are always newer than the start of the service.
    """
    settings = {
        "url": "/etc/not-a-file",
        "module_ca_file": None,
        "state_file": "/var/lib/gridstead/agent/state.db",
        "tls": {"key_file": "/run/credentials/a.service/tls.key", "ca_file": "/srv/ca.crt"},
    }

    paths = reads_filter.files_read(settings, {"tls.key": "/etc/pki/a.key", "again": "/srv/ca.crt"})

    assert paths == ["/etc/pki/a.key", "/srv/ca.crt"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_read_files_of_a_service_include_its_settings_ca_and_certificate(service, site):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    templar.available_variables["__control_plane_item"] = service
    reads = templar.template(trust_as_template("{{ __control_plane_read_files }}"))

    settings = templar.template(
        trust_as_template("{{ control_plane_settings[__control_plane_item] | to_json }}")
    )
    assert f"/etc/gridstead/{service}.toml" in reads
    assert all(path.startswith("/etc/") for path in reads)
    uses_ca = "/etc/gridstead/pki/ca.crt" in settings
    assert ("/etc/gridstead/pki/ca.crt" in reads) is uses_ca
    has_certificate = "certificate_file" in settings
    assert (f"/etc/gridstead/pki/{service}.crt" in reads) is has_certificate


def test_the_key_timer_restarts_if_its_unit_file_is_newer():
    tasks = read_yaml(ROLE.path / "tasks/authorized_keys.yml")

    (task,) = tasks_with("gridstead.site.daemon", tasks)
    assert task["gridstead.site.daemon"] == {
        "name": "gridstead-authorized-keys.timer",
        "reads": ["/etc/systemd/system/gridstead-authorized-keys.timer"],
        "more_units": ["gridstead-authorized-keys.service"],
    }
