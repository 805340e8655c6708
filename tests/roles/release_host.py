# SPDX-License-Identifier: Apache-2.0
"""A host with releases of the control plane, in a folder of this machine."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.roles.catalogue import ROOT

FILES = ROOT / "roles/control_plane/files"
UV = Path(sys.executable).with_name("uv")
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Host:
    """A folder with releases, settings, systemd units and fake commands.

    The Python packages that a release depends on are already installed.
    """

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "opt"
        for name in ("bin", "etc/gridstead", "etc/systemd/system"):
            (folder / name).mkdir(parents=True)
        self.set_command("systemctl", 'echo "$@" >>"${0%/*}/systemctl-calls"')
        self.lock = folder / "requirements.txt"
        self.lock.write_text("# nothing\n")
        digest = hashlib.sha256(self.lock.read_bytes()).hexdigest()
        dependencies = self.root / f"lock-{digest[:12]}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", dependencies], check=True)
        (dependencies / "bin/uv").symlink_to(UV)
        (packages,) = dependencies.glob("lib/python3*/site-packages")
        (packages / "fake_dependency.py").write_text("TEXT = 'locked'\n")
        (dependencies / ".whole").touch()  # the mark of a complete environment

    def set_command(self, command, script):
        """Replace a command of the host."""
        path = self.folder / "bin" / command
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def run_script(self, name, *words):
        """Run a script of the role with the host's folder etc as /etc. Return its output."""
        text = (FILES / name).read_text().replace("/etc/", f"{self.folder}/etc/")
        environment = os.environ | {
            "UV_NO_CACHE": "1",
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        argv = ["bash", "-c", text, name, self.root, *words]
        result = subprocess.run(
            argv, check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        return result.stdout.strip()

    def install(self, *wheels):
        """Install a release with these wheels, as the role does. Return the script's output."""
        return self.run_script("install-environment.sh", self.lock, "", *wheels)

    def switch(self, action, *services):
        """Run the role's script with an action.

        Action ``next`` activates the release that was installed last. Action ``works`` records that
        the active release works. Action ``former`` rolls back to the last release that worked. The
        script prints "changed" if it has changed something.
        """
        return self.run_script("switch-environment.sh", action, *services)

    def configure(self, text, *services):
        """Write a text as the settings and as the unit of each service, as the role does."""
        for path in map(self.folder.joinpath, files_of(*services)):
            path.write_text(text)
            path.chmod(0o640)

    def configuration(self):
        """Return the texts of all settings files and units, as a dict by path."""
        paths = self.folder.glob("etc/**/*.*")
        return {str(path.relative_to(self.folder)): path.read_text() for path in paths}

    def deploy(self, wheel, text, *services):
        """Install a wheel, write settings and units, and activate the release.

        Return the output of the installation. The release is not yet recorded as working.
        """
        output = self.install(wheel)
        self.configure(text, *services)
        self.switch("next")
        return output

    def run_command(self, name="venv"):
        """Return the output of the command gridstead of a release."""
        argv = [self.root / name / "bin/gridstead"]
        result = subprocess.run(argv, check=True, capture_output=True, text=True)
        return result.stdout.strip()


def files_of(*services):
    """Return the paths of the settings and the units of services."""
    paths = []
    for service in services:
        paths += [f"etc/gridstead/{service}.toml"]
        paths += [f"etc/systemd/system/gridstead-{service}.service"]
    return paths


def build_wheel(path, files):
    """Write a wheel with these files. The file name gives the project and the version."""
    project, version, _ = path.name.split("-", 2)
    files |= {
        f"{project}-{version}.dist-info/METADATA": METADATA.format(project, version),
        f"{project}-{version}.dist-info/WHEEL": WHEEL,
    }
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16  # the mode of a program
            archive.writestr(entry, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{name},sha256={digest.decode().rstrip('=')},\n"
        archive.writestr(f"{project}-{version}.dist-info/RECORD", record)
    return path
