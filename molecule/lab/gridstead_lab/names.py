# SPDX-License-Identifier: Apache-2.0
"""The names of the objects of one lab.

The name of every kernel object of a lab starts with the lab's prefix. Teardown therefore finds the
objects by name, even if the run that created the objects was killed. Two labs never share an
object.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab.errors import LabError

STORE = Path("/var/lib/gridstead-lab").resolve()  # mount tables contain resolved paths
MARK = "GRIDSTEAD_LAB"
_LAB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names and folders of a lab of a checkout. ``checkout`` is a resolved path."""

    checkout: Path
    lab: str

    @property
    def prefix(self) -> str:
        """Return ``gs`` and four hex digits of a hash of checkout and lab."""
        return "gs" + hashlib.sha256(f"{self.checkout}{self.lab}".encode()).hexdigest()[:4]

    @property
    def bridge(self) -> str:
        """Return the name of the lab's bridge."""
        return f"{self.prefix}br"

    def veth(self, octet: int) -> str:
        """Return the name of the veth interface that connects a host to the lab's bridge.

        Args:
            octet: The last octet of the host's address.
        """
        return f"{self.prefix}v{octet}"

    def machine(self, host: str) -> str:
        """Return the name of a host for systemd-nspawn's --machine."""
        return f"{self.prefix}-{host}"

    @property
    def mark(self) -> str:
        """Return the environment entry that marks the processes of this lab's commands."""
        return f"{MARK}={self.prefix}"

    @property
    def state_folder(self) -> Path:
        """Return the lab's folder in the checkout: keys, ssh_config, state.json and secrets."""
        return self.checkout / ".lab" / self.lab

    @property
    def run_folder(self) -> Path:
        """Return the lab's folder outside the checkout, which contains the hosts' folders."""
        return STORE / "labs" / self.prefix

    def host_folder(self, host: str) -> Path:
        """Return the folder of a host, with upper, work, root, dev, netns and console.log."""
        return self.run_folder / "hosts" / host

    def root_folder(self, host: str) -> Path:
        """Return the mount point of a host's root."""
        return self.host_folder(host) / "root"

    @property
    def owner_file(self) -> Path:
        """Return the file with the name of the lab that uses this prefix."""
        return self.run_folder / "owner"

    @property
    def ssh_socket_folder(self) -> Path:
        """Return the folder for the sockets of shared ssh connections.

        The path is short, because a socket's path can have at most 107 bytes.
        """
        return self.run_folder / "ssh"

    def build_folder(self, layer: str) -> Path:
        """Return the folder in which this lab builds an image layer."""
        return STORE / "images" / f".build-{self.prefix}-{layer}"


def names(checkout: Path, lab: str) -> Names:
    """Return the names of a lab.

    Raises:
        LabError: If the lab's name is too long or contains a forbidden character.
    """
    if _LAB_NAME.fullmatch(lab) is None:
        message = f"lab name {lab!r} does not match {_LAB_NAME.pattern}"
        raise LabError(message)
    return Names(checkout=checkout.resolve(), lab=lab)
