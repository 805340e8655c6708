# SPDX-License-Identifier: Apache-2.0
"""Processes of a lab, as the machine tells of them."""

from pathlib import Path

import pytest

from gridstead_lab import names, processes

LAB = names.names(Path("/srv/checkout"), "one")
ROOT = LAB.run / "hosts/left/root"


@pytest.fixture
def told(monkeypatch, tmp_path):
    """Return a function that has one process, which ends once its arguments have been read."""
    process = tmp_path / "4242"
    read = processes._read

    def read_and_end(pid, what):
        text = read(pid, what)
        (process / what).unlink(missing_ok=True)
        return text

    def tell(*words):
        process.mkdir()
        (process / "cmdline").write_text("".join(f"{word}\0" for word in words))

    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes, "_read", read_and_end)
    return tell


def test_a_host_that_ends_while_we_look_is_told_once_and_no_error(told):
    told("systemd-nspawn", "--quiet", f"--directory={ROOT}")
    assert processes.nspawns(LAB) == {"left": 4242}
    assert processes.nspawns(LAB) == {}


@pytest.mark.parametrize(
    "words",
    [
        ["systemd-nspawn", "--directory=/srv/other/hosts/left/root"],
        ["tail", f"--directory={ROOT}"],
        ["systemd-nspawn", str(ROOT)],
    ],
)
def test_what_is_no_host_of_this_lab_is_not_counted(told, words):
    told(*words)
    assert processes.nspawns(LAB) == {}
