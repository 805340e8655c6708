# SPDX-License-Identifier: Apache-2.0
"""QEMU: the choice between KVM and emulation, and the process that runs the guest."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import commands
from gridstead_lab.errors import LabError
from gridstead_lab.host import TERMINAL_CODES
from gridstead_lab.names import MARK, Names

PROGRAM = "qemu-system-x86_64"
PACKAGES = {
    PROGRAM: "qemu-system-x86",
    "debootstrap": "debootstrap",
    "mke2fs": "e2fsprogs",
    "setpriv": "util-linux",
    "git": "git",
}
KVM = ("-accel", "kvm", "-cpu", "host")
# Translated code of a whole site does not fit into QEMU's default buffer.
EMULATION = ("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max")
# The first process of Debian's initial RAM disk prints this line.
BOOTED = "Loading, please wait"
PROBE_TIMEOUT_S = 30.0
PROBE_INTERVAL_S = 0.1
BOOT_TIMEOUT_S = 600.0
OUTSIDE_MAC = "52:54:00:00:00:01"
INSIDE_MAC = "52:54:00:00:00:02"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSize:
    """The processors and the memory of the guest."""

    cpus: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFiles:
    """The files with which the guest boots: kernel, initial RAM disk, disk and console log."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """Return the stock kernel."""
        return self.folder / "vmlinuz"

    @property
    def ram_disk(self) -> Path:
        """Return the initial RAM disk of the kernel."""
        return self.folder / "initrd.img"

    @property
    def disk(self) -> Path:
        """Return the image of the guest's disk."""
        return self.folder / "disk.img"

    @property
    def console(self) -> Path:
        """Return the file to which QEMU writes the output of the serial console."""
        return self.folder / "console.log"


def missing_packages() -> list[str]:
    """Return the Debian packages of the programs that are not installed, sorted."""
    packages = set()
    for program, package in PACKAGES.items():
        if shutil.which(program) is None:
            packages.add(package)
    return sorted(packages)


def accelerator(boot: BootFiles, device: Path = Path("/dev/kvm")) -> tuple[str, ...]:
    """Return the options of KVM if KVM boots the stock kernel here, else those of emulation.

    Some machines have /dev/kvm and cannot run every instruction of the guest. Therefore the
    function boots the kernel until its first process runs.
    """
    if not os.access(device, os.R_OK | os.W_OK):
        return EMULATION
    log = boot.folder / "kvm.log"
    argv = _base_argv(boot, KVM, GuestSize(cpus=1, memory_mb=1024), log)
    with (boot.folder / "kvm.out").open("w") as out:
        probe = subprocess.Popen(
            _ending_with_this_process(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        return KVM if _boots(probe, log) else EMULATION
    finally:
        probe.kill()
        probe.wait()


def start(
    names: Names, boot: BootFiles, options: tuple[str, ...], size: GuestSize
) -> "subprocess.Popen[bytes]":
    """Start the guest. QEMU ends with this process."""
    argv = [
        *_base_argv(boot, options, size, boot.console),
        "-drive", f"file={boot.disk},format=raw,if=virtio,cache=unsafe",
        "-netdev", "user,id=outside", "-device", f"virtio-net-pci,netdev=outside,mac={OUTSIDE_MAC}",
        "-netdev", f"tap,id=inside,ifname={interface(names)},script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev=inside,mac={INSIDE_MAC}",
    ]  # fmt: skip
    with (boot.folder / "qemu.log").open("w") as out:
        return subprocess.Popen(
            _ending_with_this_process(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # an interrupt of the terminal must not end QEMU first
            env={"PATH": os.environ["PATH"], MARK: names.prefix},
        )


def interface(names: Names) -> str:
    """Return the name of the interface that connects the guest with this machine."""
    return names.veth(0)


def set_address(
    names: Names, guest: "subprocess.Popen[bytes]", boot: BootFiles, address: str
) -> None:
    """Wait until QEMU has created the guest's interface, and set this machine's address on it.

    Raises:
        LabError: If QEMU ends.
    """
    while not (Path("/sys/class/net") / interface(names)).exists():
        if guest.poll() is not None:
            output = (boot.folder / "qemu.log").read_text(errors="replace").strip()
            message = f"QEMU exited {guest.returncode}: {output[-500:]}"
            raise LabError(message)
        time.sleep(PROBE_INTERVAL_S)
    commands.run(["ip", "address", "add", f"{address}/24", "dev", interface(names)])
    commands.run(["ip", "link", "set", interface(names), "up"])


def last_console_line(boot: BootFiles) -> str:
    """Return the last line of the guest's console, or an empty text."""
    if not boot.console.exists():
        return ""
    text = boot.console.read_bytes()[-4096:].decode(errors="replace")
    lines = [line.strip() for line in TERMINAL_CODES.sub("", text).splitlines()]
    return next((line for line in reversed(lines) if line), "")


def _base_argv(boot: BootFiles, options: tuple[str, ...], size: GuestSize, log: Path) -> list[str]:
    return [
        PROGRAM, *options, "-smp", str(size.cpus), "-m", str(size.memory_mb),
        "-nodefaults", "-display", "none", "-serial", f"file:{log}",
        "-kernel", str(boot.kernel), "-initrd", str(boot.ram_disk),
        "-append", "root=/dev/vda rw console=ttyS0 panic=-1",
    ]  # fmt: skip


def _ending_with_this_process(argv: list[str]) -> list[str]:
    return ["setpriv", "--pdeathsig", "KILL", *argv]


def _boots(probe: "subprocess.Popen[bytes]", log: Path) -> bool:
    deadline = time.monotonic() + PROBE_TIMEOUT_S
    while probe.poll() is None and time.monotonic() < deadline:
        if log.exists() and BOOTED in log.read_text(errors="replace"):
            return True
        time.sleep(PROBE_INTERVAL_S)
    return False
