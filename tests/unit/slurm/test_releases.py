# SPDX-License-Identifier: Apache-2.0
"""Tests of the data of the supported Slurm releases, and of the support of a new release."""

import shutil

import pytest

from gridstead import slurm_releases
from gridstead.adapters.slurm import commands, release
from gridstead.adapters.slurm.release import rest_release
from gridstead.errors import ConfigError, UnexpectedOutput
from gridstead.slurm_releases import known_releases, read_release, release_of


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("24.11.5", "24.11"),
        ("1:24.11.5-4+deb13u1", "24.11"),
        ("25.05.0-0rc1", "25.05"),
        ("unknown", "unknown"),
    ],
)
def test_a_release_is_a_year_and_a_month(version, expected):
    assert release_of(version) == expected


@pytest.mark.parametrize("name", known_releases())
def test_every_release_has_all_data(name):
    assert set(read_release(name, "rest")) == {"data_parser", "errors", "job"}
    assert set(read_release(name, "options")) == {"node", "partition", "slurm", "slurmdbd"}
    assert read_release(name, "costs")["rule"]
    assert rest_release(f"{name}.1").name == name


def test_error_for_an_unknown_release_lists_the_supported_releases():
    with pytest.raises(ConfigError) as error:
        rest_release("19.05.2")

    assert error.value.message == "Slurm 19.05.2 is not supported"
    assert error.value.detail == f"supported releases: {', '.join(known_releases())}"
    with pytest.raises(KeyError, match=r"known releases: 24\.11"):
        read_release("19.05", "rest")


def test_new_release_is_supported_once_a_folder_contains_its_data(tmp_path, monkeypatch):
    """The new release is a changed copy of 24.11, because Debian 13 has no other release."""
    releases = tmp_path / "releases"
    shutil.copytree(slurm_releases.FOLDER, releases)
    shutil.copytree(slurm_releases.FOLDER / "24.11", releases / "25.05")
    rest_file = releases / "25.05" / "rest.toml"
    rest_file.write_text(rest_file.read_text().replace("v0.0.42", "v0.0.43"))
    # The last parameter of these functions is the folder of the releases.
    for function in (known_releases, read_release):
        *other_defaults, _folder = function.__defaults__
        monkeypatch.setattr(function, "__defaults__", (*other_defaults, releases))

    assert known_releases() == ("24.11", "25.05")
    assert rest_release("25.05.3").data_parser == "v0.0.43"
    assert rest_release("24.11.5").data_parser == "v0.0.42"


def test_version_is_parsed_from_the_output_of_scontrol():
    assert commands.parse_version("slurm-wlm 24.11.5\n") == "24.11.5"
    assert commands.parse_version("slurm 25.05.0-0rc1\n") == "25.05.0-0rc1"


def test_output_without_a_version_is_an_error():
    with pytest.raises(UnexpectedOutput):
        commands.parse_version("command not found")


def test_ranges_of_rejection_codes_include_their_bounds():
    rejections = release.rest_release("24.11.5").rejection_errors

    assert {2000, 2999, 9000, 9999} <= rejections
    assert rejections.isdisjoint({1999, 3000, 8999, 10000})
