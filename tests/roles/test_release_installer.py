# SPDX-License-Identifier: Apache-2.0
"""The installer of a release's Python packages is the uv that the lock file names."""

import hashlib
import re
import subprocess
import sys

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.release_host import Host, build_wheel

# The entries before and after the entry for uv. The name uvicorn also begins with uv.
OTHER_ENTRIES = ("other==1 \\\n    --hash=sha256:00\n", "uvicorn==1 \\\n    --hash=sha256:00\n")


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def install_with_lock(host):
    """Return a function that installs the dependencies of a lock file.

    The function takes the lock file's entry for uv, and replaces ``{sha}`` in the entry by the hash
    of a fake uv. It returns the arguments with which the script called the fake uv.
    """
    wheelhouse = host.folder / "wheels"
    wheelhouse.mkdir()
    uv = build_wheel(
        wheelhouse / "uv-0.0.1-py3-none-any.whl",
        {"uv-0.0.1.data/scripts/uv": f'#!/bin/sh\necho "$*" >>{host.folder}/uv-calls\n'},
    )
    digest = hashlib.sha256(uv.read_bytes()).hexdigest()
    # The fake python3 creates an environment that contains the fake pip.
    pip = host.folder / "pip"
    pip.write_text(
        "#!/bin/bash\n"
        f'exec {sys.executable} -I -m pip --isolated "$@" --target "${{0%/*}}/installed"\n'
    )
    host.set_command(
        "python3",
        'bin=${@: -1}/bin\nmkdir -p "$bin"\nln -s installed/bin/uv "$bin"\n'
        f'install -m 755 {pip} "$bin"',
    )

    def run(entry):
        entries = (OTHER_ENTRIES[0], entry.format(sha=digest), OTHER_ENTRIES[1])
        host.lock.write_text("".join(entries))
        host.run_script("install-environment.sh", host.lock, wheelhouse)
        return (host.folder / "uv-calls").read_text()

    return run


def test_the_installer_is_the_uv_of_the_lock_file(install_with_lock):
    arguments = install_with_lock(
        "uv==0.0.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:{sha}\n"
    )

    assert "--require-hashes --requirement" in arguments


@pytest.mark.parametrize(
    "entry", [f"uv==0.0.1 \\\n    --hash=sha256:{64 * '0'}\n", "uv==0.0.1\n", ""]
)
def test_an_installer_without_a_matching_hash_is_refused(host, install_with_lock, entry):
    """The lock file's entry for uv has a wrong hash, has no hash, or is missing."""
    with pytest.raises(subprocess.CalledProcessError):
        install_with_lock(entry)

    assert not (host.folder / "uv-calls").exists()


def test_the_lock_file_of_the_control_plane_contains_uv_with_a_hash():
    text = (ROOT / "requirements/control.txt").read_text()

    assert re.search(r"^uv==\S+ \\\n +--hash=sha256:", text, re.MULTILINE)
