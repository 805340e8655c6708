# SPDX-License-Identifier: Apache-2.0
"""The steps for one host: mount its root, write its identity, boot it, stop it and remove it."""

import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import cgroups, commands, namespaces, processes
from gridstead_lab.errors import LabError
from gridstead_lab.names import MARK, Names

# This signal lets systemd, the first process of a host, power the host off.
POWER_OFF = signal.SIGRTMIN + 4
# Devices that all users of a host may open, as on a real machine. Values: major and minor number.
DEVICES = {"fuse": (10, 229), "net/tun": (10, 200)}
STOP_TIMEOUT_S = 10.0
# systemd-nspawn creates folders here, named after the machine. A killed systemd-nspawn leaves them.
NSPAWN_RUN = Path("/run/systemd/nspawn")
CONSOLE_TAIL_BYTES = 4096
TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedHost:
    """A host of a lab with its address, the last octet of the address, and its cgroup setup."""

    name: str
    octet: int
    address: str
    cgroup_setup: cgroups.CgroupSetup


def mount_root(names: Names, host: str, lowerdir: str) -> None:
    """Mount a new root for a host over the image."""
    folder = names.host_folder(host)
    for part in ("upper", "work", "root"):
        (folder / part).mkdir(parents=True)
        (folder / part).chmod(0o755)
    # With option volatile, sync does not write to the disk. The data of a killed host is still
    # in the memory of the machine that runs the lab. A crash of this machine destroys the lab.
    options = f"lowerdir={lowerdir},upperdir={folder}/upper,workdir={folder}/work,volatile"
    commands.run(
        ["mount", "-t", "overlay", names.machine(host), "-o", options, str(names.root_folder(host))]
    )


def give_identity(names: Names, placed: PlacedHost, public_key: str) -> str:
    """Write the files that differ between hosts into a host's root.

    Call this function before the first boot and not later, because Ansible roles manage these
    files after the boot. Returns the public host key.
    """
    root = names.root_folder(placed.name)
    key = root / "etc/ssh/ssh_host_ed25519_key"
    # The image may contain keys that openssh-server created when the image was built.
    for key_of_image in key.parent.glob("ssh_host_*"):
        key_of_image.unlink()
    commands.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", placed.name, "-f", str(key)])
    _write(root / "etc/machine-id", uuid.uuid4().hex + "\n", 0o444)
    _write(root / "etc/hostname", placed.name + "\n")
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n{placed.address} {placed.name}\n")
    # Port 53 of this address refuses connections, so look-ups fail at once. With a name server that
    # does not answer, each start of slurmctld takes 10 s longer.
    _write(root / "etc/resolv.conf", "nameserver 127.0.0.1\n")
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    _write(root / "root/.ssh/authorized_keys", public_key, 0o600)
    # Create new device nodes with mode 0666. The mode of the machine's own nodes is often 0600.
    for device, numbers in DEVICES.items():
        node = names.host_folder(placed.name) / "dev" / device
        node.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(node, 0o020666, os.makedev(*numbers))  # a character device
        node.chmod(0o666)
    return key.with_suffix(".pub").read_text().strip()


def boot(names: Names, placed: PlacedHost) -> None:
    """Start a host whose root and network exist, and return immediately.

    A shell joins the host's cgroups and then executes systemd-nspawn.
    """
    # After a crash of systemd-nspawn these folders still exist, and the host would not start.
    remove_nspawn_folders(names.machine(placed.name))
    cgroups.prepare(placed.cgroup_setup)
    folder = names.host_folder(placed.name)
    join = ""
    for cgroup in placed.cgroup_setup.join:
        join += f"echo $$ > {cgroup}/cgroup.procs || exit 70\n"
    with (folder / "console.log").open("ab") as console:
        subprocess.Popen(
            ["/bin/sh", "-c", f'{join}exec "$@"', "sh", *_nspawn_command(names, placed)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            cwd="/",
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                # Makes /proc/sys/net writable in the host's network namespace and in the network
                # namespaces that users of the host create.
                "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
                MARK: names.prefix,
            },
        )


