# SPDX-License-Identifier: Apache-2.0
"""What role control_plane writes is what the services read."""

import tomllib

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from hypothesis import given
from hypothesis import strategies as st
from tests.modules import load
from tests.roles.catalogue import ROOT, roles

from gridstead.config import SERVICES

ROLE = next(role for role in roles() if role.name == "control_plane")

ELSEWHERE = {"cvmfs"}  # role cvmfs writes its settings
RESULTS = ("environment", "secrets", "settings", "units", "ssh_keys", "known_hosts")

toml_filter = load(ROOT / "roles/control_plane/filter_plugins/toml.py")

PLAIN = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"])))
TABLES = st.recursive(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), PLAIN | st.lists(PLAIN)),
    lambda inner: st.dictionaries(st.text("abc-_. ü", min_size=1), inner | PLAIN),
)


def starting():
    """Return the task that starts the services."""
    (block,) = yaml.safe_load((ROLE.path / "tasks/service.yml").read_text())
    (task,) = (task for task in block["block"] if "ansible.builtin.systemd_service" in task)
    return task


@given(TABLES)
def test_a_dictionary_is_read_back_from_toml_as_it_was(table):
    assert tomllib.loads(toml_filter.to_toml(table)) == table


def test_what_toml_cannot_hold_is_refused():
    with pytest.raises(AnsibleFilterError):
        toml_filter.to_toml({"a": object()})


@pytest.mark.parametrize("service", sorted(set(SERVICES) - ELSEWHERE))
def test_the_settings_of_the_example_inventory_load(service, site):
    for host in site.hosts_of(ROLE):
        templar = site.templar(ROLE, host)
        given = templar.template(templar.available_variables["control_plane_settings"])[service]

        SERVICES[service].model_validate(tomllib.loads(toml_filter.to_toml(given)))


def test_only_the_unit_that_anybody_may_call_has_a_bound_on_memory(site):
    template = ROLE.path / "templates/etc/systemd/system/gridstead.service.j2"
    units = {}
    for name in SERVICES.keys() & {"job-definitions", "supervisor"}:
        templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
        known = templar.available_variables
        known |= {"__control_plane_item": name, "__control_plane_unit": known["__control_plane_units"][name]}
        units[name] = templar.template(trust_as_template(template.read_text()))

    assert "\nMemoryMax=2G\n" in units["job-definitions"]
    assert "MemoryMax" not in units["supervisor"]


@pytest.mark.parametrize(
    ("changed", "renewed", "state"),
    [
        (False, None, "started"),
        (False, [], "started"),
        (True, None, "restarted"),
        (False, ["logger"], "restarted"),
    ],
)
def test_services_restart_for_what_is_new_and_for_a_renewed_certificate(changed, renewed, state):
    task = starting()
    known = {f"__control_plane_{name}_result": {"changed": False} for name in RESULTS}
    known["__control_plane_settings_result"] = {"changed": changed}
    known["ansible_check_mode"] = False
    if renewed is not None:
        known["pki_renewed"] = renewed
    variables = {name: trust_as_template(value) for name, value in task["vars"].items()}
    templar = Templar(DataLoader(), known | variables)

    assert templar.template(trust_as_template(task["ansible.builtin.systemd_service"]["state"])) == state


@pytest.mark.parametrize(("check", "state"), [(True, "restarted"), (False, "started")])
def test_a_check_run_foresees_the_restart_for_files_from_which_the_environment_would_be_made(check, state):
    """A real run goes by the environment itself."""
    task = starting()
    known = {f"__control_plane_{name}_result": {"changed": False} for name in RESULTS}
    known |= {"ansible_check_mode": check, "__control_plane_files_result": {"changed": True}}
    variables = {name: trust_as_template(value) for name, value in task["vars"].items()}
    templar = Templar(DataLoader(), known | variables)

    assert templar.template(trust_as_template(task["ansible.builtin.systemd_service"]["state"])) == state
