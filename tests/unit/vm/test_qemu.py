# SPDX-License-Identifier: Apache-2.0
"""The choice between KVM and emulation, with a program that stands in for QEMU."""

import os

import pytest

from gridstead_vm import disk, qemu

# Writes a line to the file of option -serial, as the guest's console.
FAKE_QEMU = """\
#!/bin/sh
while [ "$1" != -serial ]; do shift; done
echo "{line}" >"${{2#file:}}"
exec {end}
"""


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """Return a function that chooses the accelerator with a fake QEMU."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = tmp_path / qemu.PROGRAM

    def choose(line, end="sleep 600"):
        program.write_text(FAKE_QEMU.format(line=line, end=end))
        program.chmod(0o755)
        return qemu.accelerator(qemu.BootFiles(folder=tmp_path), device)

    return choose


def test_kvm_is_used_if_it_runs_the_first_process_of_the_stock_kernel(probe):
    assert probe("Loading, please wait...") == qemu.KVM


def test_emulation_is_used_if_the_stock_kernel_stops_in_kvm(probe, monkeypatch):
    """On a machine with /dev/kvm, the guest can stop with an instruction that KVM does not run."""
    monkeypatch.setattr(qemu, "PROBE_TIMEOUT_S", 0.3)

    assert probe("Decompressing Linux...") == qemu.EMULATION


def test_emulation_is_used_if_qemu_ends_in_the_probe(probe):
    assert probe("KVM internal error", end="false") == qemu.EMULATION


def test_emulation_is_used_without_kvm(tmp_path):
    boot = qemu.BootFiles(folder=tmp_path)

    assert qemu.accelerator(boot, tmp_path / "absent") == qemu.EMULATION


def test_missing_programs_are_reported_as_packages(tmp_path, monkeypatch):
    for program in ("git", "mke2fs", "setpriv"):
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert qemu.missing_packages() == ["debootstrap", "qemu-system-x86"]


def test_the_last_line_of_the_console_has_no_terminal_codes(tmp_path):
    boot = qemu.BootFiles(folder=tmp_path)
    boot.console.write_bytes(b"first\r\n\x1b[0;32m  OK  \x1b[0m] Started ssh\r\n\r\n\x1b[6n")

    assert qemu.last_console_line(boot) == "OK  ] Started ssh"


def test_debootstrap_uses_the_mirror_of_the_suite_itself():
    apt_sources = (
        "deb [signed-by=/keyring.gpg] http://mirror.example/security trixie-security main",
        "deb [signed-by=/keyring.gpg] http://mirror.example/debian trixie main",
    )

    assert disk.mirror_of(apt_sources) == "http://mirror.example/debian"
