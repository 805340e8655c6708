# SPDX-License-Identifier: Apache-2.0
"""Tests of the documentation and the built artifact of the collection gridstead.site.

The molecule scenario `collection` installs the artifact and sets up a host with it.
"""

import json
import subprocess
import tarfile
import tomllib

import pytest
from tests.roles.catalogue import COLLECTION, ROOT, roles
from tests.yaml_files import read_yaml

GALAXY = read_yaml(ROOT / "galaxy.yml")
MODULES = sorted(COLLECTION + path.stem for path in (ROOT / "plugins/modules").glob("*.py"))


def run(*command):
    """Run a command in the checkout and return its output."""
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_ansible_doc_prints_every_module_with_an_example():
    printed_docs = json.loads(run("ansible-doc", "--json", *MODULES))

    assert sorted(printed_docs) == MODULES
    for module in printed_docs.values():
        assert COLLECTION in module["examples"]


def test_ansible_doc_prints_every_role_with_its_entry_points():
    printed = json.loads(run("ansible-doc", "--type=role", "--list", "--json", "gridstead.site"))

    assert len(printed) == len(roles())
    for role in roles():
        assert printed[COLLECTION + role.name]["entry_points"].keys() == role.entry_points.keys()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """Return the target of each path in the built artifact, by the path.

    The target of a symbolic link is the path to which it points. All other targets are empty.
    """
    folder = tmp_path_factory.mktemp("artifact")
    run("tools/collection", folder)
    (path,) = folder.iterdir()
    with tarfile.open(path) as archive:
        return {member.name: member.linkname for member in archive.getmembers()}


def test_the_artifact_contains_what_a_site_needs(artifact):
    wheel = f"dist/gridstead-{GALAXY['version']}-py3-none-any.whl"

    assert {
        wheel,
        "requirements/control.txt",
        "plugins/slurm/spank/gridstead.c",
        "plugins/slurm/job_submit/job_submit.lua",
        "playbooks/site.yml",
        "inventory/example/hosts.yml",
        "meta/site.yml",
    } <= set(artifact)
    assert artifact["inventory/example/group_vars/all/00-wiring"] == "../../../group_vars/all"


def test_the_artifact_contains_neither_tests_nor_sources_of_other_programs(artifact):
    folders = {name.partition("/")[0] for name in artifact if "/" in name}
    tests = {name for name in artifact if name.startswith("tests/")}

    assert folders == {
        "dist",
        "docs",
        "examples",
        "inventory",
        "meta",
        "playbooks",
        "plugins",
        "requirements",
        "roles",
        "tests",
    }
    # ansible-test needs the ignore file.
    assert tests == {"tests/sanity", "tests/sanity/ignore-2.19.txt"}
    assert not any(name.startswith("inventory/lab") for name in artifact)


def test_the_collection_the_wheel_and_the_inventory_have_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wiring = (ROOT / "inventory/group_vars/all/control_plane.yml").read_text()

    assert GALAXY["version"] == project["version"]
    assert f"/dist/gridstead-{project['version']}-py3-none-any.whl" in wiring
