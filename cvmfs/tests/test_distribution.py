# SPDX-License-Identifier: Apache-2.0
"""The contents of the two wheels, and the command `gridstead` when both wheels are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")


def uv(*words):
    """Run uv with these arguments in the checkout."""
    environment = os.environ | {"UV_NO_CACHE": "1"}
    subprocess.run([UV, "--quiet", *words], check=True, cwd=CHECKOUT, env=environment)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of the control plane and of CVMFS."""
    folder = tmp_path_factory.mktemp("dist")
    options = ("--wheel", "--no-build-isolation", "--python", sys.executable)
    for source in (".", "cvmfs"):
        uv("build", *options, "--out-dir", str(folder), source)
    return sorted(folder.glob("*.whl"))


def content(wheel):
    """Return the top-level packages of a wheel, and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
        return packages, archive.read(metadata).decode().splitlines()


def test_each_wheel_has_its_own_package_only(wheels):
    assert [content(wheel)[0] for wheel in wheels] == [{"gridstead"}, {"gridstead_cvmfs"}]


def version_of(metadata):
    (version,) = [line for line in metadata if line.startswith("Version: ")]
    return version.removeprefix("Version: ")


def test_cvmfs_requires_the_control_plane_of_its_own_version(wheels):
    (_, gridstead), (_, cvmfs) = map(content, wheels)

    version = version_of(cvmfs)
    assert version_of(gridstead) == version
    assert f"Requires-Dist: gridstead[site]=={version}" in cvmfs
    assert "Provides-Extra: site" in gridstead


def test_the_control_plane_does_not_require_cvmfs(wheels):
    _, gridstead = content(wheels[0])

    requirements = [line for line in gridstead if line.startswith("Requires-Dist: ")]
    assert [line for line in requirements if "cvmfs" in line or "mfusepy" in line] == []


def test_the_installed_command_has_the_commands_of_both_wheels(wheels, tmp_path):
    packages = tmp_path / "packages"
    words = ("--offline", "--no-index", "--no-deps", "--target", str(packages))
    uv("pip", "install", "--python", sys.executable, *words, *map(str, wheels))
    workflow = CHECKOUT / "examples/hello-world.yaml"
    commands = (["cvmfs", "--help"], ["submit", "--help"], ["workflow", "validate", str(workflow)])

    for command in commands:
        argv = [sys.executable, packages / "bin/gridstead", *command]
        environment = os.environ | {"PYTHONPATH": str(packages)}
        result = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")
