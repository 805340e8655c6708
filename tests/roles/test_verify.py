# SPDX-License-Identifier: Apache-2.0
"""playbooks/verify.yml on hosts that are this machine, without any role applied."""

import json
import re
import subprocess

import pytest
import yaml
from tests.roles.catalogue import ROOT, roles
from tests.roles.conftest import trusted

HOSTS = ("ash", "birch")
VERIFIED = [role for role in roles() if (role.path / "tasks/verify.yml").exists()]


def first_task(role):
    """Return the first task of a role's verification."""
    return trusted(yaml.safe_load((role.path / "tasks/verify.yml").read_text()))[0]


INSPECTED = [role for role in VERIFIED if "gridstead.site.inspection" in first_task(role)]


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """Return exit code, output and report of the playbook."""
    folder = tmp_path_factory.mktemp("site")
    here = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    variables = {
        **here, "pki_renew_before_days": 60, "pki_certificates": [],
        "base_hosts": [{"name": name, "address": "192.0.2.1"} for name in HOSTS],
    }  # fmt: skip
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {name: {} for name in HOSTS} | {"cedar": away}
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
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return done, json.loads(report.read_text())


def test_verification_fails_and_reports_faults_and_who_must_act(verified):
    done, _ = verified

    assert done.returncode != 0
    assert "birch, base: the host is birch: hostname does not print" in done.stdout
    assert "operator must act" in done.stdout


def test_verification_checks_everything_on_every_host_despite_faults(verified):
    _, report = verified

    assert [list(report["hosts"][name]) for name in HOSTS] == [["base", "pki"]] * 2
    assert {(finding["host"], finding["role"]) for finding in report["findings"]} == {
        *((host, role) for host in HOSTS for role in ("base", "pki")),
        ("cedar", "host"),
    }


def test_an_unreachable_host_is_reported(verified):
    _, report = verified

    assert [finding["what"] for finding in report["findings"] if finding["host"] == "cedar"] == [
        "it is reached"
    ]


def test_only_the_owner_reads_the_report_and_checks_are_counted(verified):
    done, report = verified

    assert report["looked_at"] == sum(
        len(looks) for roles in report["hosts"].values() for looks in roles.values()
    )
    assert f"{len(report['findings'])} of {report['looked_at']} checks failed" in done.stdout


def test_every_role_with_a_verification_is_verified():
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/verify_host.yml").read_text())

    assert sorted(task["vars"]["__verify_role"] for task in tasks) == [
        role.name for role in VERIFIED
    ]


def test_the_report_finds_the_results_of_every_role():
    """The report finds results by their variable names."""
    lost = [
        role.name
        for role in VERIFIED
        if f"register: __{role.name}_verify_result\n"
        not in (role.path / "tasks/verify.yml").read_text()
    ]

    assert lost == []


@pytest.mark.parametrize("role", INSPECTED, ids=lambda role: role.name)
def test_the_checks_of_every_role_are_valid_on_every_host(role, site_of):
    task = first_task(role)
    site = site_of(role)
    for host in site.hosts_of(role):
        templar = site.templar(role, host)
        templar.available_variables |= task.get("vars", {}) | {
            "ansible_search_path": [str(role.path)]
        }
        asked = templar.template(task["gridstead.site.inspection"])

        assert asked == {key: list(value) for key, value in asked.items()}
        assert {key for item in asked.get("commands", []) for key in item} <= {
            "what", "argv", "expect", "refuse", "wait_s", "who", "hint",
        }  # fmt: skip
        for pattern in (
            p
            for item in asked.get("commands", [])
            for k in ("expect", "refuse")
            for p in item.get(k, [])
        ):
            re.compile(pattern)
        assert [
            item
            for item in asked.get("units", [])
            if not re.fullmatch(r"[a-z@-]+\.(service|timer)", item)
        ] == []


@pytest.mark.parametrize(
    ("components", "units"),
    [(["login"], ["sackd.service"]), (["compute", "login"], ["slurmd.service"])],
)
def test_a_login_host_needs_sackd_only_without_another_configuration(components, units, site):
    role = next(role for role in roles() if role.name == "slurm")
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
def test_a_node_without_our_health_check_is_not_asked_for_its_time(settings, waits, site):
    role = next(role for role in roles() if role.name == "slurm")
    task = first_task(role)
    templar = site.templar(role, "compute1", slurm_config=settings)
    templar.available_variables |= task["vars"] | {"slurm_components": ["compute"]}

    assert [
        item["wait_s"] for item in templar.template(task["gridstead.site.inspection"]["commands"])
    ] == waits


@pytest.mark.parametrize(
    ("away", "node_lines"),
    [([], ["gpu1 down*", "gpu10 drain"]), (["gpu1"], ["gpu10 drain"]), (["gpu1", "gpu10"], [])],
)
def test_an_absent_node_does_not_need_to_be_ready(away, node_lines, site):
    role = next(role for role in roles() if role.name == "slurm")
    task = first_task(role)
    templar = site.templar(role, "controller", slurm_nodes_away=away)
    templar.available_variables |= task["vars"] | {"slurm_components": ["controller"]}

    (nodes,) = (
        item
        for item in templar.template(task["gridstead.site.inspection"]["commands"])
        if item["argv"][0] == "sinfo"
    )
    (refuse,) = nodes["refuse"]

    lines = "gpu1 down*\ngpu10 drain\ngpu2 idle"
    assert [match[0] for match in re.finditer(refuse, lines, re.MULTILINE)] == node_lines
