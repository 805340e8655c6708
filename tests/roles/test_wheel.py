# SPDX-License-Identifier: Apache-2.0
"""playbooks/wheel.yml builds the control plane's wheels from the checkout."""

import os
import shutil
import subprocess

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.content import imported_playbooks

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{}"
version = "1.0"
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the playbook and two small packages."""
    (tmp_path / "playbooks").mkdir()
    for folder, name in ((tmp_path, "control"), (tmp_path / "cvmfs", "more")):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
        (folder / "pyproject.toml").write_text(PROJECT.format(name))
    shutil.copy(ROOT / "playbooks/wheel.yml", tmp_path / "playbooks")
    return tmp_path


def build(checkout, *words):
    """Run the playbook in the checkout and return the names of the built wheels."""
    argv = [
        "ansible-playbook",
        f"--inventory={ROOT / 'inventory/example'}",
        "playbooks/wheel.yml",
        *words,
    ]
    environment = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}

    result = subprocess.run(
        argv, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(path.name.partition("-py")[0] for path in (checkout / "dist").glob("*.whl"))


@pytest.mark.parametrize("words", [[], ["--limit=compute1"], ["--limit=compute1", "--check"]])
def test_a_limited_run_builds_the_wheels_and_contacts_no_host(checkout, words):
    assert build(checkout, *words) == ["control-1.0", "more-1.0"]


def test_no_wheel_is_built_if_the_inventory_names_one(checkout):
    assert build(checkout, "-e", "gridstead_wheel=/srv/gridstead.whl") == []


def test_an_installed_collection_builds_no_wheel(checkout):
    """An installed collection contains the wheel and no pyproject.toml."""
    (checkout / "pyproject.toml").unlink()

    assert build(checkout) == []


def test_site_yml_builds_the_wheel_before_any_host_changes():
    assert imported_playbooks("site")[:2] == ["validate", "wheel"]


@pytest.mark.parametrize(
    "playbook", sorted((ROOT / "playbooks").glob("*.yml")), ids=lambda path: path.stem
)
def test_every_playbook_that_installs_the_wheel_builds_it(playbook):
    imported_files = imported_playbooks(playbook.stem)

    if "control" in imported_files:
        assert "wheel" in imported_files[: imported_files.index("control")]
