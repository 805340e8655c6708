# SPDX-License-Identifier: Apache-2.0
"""What is known of a host's packages is what dpkg and apt have, on this machine."""

import os
import runpy
import subprocess

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module

MODULE = ROOT / "plugins/modules/installed_packages.py"


@pytest.fixture(scope="module")
def module():
    """Return the module's names."""
    return runpy.run_path(str(MODULE))


def test_the_facts_match_dpkg(tmp_path):
    facts = run_module(MODULE, {}, tmp=tmp_path / "tmp")["ansible_facts"]

    version = subprocess.run(
        ["dpkg-query", "-Wf${Version}", "dpkg"], capture_output=True, text=True, check=True
    ).stdout
    assert facts["packages"]["dpkg"] == version
    assert facts["package_lists_age"] >= 0


def test_a_removed_package_is_not_listed(module):
    states = "installed base-files 13.8\nconfig-files munge 0.5.16\nhalf-configured sudo 1.9.16\n"

    assert module["packages_of"](states) == {"base-files": "13.8"}


def test_the_age_of_apt_lists_is_their_newest_file_time(module, tmp_path):
    signs = (tmp_path / "stamp", tmp_path / "lists")
    assert module["newest"](signs) == 0

    for sign, changed_at in zip(signs, (1_000, 900), strict=True):
        sign.touch()
        os.utime(sign, (changed_at, changed_at))

    assert module["newest"](signs) == 1_000
