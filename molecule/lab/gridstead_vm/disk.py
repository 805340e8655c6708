# SPDX-License-Identifier: Apache-2.0
"""The disk of the guest: a stock Debian 13, made with debootstrap, and the stock kernel.

Builds run in their own mount and pid namespaces. Their mounts and processes end with this process.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import building, commands, image, sources
from gridstead_lab.errors import LabError
from gridstead_lab.inputs import Inputs
from gridstead_lab.names import Names
from gridstead_vm import qemu, settings

HERE = Path(__file__).parent
PACKAGES = (
    "apparmor", "ca-certificates", "dbus", "initramfs-tools", "iproute2", "linux-image-amd64",
    "openssh-server", "procps", "python3", "sudo", "systemd-sysv", "udev",
)  # fmt: skip
DEMO_PACKAGES = ("git", "make")  # README.md requires these programs
CHECKOUT = Path("/root/gridstead")  # the checkout in the guest
DISK_SIZE = "40G"  # the file is sparse
# The user network has a name server at 10.0.2.3. The other interface has a fixed address.
OUTSIDE_NETWORK = "[Match]\nMACAddress={mac}\n[Network]\nDHCP=ipv4\n"
INSIDE_NETWORK = "[Match]\nMACAddress={mac}\n[Network]\nAddress={address}/24\nIPv6AcceptRA=no\n"
NAME_SERVER = "nameserver 10.0.2.3\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """The guest before its first boot.

    Attributes:
        names: The names of the guest's objects.
        name: The name of the guest.
        address: The address under which this machine reaches the guest.
        inputs: The apt sources and settings of this machine.
        environment: The environment variables with the settings of pip and npm.
    """

    names: Names
    name: str
    address: str
    inputs: Inputs
    environment: dict[str, str]

    @property
    def boot(self) -> qemu.BootFiles:
        """Return the files with which the guest boots."""
        return qemu.BootFiles(folder=self.names.run_folder)

    @property
    def root(self) -> Path:
        """Return the root folder, which exists until the disk is made."""
        return self.names.run_folder / "root"


def build_root(guest: Guest, packages: tuple[str, ...]) -> None:
    """Create the root folder with debootstrap and install packages in it."""
    files = guest.names.run_folder / "files"
    files.mkdir()
    (files / "0000lab.list").write_text("\n".join(guest.inputs.sources) + "\n")
    (files / "99machine").write_text(_apt_settings(guest))
    mirror = mirror_of(guest.inputs.sources)
    _run(guest, [str(HERE / "root.sh"), str(guest.root), mirror, str(files), *packages], "root")


def mirror_of(apt_sources: tuple[str, ...]) -> str:
    """Return the URI of the source with the suite itself, not with its updates.

    Raises:
        LabError: If no source has the suite.
    """
    for line in apt_sources:
        _, _, uri, suite, *_ = line.split()
        if suite == sources.SUITE:
            return uri
    message = f"no apt source of this machine has a suite that corresponds to {sources.SUITE}"
    raise LabError(message)


def prepare_site(guest: Guest, layers: tuple[image.Layer, ...]) -> None:
    """Install the packages of the roles, and the control plane's environment, in the root folder.

    Args:
        guest: The guest.
        layers: The layers of a plain image of the lab, which contain the downloaded packages.
    """
    copied_folders = {
        "archive": ("var/cache/apt/archives",),
        "wheels": ("var/cache/gridstead", "opt/gridstead", "opt/gridstead-benchmarks"),
    }
    for layer in layers:
        for folder in copied_folders.get(layer.kind, ()):
            target = guest.root / folder
            target.mkdir(parents=True, exist_ok=True)
            commands.run(["cp", "--archive", f"{layer.folder / folder}/.", str(target)])
    shutil.copy(building.OTHER_SUITES_SCRIPT, guest.names.run_folder / "files")
    argv = [str(HERE / "prepare_site.sh"), str(guest.root), str(guest.names.run_folder / "files")]
    _run(guest, [*argv, *guest.inputs.packages], "site")


def add_settings(guest: Guest) -> None:
    """Write this machine's settings of pip and npm, and its CA certificates, to the root folder."""
    listing = commands.run([sys.executable, "-m", "pip", "config", "list"])
    _write(guest.root / "etc/pip.conf", settings.pip_configuration(listing))
    if shutil.which("npm") is not None:
        npm_files = settings.npm_files(_npm_path("userconfig"), _npm_path("globalconfig"))
        for source, target in npm_files:
            _write(guest.root / str(target).lstrip("/"), source.read_text())
    shutil.copy(settings.CA_BUNDLE, guest.root / str(settings.CA_BUNDLE).lstrip("/"))