def _nspawn_command(names: Names, placed: PlacedHost) -> list[str]:
    """Return the command that runs systemd-nspawn for a host."""
    folder, setup = names.host_folder(placed.name), placed.cgroup_setup
    binds = [f"--bind={outside}:{inside}" for outside, inside in setup.binds]
    binds += [f"--bind={folder}/dev/{device}:/dev/{device}" for device in DEVICES]
    root = names.root_folder(placed.name)
    return [
        *setup.launcher, *namespaces.launcher(), "systemd-nspawn", "--quiet",
        f"--cpu-affinity={namespaces.payload_cpus()}", f"--directory={root}",
        "--boot", f"--network-namespace-path={folder}/netns", "--register=no", "--keep-unit",
        f"--machine={names.machine(placed.name)}", f"--hostname={placed.name}", "--resolv-conf=off",
        "--timezone=off", "--link-journal=no", "--console=pipe", "--capability=CAP_NET_ADMIN",
        *binds,
    ]  # fmt: skip


def power_off(names: Names, nspawn: int) -> None:
    """Ask a host to shut down, and return immediately."""
    folder = names.run_folder / "hosts"
    init = processes.init_of(nspawn)
    if init is not None:
        # While systemd-nspawn runs, the pid of init belongs to its host.
        processes.send(init, POWER_OFF, lambda _: processes.is_nspawn_of(nspawn, folder))


def cut_power(names: Names, host: str) -> None:
    """Kill all processes of a host, as a power cut does, and wait until they have ended.

    Unlike after a real power cut, writes that were not synced are kept.

    Raises:
        LabError: If processes of the host still run after 10 s.
    """
    _kill_processes(names, host)
    remove_nspawn_folders(names.machine(host))


def _kill_processes(names: Names, host: str) -> None:
    folder = names.host_folder(host)
    nspawn = processes.nspawns(names).get(host)
    if nspawn is None:
        return
    init = processes.init_of(nspawn)
    if init is not None:
        processes.send(init, signal.SIGKILL, lambda _: processes.is_nspawn_of(nspawn, folder))

    def is_running() -> bool:
        return any(processes.is_nspawn_of(pid, folder) for pid in processes.pids())

    has_stopped = processes.wait_until_false(is_running, seconds=STOP_TIMEOUT_S / 2)
    if not has_stopped:
        has_stopped = processes.kill_all(
            lambda pid: processes.is_nspawn_of(pid, folder), seconds=STOP_TIMEOUT_S / 2
        )
    if not has_stopped:
        message = f"could not stop host {host}"
        raise LabError(message, f"See {folder}/console.log.")


def last_console_line(names: Names, host: str) -> str:
    """Return the last line of a host's console that is not empty, or an empty text."""
    try:
        with (names.host_folder(host) / "console.log").open("rb") as console:
            size = console.seek(0, os.SEEK_END)
            console.seek(max(0, size - CONSOLE_TAIL_BYTES))
            text = console.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    lines = TERMINAL_CODES.sub("", text).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def nspawn_folders(machine: str) -> list[Path]:
    """Return the folders of systemd-nspawn for the machines whose name matches a pattern.

    Since systemd 257, ``unix-export/<machine>`` is a mount. systemd-nspawn refuses to start a
    machine if this mount exists.
    """
    return [folder for folder in NSPAWN_RUN.glob(f"*/{machine}") if folder.is_dir()]


def remove_nspawn_folders(machine: str) -> None:
    """Remove the folders of systemd-nspawn for a machine that does not run."""
    for folder in nspawn_folders(machine):
        unmount_all(folder)
        remove_folder(folder)


def unmount_all(folder: Path) -> None:
    """Unmount all mounts at and below a folder, newest first.

    A mount that stays busy is unmounted lazily.
    """
    for _ in range(20):
        points = mount_points(folder)
        if not points:
            return
        for point in points:
            subprocess.run(["umount", point], capture_output=True, check=False)
        time.sleep(0.02)
    for point in mount_points(folder):
        commands.run(["umount", "--lazy", point])


def mount_points(folder: Path) -> list[str]:
    """Return the mount points at and below a folder, newest mount first."""
    return mount_points_in(Path("/proc/self/mountinfo").read_text(), folder)


def mount_points_in(mountinfo: str, folder: Path) -> list[str]:
    """Return the mount points at and below a folder in the text of /proc/self/mountinfo."""
    points = []
    for line in mountinfo.splitlines():
        point = line.split()[4]  # the mount point is the fifth field
        if point == str(folder) or point.startswith(f"{folder}/"):
            points.append(point)
    points.reverse()
    return points


def remove_folder(folder: Path) -> None:
    """Remove a folder. Nothing may be mounted at the folder or below it.

    Raises:
        LabError: If there is a mount. In this case, nothing is removed.
    """
    mounts = mount_points(folder)
    if mounts:
        message = f"could not unmount {mounts[0]}"
        raise LabError(message)
    if folder.exists():
        shutil.rmtree(folder)


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text)
    file.chmod(mode)
