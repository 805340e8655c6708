# SPDX-License-Identifier: Apache-2.0
"""Tests of the Ansible module installed_packages, which reads the facts of dpkg and apt."""

import os
import runpy
import subprocess

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module

MODULE = ROOT / "plugins/modules/installed_packages.py"


@pytest.fixture(scope="module")
def module():
    """The global names of the Ansible module, by name."""
    return runpy.run_path(str(MODULE))


def test_the_facts_match_dpkg(tmp_path):
    facts = run_module(MODULE, {}, tmp=tmp_path / "tmp")["ansible_facts"]

    argv = ["dpkg-query", "-Wf${Version}", "dpkg"]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert facts["packages"]["dpkg"] == result.stdout
    assert facts["package_lists_age"] >= 0


def test_a_removed_package_is_not_listed(module):
    dpkg_output = (
        "installed base-files 13.8\nconfig-files munge 0.5.16\nhalf-configured sudo 1.9.16\n"
    )

    assert module["packages_of"](dpkg_output) == {"base-files": "13.8"}


def test_the_time_of_the_apt_lists_is_that_of_the_newest_file(module, tmp_path):
    files = (tmp_path / "stamp", tmp_path / "lists")
    assert module["newest_change"](files) == 0

    for file, modified_at in zip(files, (1_000, 900), strict=True):
        file.touch()
        os.utime(file, (modified_at, modified_at))

    assert module["newest_change"](files) == 1_000