def add_checkout(guest: Guest) -> None:
    """Clone the last commit of this checkout into the root folder."""
    target = guest.root / str(CHECKOUT).lstrip("/")
    origin = f"file://{guest.names.checkout}"
    commands.run(["git", "clone", "--quiet", "--depth=1", origin, str(target)])


def prepare_demo(guest: Guest) -> None:
    """Run the slow steps of `make demo` in the root folder, on this machine's processors."""
    _run(guest, [str(HERE / "prepare_demo.sh"), str(guest.root), str(CHECKOUT)], "demo")


def add_identity(guest: Guest, public_key: str) -> str:
    """Write name, network, keys and settings of the guest. Return its public host key.

    Settings get the address that this machine has in the guest. Call this function last.
    """
    etc = guest.root / "etc"
    _write(etc / "hostname", f"{guest.name}\n")
    _write(etc / "hosts", f"127.0.0.1 localhost\n{guest.address} {guest.name}\n")
    _write(etc / "fstab", "/dev/vda / ext4 errors=remount-ro 0 1\n")
    _write(etc / "machine-id", "")
    (etc / "resolv.conf").unlink(missing_ok=True)
    _write(etc / "resolv.conf", NAME_SERVER)
    _write(etc / "environment", settings.environment_file(guest.environment))
    outside = OUTSIDE_NETWORK.format(mac=qemu.OUTSIDE_MAC)
    inside = INSIDE_NETWORK.format(mac=qemu.INSIDE_MAC, address=guest.address)
    _write(etc / "systemd/network/10-outside.network", outside)
    _write(etc / "systemd/network/20-inside.network", inside)
    for path in ("etc/apt/apt.conf.d/99machine", "etc/pip.conf", "root/.npmrc", "etc/npmrc"):
        file = guest.root / path
        if file.exists():
            file.write_text(settings.for_guest(file.read_text()))
    (guest.root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    _write(guest.root / "root/.ssh/authorized_keys", public_key, 0o600)
    return (etc / "ssh/ssh_host_ed25519_key.pub").read_text().strip()


def copy_kernel(guest: Guest) -> None:
    """Copy kernel and initial RAM disk out of the root folder, for QEMU."""
    (kernel,) = (guest.root / "boot").glob("vmlinuz-*")
    (ram_disk,) = (guest.root / "boot").glob("initrd.img-*")
    shutil.copy(kernel, guest.boot.kernel)
    shutil.copy(ram_disk, guest.boot.ram_disk)


def make_disk(guest: Guest) -> None:
    """Make the disk of the root folder, and remove the folder."""
    argv = ["mke2fs", "-q", "-t", "ext4", "-d", str(guest.root), str(guest.boot.disk), DISK_SIZE]
    commands.run(argv)
    shutil.rmtree(guest.root)


def _apt_settings(guest: Guest) -> str:
    return "".join(text for _, text in guest.inputs.apt_conf)


def _run(guest: Guest, argv: list[str], log: str) -> None:
    variables = guest.environment | settings.proxies(_apt_settings(guest))
    building.run_isolated(argv, guest.names.run_folder / f"{log}.log", variables)


def _npm_path(key: str) -> str:
    return commands.run(["npm", "config", "get", key]).strip()


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
