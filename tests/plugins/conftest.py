# SPDX-License-Identifier: Apache-2.0
"""Fixtures that find tools and build programs, for the tests of ``plugins/slurm/``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins/slurm"
SPANK_TESTS = Path(__file__).resolve().parent / "spank"
LUA_SLURM = Path(__file__).resolve().parent / "lua" / "slurm.lua"


@pytest.fixture(scope="session")
def plugins_dir():
    return PLUGINS


@pytest.fixture(scope="session")
def tool():
    """Return a function that returns the path of a program.

    If the program is missing, the test fails in CI and is skipped on other machines.
    """

    def find(name):
        path = shutil.which(name)
        if path is None:
            reason = f"{name} is not installed (plugins/slurm/requirements.apt)"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        return path

    return find


@pytest.fixture(scope="session")
def spank_plugin(tool, tmp_path_factory):
    """Return the path of gridstead.so, built from a copy of the sources as on a host."""
    sources = tmp_path_factory.mktemp("plugin") / "spank"
    shutil.copytree(PLUGINS / "spank", sources, ignore=shutil.ignore_patterns("build"))
    install_folder = sources.parent / "installed"
    build(tool, sources, "install", f"PREFIX={install_folder}")
    return install_folder / "gridstead.so"


@pytest.fixture(scope="session")
def spank_programs(tool, tmp_path_factory):
    """Return the directory of the C test programs."""
    folder = tmp_path_factory.mktemp("programs")
    build(tool, SPANK_TESTS, f"OUT={folder}")
    return folder


def build(tool, directory, *arguments):
    tool("gcc")
    result = subprocess.run(
        [tool("make"), "-C", directory, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="session", params=["lua5.1", "lua5.4"])
def lua_program(tool, request):
    """Return Lua 5.1, which Debian's Slurm uses, or Lua 5.4, the newest that Slurm supports."""
    return tool(request.param)


@pytest.fixture(scope="session")
def lua(lua_program):
    """Return a function that runs Lua code with the fake slurmctld and returns the output."""

    def run(text):
        result = subprocess.run(
            [lua_program, "-"],
            input=LUA_SLURM.read_bytes() + text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert (result.returncode, result.stderr) == (0, b"")
        return result.stdout.decode()

    return run
