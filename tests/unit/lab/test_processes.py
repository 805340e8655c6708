# SPDX-License-Identifier: Apache-2.0
"""The processes of a lab, read from /proc."""

from pathlib import Path

import pytest

from gridstead_lab import names, processes

LAB = names.names(Path("/srv/checkout"), "one")
ROOT = LAB.run_folder / "hosts/compute1/root"


@pytest.fixture
def add_process(monkeypatch, tmp_path):
    """Return a function that adds a process. The process ends once its command line is read."""
    process = tmp_path / "4242"
    read = processes._read

    def read_and_end(pid, what):
        text = read(pid, what)
        (process / what).unlink(missing_ok=True)
        return text

    def add(*words):
        process.mkdir()
        (process / "cmdline").write_text("\0".join([*words, ""]))

    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes, "_read", read_and_end)
    return add


def test_the_search_finds_a_host_that_ends_during_the_search(add_process):
    add_process("systemd-nspawn", "--quiet", f"--directory={ROOT}")
    assert processes.nspawns(LAB) == {"compute1": 4242}
    assert processes.nspawns(LAB) == {}


@pytest.mark.parametrize(
    "words",
    [
        ["systemd-nspawn", "--directory=/srv/other/hosts/compute1/root"],
        ["tail", f"--directory={ROOT}"],
        ["systemd-nspawn", str(ROOT)],
    ],
)
def test_processes_that_are_not_hosts_of_the_lab_are_ignored(add_process, words):
    add_process(*words)
    assert processes.nspawns(LAB) == {}
