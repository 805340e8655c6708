# SPDX-License-Identifier: Apache-2.0
"""The running guest: its start, its commands over ssh, and its reboot."""

import subprocess
import time
from collections.abc import Callable

from gridstead_lab import lifecycle, network, state
from gridstead_lab.errors import LabError
from gridstead_lab.names import Names
from gridstead_vm import qemu
from gridstead_vm.disk import Guest

GUEST_OCTET = network.FIRST_HOST
GROUPS = ("control_plane", "devnet")
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
POLL_INTERVAL_S = 1.0


def save_state(guest: Guest, subnet: str, size: qemu.GuestSize, host_key: str) -> None:
    """Write the files of the guest's folder, as those of a lab with one host."""
    state.write_ssh_files(guest.names, {guest.name: (guest.address, host_key)})
    host = {
        "address": guest.address, "octet": GUEST_OCTET, "groups": list(GROUPS),
        "memory_mb": size.memory_mb, "cores": size.cpus, "job_cgroups": True,
    }  # fmt: skip
    lab = state.State(
        lab=guest.names.lab,
        prefix=guest.names.prefix,
        topology="",
        network=subnet,
        gateway=network.address(subnet, network.GATEWAY),
        cgroup="v2",
        image=[],
        groups={},
        members={group: [guest.name] for group in GROUPS},
        hosts={guest.name: host},
    )
    state.save(guest.names, lab)


def wait_for_ssh(guest: Guest, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the guest answers on its ssh port.

    Raises:
        LabError: If QEMU ends, or the guest does not answer within 10 minutes.
    """

    def answers() -> bool:
        return lifecycle.answers_ssh(guest.address)

    _wait(answers, guest, process)


def reboot(guest: Guest, process: "subprocess.Popen[bytes]") -> None:
    """Reboot the guest and wait until it answers on its ssh port again."""
    old_id = _boot_id(guest.names, guest.name)
    # The connection may end before the command does.
    run(guest.names, guest.name, "systemctl reboot", check=False)

    def has_rebooted() -> bool:
        new_id = _boot_id(guest.names, guest.name)
        return bool(new_id) and new_id != old_id

    _wait(has_rebooted, guest, process)


def run(names: Names, host: str, command: str, *, check: bool = True) -> int:
    """Run a command line in the guest, with the output on this program's output.

    Raises:
        LabError: If ``check`` is true and the exit code is not 0.
    """
    code = subprocess.run(_ssh(names, host, command), check=False).returncode
    if check and code != 0:
        message = f"command `{command}` in the guest exited {code}"
        raise LabError(message)
    return code


def _boot_id(names: Names, host: str) -> str:
    result = subprocess.run(_ssh(names, host, BOOT_ID), capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def _ssh(names: Names, host: str, command: str) -> list[str]:
    return ["ssh", "-n", "-F", str(names.state_folder / "ssh_config"), host, "--", command]


def _wait(condition: Callable[[], bool], guest: Guest, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + qemu.BOOT_TIMEOUT_S
    while not condition():
        last_line = qemu.last_console_line(guest.boot) or "(empty)"
        if process.poll() is not None:
            message = f"QEMU exited {process.returncode}; last line of the console: {last_line}"
            raise LabError(message)
        if time.monotonic() > deadline:
            message = f"no ssh answer after {qemu.BOOT_TIMEOUT_S:.0f} s"
            raise LabError(message, f"The last line of the guest's console is: {last_line}")
        time.sleep(POLL_INTERVAL_S)
