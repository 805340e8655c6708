# SPDX-License-Identifier: Apache-2.0
"""Releases of the control plane on a host: installation, switch and rollback."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.roles.catalogue import ROOT

FILES = ROOT / "roles/control_plane/files"
UV = Path(sys.executable).with_name("uv")
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY = "[console_scripts]\ngridstead = gridstead_double:main\n"
MAIN = "import locked_double\n\n\ndef main():\n    print({!r}, locked_double.WORD)\n"


class Host:
    """A host's folder of releases, settings and units. The dependencies are installed."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "opt"
        for place in ("bin", "etc/gridstead", "etc/systemd/system"):
            (folder / place).mkdir(parents=True)
        self.has("systemctl", 'echo "$@" >>"${0%/*}/told"')
        self.lock = folder / "requirements.txt"
        self.lock.write_text("# nothing\n")
        locked = self.root / f"lock-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", locked], check=True)
        (locked / "bin/uv").symlink_to(UV)
        (packages,) = locked.glob("lib/python3*/site-packages")
        (packages / "locked_double.py").write_text("WORD = 'locked'\n")
        (locked / ".whole").touch()

    def has(self, command, text):
        """Replace a command of the host."""
        path = self.folder / "bin" / command
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def script(self, name, *words):
        """Run a script of the role with another /etc and return its output."""
        text = (FILES / name).read_text().replace("/etc/", f"{self.folder}/etc/")
        environment = os.environ | {
            "UV_NO_CACHE": "1",
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        argv = ["bash", "-c", text, name, self.root, *words]
        return subprocess.run(
            argv, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout.strip()

    def install(self, *wheels):
        """Install the release of some wheels, like the role."""
        return self.script("install-environment.sh", self.lock, "", *wheels)

    def switch(self, way, *services):
        """Activate a release or record that it works, like the role."""
        return self.script("switch-environment.sh", way, *services)

    def configure(self, text, *services):
        """Write settings and units of services, like the role."""
        for path in map(self.folder.joinpath, files_of(*services)):
            path.write_text(text)
            path.chmod(0o640)

    def configured(self):
        """Return the present settings and units."""
        return {
            str(path.relative_to(self.folder)): path.read_text()
            for path in self.folder.glob("etc/**/*.*")
        }

    def run(self, wheel, text, *services):
        """Activate a wheel's release with settings and units, up to the start of its services."""
        printed = self.install(wheel)
        self.configure(text, *services)
        self.switch("next")
        return printed

    def says(self, name="venv"):
        """Return the output of a release's command."""
        return subprocess.run(
            [self.root / name / "bin/gridstead"], check=True, capture_output=True, text=True
        ).stdout.strip()


def files_of(*services):
    """Return the files of the services on a host."""
    names = ("etc/gridstead/{}.toml", "etc/systemd/system/gridstead-{}.service")
    return [name.format(service) for service in services for name in names]


def wheel(folder, version):
    """Return a wheel whose command prints its version."""
    path = folder / version / "gridstead-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "gridstead_double.py": MAIN.format(version),
        "gridstead-0.1.0.dist-info/entry_points.txt": ENTRY,
    }
    return packed(path, files)


def packed(path, files):
    """Return a wheel with these files. The path has the wheel's name."""
    project, version, _ = path.name.split("-", 2)
    files |= {
        f"{project}-{version}.dist-info/METADATA": METADATA.format(project, version),
        f"{project}-{version}.dist-info/WHEEL": WHEEL,
    }
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')},\n"
        for name, digest in digests.items()
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
        archive.writestr(f"{project}-{version}.dist-info/RECORD", "".join(rows))
    return path


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def wheels(tmp_path):
    return {version: wheel(tmp_path, version) for version in ("one", "two", "three")}


def test_a_new_release_is_not_active_before_the_switch(host, wheels):
    assert host.install(wheels["one"]) == "changed"
    assert not (host.root / "venv").exists()
    assert host.says("next") == "one locked"
    assert host.switch("next") == "changed"
    assert host.switch("works") == "changed"
    assert (host.install(wheels["one"]), host.switch("next"), host.switch("works")) == ("", "", "")

    assert host.install(wheels["two"]) == "changed"

    assert (host.says(), host.says("next")) == ("one locked", "two locked")
    assert host.install(wheels["two"]) == "changed"  # it is still not in use
    assert host.switch("next") == "changed"
    assert (host.says(), host.says("former")) == ("two locked", "one locked")


def test_the_name_of_a_release_is_known_before_its_installation(host, wheels):
    named = host.script("install-environment.sh", host.lock, "", "--name", wheels["one"])

    assert not list(host.root.glob("release-*"))
    host.install(wheels["one"])
    assert str((host.root / "next").readlink()) == named


def test_a_release_has_all_wheels_and_changes_with_each(host, wheels, tmp_path):
    (tmp_path / "more").mkdir()
    more = packed(tmp_path / "more/more-1.0-py3-none-any.whl", {"more_double.py": "WORD = 1\n"})
    host.install(wheels["one"])
    alone = (host.root / "next").resolve()

    assert host.install(wheels["one"], more) == "changed"

    both = (host.root / "next").resolve()
    named = host.script("install-environment.sh", host.lock, "", "--name", wheels["one"], more)
    modules = {path.name for path in both.glob("lib/python3*/site-packages/*_double.py")}
    assert (both != alone, named) == (True, str(both))
    assert modules == {"gridstead_double.py", "more_double.py"}


def test_a_rollback_restores_the_last_working_settings_and_units(host, wheels):
    host.run(wheels["one"], "of the first days", "agent", "logger")
    host.switch("works", "agent", "logger")
    host.install(wheels["two"])  # and nothing more, that day
    host.configure("of the former", "agent", "logger")
    assert host.switch("works", "agent", "logger") == "changed"
    host.run(wheels["two"], "of the new", "agent", "logger")

    assert host.switch("former", "agent", "logger").split() == ["agent", "logger", "changed"]

    assert host.says() == "one locked"
    assert host.configured() == dict.fromkeys(files_of("agent", "logger"), "of the former")
    assert {(host.folder / name).stat().st_mode & 0o777 for name in files_of("agent")} == {0o640}
    assert host.install(wheels["two"]) == "changed"  # the next run tries again


def test_a_rollback_removes_a_service_that_is_new_in_the_release(host, wheels):
    host.run(wheels["one"], "of the former", "agent")
    host.switch("works", "agent")
    other = host.folder / "etc/gridstead/cvmfs.toml"
    other.write_text("of another role")
    host.run(wheels["two"], "of the new", "agent", "logger")

    assert host.switch("former", "agent", "logger").split() == ["agent", "changed"]

    assert (
        host.folder / "bin/told"
    ).read_text() == "--quiet disable --now gridstead-logger.service\n"
    assert host.configured() == dict.fromkeys(files_of("agent"), "of the former") | {
        "etc/gridstead/cvmfs.toml": "of another role"
    }


@pytest.mark.parametrize("cut", ["systemctl", "rm", "tar", "ln", "mv"])
def test_the_next_run_completes_an_interrupted_rollback(host, wheels, cut):
    host.run(wheels["one"], "of the former", "agent")
    host.switch("works", "agent")
    host.run(wheels["two"], "of the new", "agent", "logger")
    host.has(cut, f'[[ $1 == --list ]] && exec {shutil.which(cut)} "$@"\nkill -9 "$PPID"')
    with pytest.raises(subprocess.CalledProcessError):
        host.switch("former", "agent", "logger")
    host.has(cut, f'exec {shutil.which(cut)} "$@"' if cut != "systemctl" else "")

    assert host.run(wheels["two"], "of the new", "agent", "logger") == "changed"
    host.switch("former", "agent", "logger")

    assert host.says() == "one locked"
    assert host.configured() == dict.fromkeys(files_of("agent"), "of the former")


def test_an_interrupted_start_is_repeated_and_rolled_back(host, wheels):
    host.run(wheels["one"], "of the former", "agent")
    host.switch("works", "agent")
    host.run(wheels["two"], "of the new", "agent")

    assert host.run(wheels["two"], "of the new", "agent") == "changed"
    host.switch("former", "agent")

    assert (host.says(), set(host.configured().values())) == ("one locked", {"of the former"})


def test_a_rollback_skips_a_release_that_never_worked(host, wheels):
    host.run(wheels["one"], "of the former", "agent")
    host.switch("works", "agent")
    for version in ("two", "three"):
        host.run(wheels[version], "of the new", "agent")

    host.switch("former", "agent")

    assert (host.says(), set(host.configured().values())) == ("one locked", {"of the former"})


def test_a_reinstalled_release_that_does_not_start_is_rolled_back(host, wheels):
    for version in ("one", "two"):
        host.run(wheels[version], f"of {version}", "agent")
        host.switch("works", "agent")
    host.run(wheels["one"], "of now", "agent")

    assert host.run(wheels["one"], "of now", "agent") == "changed"
    host.switch("former", "agent")

    assert (host.says(), set(host.configured().values())) == ("two locked", {"of two"})


def test_only_root_can_read_the_saved_settings(host, wheels):
    host.run(wheels["one"], "secret", "agent")
    host.switch("works", "agent")

    (note,) = host.root.glob("release-*/works*")
    assert note.stat().st_mode & 0o777 == 0o600


def test_the_first_release_has_no_rollback(host, wheels):
    host.install(wheels["one"])
    host.switch("next")
    host.switch("works")

    assert host.switch("former") == ""
    assert host.says() == "one locked"


def test_an_unreadable_link_is_an_error(host, wheels):
    host.install(wheels["one"])
    host.has("readlink", "exit 1")

    with pytest.raises(subprocess.CalledProcessError):
        host.switch("next")

    assert not (host.root / "venv").exists()


def test_an_incomplete_release_is_installed_again(host, wheels):
    host.install(wheels["one"])
    (release,) = host.root.glob("release-*")
    (release / ".whole").unlink()
    (release / "bin/gridstead").write_text("half")

    host.install(wheels["one"])

    assert host.says("next") == "one locked"


def test_two_releases_are_retained_and_the_old_environment_is_removed(host, wheels):
    old = host.root / "venv/bin"
    old.mkdir(parents=True)
    for version in ("one", "two", "three"):
        host.install(wheels[version])
        host.switch("next")
        host.switch("works")

    assert len(list(host.root.glob("release-*"))) == 2
    assert len(list(host.root.glob("lock-*"))) == 1
    assert (host.says(), host.says("former")) == ("three locked", "two locked")


@pytest.fixture
def installed_with(host):
    """A function that runs the installation with lines of the lock file and returns the arguments
    of uv.
    """
    wheelhouse = host.folder / "wheels"
    wheelhouse.mkdir()
    uv = packed(
        wheelhouse / "uv-0.0.1-py3-none-any.whl",
        {"uv-0.0.1.data/scripts/uv": f'#!/bin/sh\necho "$*" >>{host.folder}/uv-told\n'},
    )
    # An environment whose pip is this one's.
    pip = f'#!/bin/bash\nexec {sys.executable} -I -m pip --isolated "$@" --target "${{0%/*}}/pip-has"\n'
    (host.folder / "pip").write_text(pip)
    host.has(
        "python3",
        f'bin=${{@: -1}}/bin; mkdir -p "$bin"; ln -s pip-has/bin/uv "$bin"; install -m 755 {host.folder}/pip "$bin"',
    )

    def run(*entries):
        host.lock.write_text(
            "".join(
                entry.format(sha=hashlib.sha256(uv.read_bytes()).hexdigest()) for entry in entries
            )
        )
        host.script("install-environment.sh", host.lock, wheelhouse)
        return (host.folder / "uv-told").read_text()

    return run


OTHERS = ["other==1 \\\n    --hash=sha256:00\n", "uvicorn==1 \\\n    --hash=sha256:00\n"]


def test_the_installer_is_the_uv_of_the_lock_file(installed_with):
    printed = installed_with(
        OTHERS[0], "uv==0.0.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:{sha}\n", OTHERS[1]
    )

    assert "--require-hashes --requirement" in printed


@pytest.mark.parametrize(
    "entry", [f"uv==0.0.1 \\\n    --hash=sha256:{64 * '0'}\n", "uv==0.0.1\n", ""]
)
def test_any_other_installer_is_refused(host, installed_with, entry):
    """A changed uv, a uv with an unknown hash and the newest uv are refused."""
    with pytest.raises(subprocess.CalledProcessError):
        installed_with(OTHERS[0], entry, OTHERS[1])

    assert not (host.folder / "uv-told").exists()


def test_the_lock_file_of_the_control_plane_names_its_installer():
    assert re.search(
        r"^uv==\S+ \\\n +--hash=sha256:",
        (ROOT / "requirements/control.txt").read_text(),
        re.MULTILINE,
    )
