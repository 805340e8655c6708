# SPDX-License-Identifier: Apache-2.0
"""playbooks/verify.yml on two hosts that are this machine, and on an unreachable host.

No role was applied to this machine, so checks fail.
"""

import json
import re
import subprocess

import pytest
import yaml
from tests.roles.catalogue import ROOT, Role, roles
from tests.roles.conftest import trust_templates
from tests.yaml_files import read_yaml

HOSTS = ("ash", "birch")
COMMAND_KEYS = {"what", "argv", "expect", "refuse", "wait_s", "who", "hint"}
VERIFIED_ROLES = [role for role in roles() if (role.path / "tasks/verify.yml").exists()]


def first_task(role):
    """Return the first task of a role's verification."""
    return trust_templates(read_yaml(role.path / "tasks/verify.yml"))[0]


INSPECTED_ROLES = [
    role for role in VERIFIED_ROLES if "gridstead.site.inspection" in first_task(role)
]


@pytest.fixture(scope="module")
def verification(tmp_path_factory):
    """Return the result of ansible-playbook, and the report of the playbook."""
    folder = tmp_path_factory.mktemp("site")
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "pki_renew_before_days": 60,
        "pki_certificates": [],
        "base_hosts": [
            {"name": "ash", "address": "192.0.2.1"},
            {"name": "birch", "address": "192.0.2.1"},
        ],
    }
    unreachable = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = dict.fromkeys(HOSTS) | {"cedar": unreachable}
    inventory = folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}))
    report = folder / "report.json"
    argv = [
        "ansible-playbook",
        "--inventory",
        inventory,
        "playbooks/verify.yml",
        "-e",
        f"site_report_file={report}",
    ]
    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    return result, json.loads(report.read_text())


def test_the_output_of_a_failed_verification_names_the_faults_and_who_must_act(verification):
    result, _ = verification

    assert result.returncode != 0
    assert "birch, base: the host is birch: hostname does not print" in result.stdout
    assert "operator must act" in result.stdout


def test_verification_continues_with_all_roles_and_hosts_after_a_fault(verification):
    _, report = verification

    for name in HOSTS:
        assert list(report["hosts"][name]) == ["base", "pki"]
    assert {(finding["host"], finding["role"]) for finding in report["findings"]} == {
        ("ash", "base"),
        ("ash", "pki"),
        ("birch", "base"),
        ("birch", "pki"),
        ("cedar", "host"),
    }


def test_an_unreachable_host_is_reported(verification):
    _, report = verification

    assert [finding["what"] for finding in report["findings"] if finding["host"] == "cedar"] == [
        "Ansible can connect to the host"
    ]


def test_the_report_counts_the_checks(verification):
    result, report = verification

    count = 0
    for checks_by_role in report["hosts"].values():
        for checks in checks_by_role.values():
            count += len(checks)
    assert report["looked_at"] == count
    assert f"{len(report['findings'])} of {report['looked_at']} checks failed" in result.stdout


def test_every_role_with_a_verification_is_verified():
    tasks = read_yaml(ROOT / "playbooks/tasks/verify_host.yml")

    assert sorted(task["vars"]["__verify_role"] for task in tasks) == [
        role.name for role in VERIFIED_ROLES
    ]


def test_every_role_registers_its_result_under_the_name_that_the_report_reads():
    """The report finds results by their variable names."""
    for role in VERIFIED_ROLES:
        tasks = (role.path / "tasks/verify.yml").read_text()
        assert f"register: __{role.name}_verify_result\n" in tasks


@pytest.mark.parametrize("role", INSPECTED_ROLES, ids=lambda role: role.name)
def test_the_checks_of_every_role_are_valid_on_every_host(role, site_of):
    task = first_task(role)
    site = site_of(role)
    for host in site.hosts_of(role):
        templar = site.templar(role, host)
        templar.available_variables |= task.get("vars", {}) | {
            "ansible_search_path": [str(role.path)]
        }
        inspection = templar.template(task["gridstead.site.inspection"])

        assert all(isinstance(checks, list) for checks in inspection.values())
        for command in inspection.get("commands", []):
            assert command.keys() <= COMMAND_KEYS
            for pattern in command.get("expect", []) + command.get("refuse", []):
                re.compile(pattern)
        for unit in inspection.get("units", []):
            assert re.fullmatch(r"[a-z@-]+\.(path|service|timer)", unit)


@pytest.mark.parametrize(
    ("components", "units"),
    [(["login"], ["sackd.service"]), (["compute", "login"], ["slurmd.service"])],
)
def test_sackd_is_verified_on_a_login_host_without_slurmd(components, units, site):
    role = Role("slurm")
    task = first_task(role)
    templar = site.templar(role, "login")
    templar.available_variables |= task["vars"] | {"slurm_components": components}

    assert templar.template(task["gridstead.site.inspection"]["units"]) == units


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ({}, [40]),
        ({"HealthCheckInterval": 120}, [130]),
        ({"HealthCheckInterval": 0}, []),
        ({"HealthCheckInterval": "omit"}, []),
        ({"HealthCheckProgram": "omit"}, []),
        ({"HealthCheckProgram": "/usr/sbin/nhc"}, []),
    ],
)
def test_the_last_health_check_is_verified_if_the_program_is_that_of_the_role(
    settings, waits, site
):
    """The command waits for the interval of the health check plus 10 s.

    Without the role's health check, the verification has no such command.
    """
    role = Role("slurm")
    task = first_task(role)
    templar = site.templar(role, "compute1", slurm_config=settings)
    templar.available_variables |= task["vars"] | {"slurm_components": ["compute"]}

    commands = templar.template(task["gridstead.site.inspection"]["commands"])
    assert [command["wait_s"] for command in commands] == waits


@pytest.mark.parametrize(
    ("absent_nodes", "node_lines"),
    [([], ["gpu1 down*", "gpu10 drain"]), (["gpu1"], ["gpu10 drain"]), (["gpu1", "gpu10"], [])],
)
def test_a_node_in_slurm_nodes_away_does_not_need_to_be_ready(absent_nodes, node_lines, site):
    role = Role("slurm")
    task = first_task(role)
    templar = site.templar(role, "controller", slurm_nodes_away=absent_nodes)
    templar.available_variables |= task["vars"] | {"slurm_components": ["controller"]}

    commands = templar.template(task["gridstead.site.inspection"]["commands"])
    (sinfo,) = (command for command in commands if command["argv"][0] == "sinfo")
    (pattern,) = sinfo["refuse"]
    # Slurm plans the next job of gpu3.
    output = "gpu1 down*\ngpu10 drain\ngpu2 idle\ngpu3 mix-"
    assert [match[0] for match in re.finditer(pattern, output, re.MULTILINE)] == node_lines
