# SPDX-License-Identifier: Apache-2.0
"""Role container_runtime: check mode on a new host, and the verification of enroot."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT, Role
from tests.yaml_files import read_yaml

ROLE = Role("container_runtime")
ENROOT = {
    "url": "https://packages.example/enroot_3.5.0-1_amd64.deb",
    "checksum": f"sha256:{'0' * 64}",
}


def test_check_mode_fetches_no_enroot_package_if_the_download_folder_is_missing(tmp_path):
    """On a new host, the folder of the downloads does not exist."""
    package = tmp_path / "enroot_3.5.0-1_amd64.deb"
    package.touch()
    install = {"name": "gridstead.site.container_runtime", "tasks_from": "install"}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_role": install}],
    }
    variables = {
        "ansible_python_interpreter": sys.executable,
        "container_runtime_enroot_packages": [ENROOT | {"url": f"file://{package}"}],
        "__container_runtime_downloads": f"{tmp_path}/missing",
        "__container_runtime_programs": [],
    }
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump([play]))

    argv = ["ansible-playbook", "--inventory=localhost,", "--check", playbook]
    argv += ["--extra-vars", json.dumps(variables)]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    result = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )

    assert result.returncode == 0, result.stdout
    assert "changed=1 " in result.stdout


@pytest.mark.parametrize(("packages", "is_checked"), [([], False), ([ENROOT], True)])
def test_verification_checks_enroot_only_if_the_site_installs_it(packages, is_checked, site):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], container_runtime_enroot_packages=packages)
    task = read_yaml(ROLE.path / "tasks/verify.yml")[0]
    argv = task["gridstead.site.inspection"]["commands"][0]["argv"]
    programs = templar.template(trust_as_template(argv))

    assert ("enroot" in programs) is is_checked


def test_only_root_can_create_the_directory_of_a_customer_and_it_does_not_age(site):
    """If another customer created it first, a job would use what this customer has put there."""
    template = ROLE.path / "templates/etc/tmpfiles.d/gridstead-disk.conf.j2"
    text = site.render(ROLE, template, site.hosts_of(ROLE)[0], container_runtime_disk_days=3)

    assert text.splitlines()[-3:] == [
        "d /opt/cache/disk 0755 root root -",
        "d /opt/cache/disk/tmp 0755 root root ~3d",
        "d /opt/cache/disk/world-tmp 1777 root root 3d",
    ]


@pytest.mark.parametrize(
    ("directory", "is_valid"),
    [
        ("/opt/cache/disk", True),
        ("/scratch/gridstead", True),
        ("/opt/cache-2/disk", True),
        ("/scratch", False),
        ("/scratch/..", False),
        ("/scratch/./x", False),
        ("scratch/gridstead", False),
        ("/opt/cache", False),  # its directory world-tmp is shared storage, which would age
        ("/opt/cache/shared", False),
        ("/opt/cache/disk/jobs", False),  # would be below the link to itself
    ],
)
def test_the_disk_directory_is_no_other_directory_of_the_host(site, directory, is_valid):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], container_runtime_disk_directory=directory)
    (check,) = (
        task["ansible.builtin.assert"]
        for task in read_yaml(ROLE.path / "tasks/validate.yml")
        if task["name"] == "Check container_runtime_disk_directory"
    )

    conditions = [trust_as_template(text) for text in check["that"]]

    assert all(map(templar.evaluate_conditional, conditions)) == is_valid
