# SPDX-License-Identifier: Apache-2.0
"""The installed collection: its documentation, its content and Ansible's own checks of it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "installed"
INSTALLED = FOLDER / "collections/ansible_collections/gridstead/site"
# The other tests of ansible-test create an environment of their own. For that they download pip
# from a host of Ansible's continuous integration, even if it is installed.
SANITY = (
    "action-plugin-docs", "compile", "empty-init", "ignores", "line-endings", "no-assert",
    "no-get-exception", "no-illegal-filenames", "no-smart-quotes", "replace-urlopen", "shebang",
    "shellcheck", "symlinks", "use-argspec-type-path", "use-compat-six",
)  # fmt: skip


def inside(*command, folder=FOLDER):
    """Run a command in the environment and return its output."""
    argv = ["bash", "-c", 'cd "$0" && exec "$@"', folder, *command]
    done = subprocess.run(
        [CHECKOUT / "molecule/collection/installed.sh", FOLDER, *argv],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ansible_doc_prints_every_module():
    names = [f"gridstead.site.{path.stem}" for path in (INSTALLED / "plugins/modules").glob("*.py")]

    printed = json.loads(inside("ansible-doc", "--json", *names))

    assert sorted(printed) == sorted(names)
    for name in names:
        assert printed[name]["examples"], f"module {name} has no examples"


def test_ansible_doc_prints_every_role():
    names = {f"gridstead.site.{path.name}" for path in (INSTALLED / "roles").iterdir()}

    printed = json.loads(inside("ansible-doc", "--type=role", "--list", "--json", "gridstead.site"))

    assert set(printed) == names


def test_the_artifact_contains_no_tests_and_no_contracts():
    folders = {path.name for path in INSTALLED.iterdir() if path.is_dir()}

    assert folders == {
        "dist", "docs", "examples", "inventory", "meta", "playbooks", "plugins", "requirements",
        "roles", "tests",
    }  # fmt: skip
    assert [path.name for path in (INSTALLED / "tests").iterdir() if path.name != "output"] == [
        "sanity"
    ]
    wheels = sorted(path.name for path in (INSTALLED / "dist").iterdir())
    assert [name.partition("-")[0] for name in wheels] == ["gridstead", "gridstead_cvmfs"]
    assert {Path(name).suffix for name in wheels} == {".whl"}


def test_the_sample_inventory_is_complete():
    wiring = INSTALLED / "inventory/example/group_vars/all/00-wiring"

    assert wiring.resolve() == (INSTALLED / "inventory/group_vars/all").resolve()


@pytest.mark.parametrize("test", SANITY)
def test_ansibles_sanity_tests_find_no_fault(test):
    inside(
        "ansible-test", "sanity", "--local", "--python=default", "--test", test, folder=INSTALLED
    )
