# SPDX-License-Identifier: Apache-2.0
"""The two runs on a stock Debian 13: a site from outside, and the README's commands inside."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gridstead_lab import image, inputs, lifecycle, network, state
from gridstead_lab.errors import LabError
from gridstead_lab.names import Names
from gridstead_vm import disk, guest, inventory, qemu, settings
from gridstead_vm.progress import Progress

EMULATION_NOTE = (
    "KVM cannot run the stock kernel on this machine; QEMU emulates the processor, which takes"
    " 5 to 20 times as long"
)
ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
Keep = Callable[[LabError], None]  # called after an error, before the guest is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """A running guest.

    Attributes:
        guest: The guest.
        gateway: The address of this machine in the network of the guest.
        is_prepared: Whether the slow steps of the run were done before the boot.
        process: The process of QEMU.
    """

    guest: disk.Guest
    gateway: str
    is_prepared: bool
    process: "subprocess.Popen[bytes]"


def run_site(names: Names, size: qemu.GuestSize, progress: Progress, keep: Keep | None) -> None:
    """Set up inventory/single on the guest over ssh, and run paid jobs before and after a reboot.

    Raises:
        LabError: If a step fails.
    """
    with _running(names, size, progress, keep, is_demo=False) as vm:
        mirror = disk.mirror_of(vm.guest.inputs.sources)
        variables = inventory.site_variables(names, vm.gateway, size, mirror)
        if vm.is_prepared:
            variables |= inventory.PREPARED
        hosts = inventory.write(names, vm.guest.address, variables)
        with progress.step("site.yml"):
            _run_here(names, "tools/site", "--inventory", str(hosts))
        _verify_and_pay(names, str(hosts), progress, "")
        with progress.step("reboot"):
            guest.reboot(vm.guest, vm.process)
        _verify_and_pay(names, str(hosts), progress, " after the reboot")


def run_demo(names: Names, size: qemu.GuestSize, progress: Progress, keep: Keep | None) -> None:
    """Run `make demo` and `make down` in the guest.

    Raises:
        LabError: If a command fails.
    """
    with _running(names, size, progress, keep, is_demo=True) as vm:
        for command in ("make demo", "make down"):
            with progress.step(f"{command}, in the guest"):
                line = f"cd {disk.CHECKOUT} && {command}"
                guest.run(names, vm.guest.name, line)


def _verify_and_pay(names: Names, hosts: str, progress: Progress, when: str) -> None:
    with progress.step(f"verify.yml{when}"):
        _run_here(names, "ansible-playbook", "--inventory", hosts, "playbooks/verify.yml")
    with progress.step(f"paid job{when}"):
        _run_here(names, sys.executable, "tools/demo.py")


@contextlib.contextmanager
def _running(
    names: Names, size: qemu.GuestSize, progress: Progress, keep: Keep | None, *, is_demo: bool
) -> Iterator[Vm]:
    """Build and start the guest for the block. Afterwards, remove everything of the guest."""
    _remove(names, progress)
    try:
        yield _start(names, size, progress, is_demo=is_demo)
    except LabError as err:
        if keep is not None:
            keep(err)
        raise
    finally:
        _remove(names, progress)


def _remove(names: Names, progress: Progress) -> None:
    """Remove everything of the guest. Signals do not interrupt the removal."""
    old_handlers = {}
    for ending_signal in ENDING_SIGNALS:
        old_handlers[ending_signal] = signal.signal(ending_signal, signal.SIG_IGN)
    try:
        lifecycle.down(names, progress.report)
    finally:
        for ending_signal, handler in old_handlers.items():
            signal.signal(ending_signal, handler)


def _start(names: Names, size: qemu.GuestSize, progress: Progress, *, is_demo: bool) -> Vm:
    names.run_folder.mkdir(parents=True)
    names.owner_file.write_text(lifecycle.owner_text(names))
    names.ssh_socket_folder.mkdir(mode=0o700)
    public_key = state.make_folder(names)
    subnet = network.choose_subnet(names.prefix, network.used_addresses())
    gateway = network.address(subnet, network.GATEWAY)
    new_guest = disk.Guest(
        names=names,
        name=inventory.HOST,
        address=network.address(subnet, guest.GUEST_OCTET),
        inputs=inputs.read_inputs(names.checkout),
        environment=settings.environment(os.environ),
    )
    options, host_key = _build(new_guest, public_key, progress, is_demo=is_demo)
    with progress.step("boot"):
        process = qemu.start(names, new_guest.boot, options, size)
        qemu.set_address(names, process, new_guest.boot, gateway)
        guest.wait_for_ssh(new_guest, process)
    guest.save_state(new_guest, subnet, size, host_key)
    return Vm(
        guest=new_guest, gateway=gateway, is_prepared=options is not qemu.KVM, process=process
    )


def _build(
    new_guest: disk.Guest, public_key: str, progress: Progress, *, is_demo: bool
) -> tuple[tuple[str, ...], str]:
    """Make the disk. Return QEMU's options for the processor, and the guest's public host key."""
    packages: tuple[str, ...] = disk.PACKAGES
    if is_demo:
        packages += disk.DEMO_PACKAGES
    with progress.step("debootstrap and stock kernel"):
        disk.build_root(new_guest, packages)
        disk.copy_kernel(new_guest)
        disk.add_settings(new_guest)
    options = qemu.accelerator(new_guest.boot)
    note = "QEMU uses KVM" if options is qemu.KVM else EMULATION_NOTE
    progress.report(note)
    if is_demo:
        disk.add_checkout(new_guest)
    if options is not qemu.KVM:
        with progress.step("slow parts, without emulation"):
            _prepare(new_guest, progress, is_demo=is_demo)
    with progress.step("disk"):
        host_key = disk.add_identity(new_guest, public_key)
        disk.make_disk(new_guest)
    return options, host_key


def _prepare(new_guest: disk.Guest, progress: Progress, *, is_demo: bool) -> None:
    if is_demo:
        disk.prepare_demo(new_guest)
        return
    layers = image.ensure(new_guest.inputs, new_guest.names, progress.report, plain=True)
    disk.prepare_site(new_guest, layers)


def _run_here(names: Names, *argv: str) -> None:
    """Run a program of this checkout for the guest.

    Raises:
        LabError: If the exit code is not 0.
    """
    variables = os.environ | {"GRIDSTEAD_LAB_NAME": names.lab}
    result = subprocess.run(argv, cwd=names.checkout, env=variables, check=False)
    if result.returncode != 0:
        message = f"{' '.join(argv)} exited {result.returncode}"
        raise LabError(message)
