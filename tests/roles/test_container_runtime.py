# SPDX-License-Identifier: Apache-2.0
"""Role container_runtime on this machine, which has none of its files."""

import os
import subprocess
import sys

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import ROOT, roles

ROLE = next(role for role in roles() if role.name == "container_runtime")
ENROOT = {
    "url": "https://packages.example/enroot_3.5.0-1_amd64.deb",
    "checksum": f"sha256:{'0' * 64}",
}


def test_check_mode_fetches_no_enroot_package_without_its_folder(tmp_path):
    package = tmp_path / "enroot_3.5.0-1_amd64.deb"
    package.touch()
    install = {"name": "gridstead.site.container_runtime", "tasks_from": "install"}
    play = {
        "hosts": "localhost", "gather_facts": False, "vars": {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
            "container_runtime_enroot_packages": [ENROOT | {"url": f"file://{package}"}],
        },
        "tasks": [{"ansible.builtin.import_role": install}],
    }  # fmt: skip
    book, result_file = tmp_path / "play.yml", tmp_path / "told.yml"
    book.write_text(yaml.safe_dump([play]))
    result_file.write_text(
        yaml.safe_dump(
            {
                "__container_runtime_downloads": f"{tmp_path}/none",
                "__container_runtime_programs": [],
            }
        )
    )

    argv = [
        "ansible-playbook",
        "--inventory=localhost,",
        "--check",
        f"--extra-vars=@{result_file}",
        book,
    ]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    result = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )

    assert result.returncode == 0, result.stdout
    assert "changed=1 " in result.stdout


@pytest.mark.parametrize(("packages", "looked_for"), [([], False), ([ENROOT], True)])
def test_verification_checks_enroot_where_it_is_installed(packages, looked_for, site):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], container_runtime_enroot_packages=packages)
    task = yaml.safe_load((ROLE.path / "tasks/verify.yml").read_text())[0]
    programs = templar.template(
        trust_as_template(task["gridstead.site.inspection"]["commands"][0]["argv"])
    )

    assert ("enroot" in programs) is looked_for
