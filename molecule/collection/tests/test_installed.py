# SPDX-License-Identifier: Apache-2.0
"""Tests of the installed collection: documentation, content and Ansible's sanity tests."""

import json
import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "installed"
INSTALLED = FOLDER / "collections/ansible_collections/gridstead/site"
# The list lacks the tests of ansible-test that create a separate environment. These always download
# pip from a host of Ansible's continuous integration, which cannot be reached from here.
SANITY_TESTS = (
    "action-plugin-docs", "compile", "empty-init", "ignores", "line-endings", "no-assert",
    "no-get-exception", "no-illegal-filenames", "no-smart-quotes", "replace-urlopen", "shebang",
    "shellcheck", "symlinks", "use-argspec-type-path", "use-compat-six",
)  # fmt: skip


def run_in_environment(*command, folder=FOLDER):
    """Run a command in the environment of the installed collection and return its output."""
    argv = ["bash", "-c", 'cd "$0" && exec "$@"', folder, *command]
    result = subprocess.run(
        [CHECKOUT / "molecule/collection/installed.sh", FOLDER, *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_ansible_doc_prints_every_module():
    names = [f"gridstead.site.{path.stem}" for path in (INSTALLED / "plugins/modules").glob("*.py")]

    documentation = json.loads(run_in_environment("ansible-doc", "--json", *names))

    assert sorted(documentation) == sorted(names)
    for name in names:
        assert documentation[name]["examples"], f"module {name} has no examples"


def test_ansible_doc_prints_every_role():
    names = {f"gridstead.site.{path.name}" for path in (INSTALLED / "roles").iterdir()}

    documentation = json.loads(
        run_in_environment("ansible-doc", "--type=role", "--list", "--json", "gridstead.site")
    )

    assert set(documentation) == names


def test_the_artifact_has_no_folders_except_those_of_the_collection():
    folders = {path.name for path in INSTALLED.iterdir() if path.is_dir()}

    assert folders == {
        "dist", "docs", "examples", "inventory", "meta", "playbooks", "plugins", "requirements",
        "roles", "tests",
    }  # fmt: skip
    test_folders = {path.name for path in (INSTALLED / "tests").iterdir()}
    assert test_folders - {"output"} == {"sanity"}
    wheels = sorted(path.name for path in (INSTALLED / "dist").iterdir())
    assert [name.partition("-")[0] for name in wheels] == ["gridstead", "gridstead_cvmfs"]
    assert {Path(name).suffix for name in wheels} == {".whl"}


def test_the_sample_inventory_links_to_the_wiring():
    wiring = INSTALLED / "inventory/example/group_vars/all/00-wiring"

    assert wiring.resolve() == (INSTALLED / "inventory/group_vars/all").resolve()


@pytest.mark.parametrize("sanity_test", SANITY_TESTS)
def test_sanity_test_of_ansible_passes(sanity_test):
    run_in_environment(
        "ansible-test",
        "sanity",
        "--local",
        "--python=default",
        "--test",
        sanity_test,
        folder=INSTALLED,
    )
