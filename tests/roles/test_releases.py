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
ENTRY_POINTS = "[console_scripts]\ngridstead = fake_gridstead:main\n"
# The fake gridstead prints its version and the text of a dependency, for example "one locked".
MAIN = "import fake_dependency\n\n\ndef main():\n    print({!r}, fake_dependency.TEXT)\n"


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


def build_gridstead(folder, version):
    """Return a wheel whose command prints its version."""
    path = folder / version / "gridstead-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "fake_gridstead.py": MAIN.format(version),
        "gridstead-0.1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    return build_wheel(path, files)


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


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def wheels(tmp_path):
    """Return the wheels of three versions of the control plane, as a dict by version."""
    return {version: build_gridstead(tmp_path, version) for version in ("one", "two", "three")}


def test_a_new_release_is_not_active_before_the_switch(host, wheels):
    assert host.install(wheels["one"]) == "changed"
    assert not (host.root / "venv").exists()
    assert host.run_command("next") == "one locked"
    assert host.switch("next") == "changed"
    assert host.switch("works") == "changed"
    assert host.install(wheels["one"]) == ""
    assert host.switch("next") == ""
    assert host.switch("works") == ""

    assert host.install(wheels["two"]) == "changed"

    assert host.run_command() == "one locked"
    assert host.run_command("next") == "two locked"
    assert host.install(wheels["two"]) == "changed"  # The release is still not active.
    assert host.switch("next") == "changed"
    assert host.run_command() == "two locked"
    assert host.run_command("former") == "one locked"


def test_the_name_of_a_release_is_known_before_its_installation(host, wheels):
    name = host.run_script("install-environment.sh", host.lock, "", "--name", wheels["one"])

    assert not list(host.root.glob("release-*"))
    host.install(wheels["one"])
    assert str((host.root / "next").readlink()) == name


def test_a_different_set_of_wheels_makes_a_different_release(host, wheels, tmp_path):
    (tmp_path / "more").mkdir()
    other_wheel = build_wheel(tmp_path / "more/more-1.0-py3-none-any.whl", {"fake_more.py": ""})
    host.install(wheels["one"])
    first_release = (host.root / "next").resolve()

    assert host.install(wheels["one"], other_wheel) == "changed"

    second_release = (host.root / "next").resolve()
    name = host.run_script(
        "install-environment.sh", host.lock, "", "--name", wheels["one"], other_wheel
    )
    (packages,) = second_release.glob("lib/python3*/site-packages")
    assert second_release != first_release
    assert name == str(second_release)
    assert (packages / "fake_gridstead.py").exists()
    assert (packages / "fake_more.py").exists()


def test_a_rollback_restores_the_last_working_settings_and_units(host, wheels):
    host.deploy(wheels["one"], "of the first deployment", "agent", "logger")
    host.switch("works", "agent", "logger")
    host.install(wheels["two"])  # This run of the role ends before it activates the release.
    host.configure("old", "agent", "logger")
    assert host.switch("works", "agent", "logger") == "changed"
    host.deploy(wheels["two"], "new", "agent", "logger")

    assert host.switch("former", "agent", "logger").split() == ["agent", "logger", "changed"]

    assert host.run_command() == "one locked"
    assert host.configuration() == dict.fromkeys(files_of("agent", "logger"), "old")
    for name in files_of("agent"):
        assert (host.folder / name).stat().st_mode & 0o777 == 0o640
    assert host.install(wheels["two"]) == "changed"  # The next run installs the release again.


def test_a_rollback_removes_a_service_that_is_new_in_the_release(host, wheels):
    host.deploy(wheels["one"], "old", "agent")
    host.switch("works", "agent")
    other = host.folder / "etc/gridstead/cvmfs.toml"
    other.write_text("of another role")
    host.deploy(wheels["two"], "new", "agent", "logger")

    assert host.switch("former", "agent", "logger").split() == ["agent", "changed"]

    calls = (host.folder / "bin/systemctl-calls").read_text()
    assert calls == "--quiet disable --now gridstead-logger.service\n"
    assert host.configuration() == {
        "etc/gridstead/agent.toml": "old",
        "etc/systemd/system/gridstead-agent.service": "old",
        "etc/gridstead/cvmfs.toml": "of another role",
    }


@pytest.mark.parametrize("command", ["systemctl", "rm", "tar", "ln", "mv"])
def test_a_deployment_after_an_interrupted_rollback_succeeds(host, wheels, command):
    """The rollback script is killed when it calls the command."""
    host.deploy(wheels["one"], "old", "agent")
    host.switch("works", "agent")
    host.deploy(wheels["two"], "new", "agent", "logger")
    real_command = shutil.which(command)
    # The script is not killed at "tar --list", which changes nothing. $PPID is the script.
    host.set_command(command, f'[[ $1 == --list ]] && exec {real_command} "$@"\nkill -9 "$PPID"')
    with pytest.raises(subprocess.CalledProcessError):
        host.switch("former", "agent", "logger")
    # The command works again. The command systemctl stays a fake.
    host.set_command(command, "" if command == "systemctl" else f'exec {real_command} "$@"')

    assert host.deploy(wheels["two"], "new", "agent", "logger") == "changed"
    host.switch("former", "agent", "logger")

    assert host.run_command() == "one locked"
    assert host.configuration() == dict.fromkeys(files_of("agent"), "old")


def test_a_release_whose_start_was_interrupted_can_be_rolled_back(host, wheels):
    host.deploy(wheels["one"], "old", "agent")
    host.switch("works", "agent")
    # This run ends before it records that version "two" works.
    host.deploy(wheels["two"], "new", "agent")

    assert host.deploy(wheels["two"], "new", "agent") == "changed"
    host.switch("former", "agent")

    assert host.run_command() == "one locked"
    assert set(host.configuration().values()) == {"old"}


def test_a_rollback_skips_a_release_that_never_worked(host, wheels):
    host.deploy(wheels["one"], "old", "agent")
    host.switch("works", "agent")
    for version in ("two", "three"):
        host.deploy(wheels[version], "new", "agent")

    host.switch("former", "agent")

    assert host.run_command() == "one locked"
    assert set(host.configuration().values()) == {"old"}


def test_a_reinstalled_release_that_does_not_start_is_rolled_back(host, wheels):
    for version in ("one", "two"):
        host.deploy(wheels[version], f"of {version}", "agent")
        host.switch("works", "agent")
    host.deploy(wheels["one"], "reinstalled", "agent")

    assert host.deploy(wheels["one"], "reinstalled", "agent") == "changed"
    host.switch("former", "agent")

    assert host.run_command() == "two locked"
    assert set(host.configuration().values()) == {"of two"}


def test_only_root_can_read_the_saved_settings(host, wheels):
    host.deploy(wheels["one"], "secret", "agent")
    host.switch("works", "agent")

    (saved_settings,) = host.root.glob("release-*/works*")
    assert saved_settings.stat().st_mode & 0o777 == 0o600


def test_a_rollback_of_the_first_release_changes_nothing(host, wheels):
    host.install(wheels["one"])
    host.switch("next")
    host.switch("works")

    assert host.switch("former") == ""
    assert host.run_command() == "one locked"


def test_an_unreadable_link_is_an_error(host, wheels):
    host.install(wheels["one"])
    host.set_command("readlink", "exit 1")

    with pytest.raises(subprocess.CalledProcessError):
        host.switch("next")

    assert not (host.root / "venv").exists()


def test_an_incomplete_release_is_installed_again(host, wheels):
    host.install(wheels["one"])
    (release,) = host.root.glob("release-*")
    (release / ".whole").unlink()
    (release / "bin/gridstead").write_text("half")

    host.install(wheels["one"])

    assert host.run_command("next") == "one locked"


def test_two_releases_are_retained_and_the_old_environment_is_removed(host, wheels):
    old_environment = host.root / "venv/bin"
    old_environment.mkdir(parents=True)
    for version in ("one", "two", "three"):
        host.install(wheels[version])
        host.switch("next")
        host.switch("works")

    assert len(list(host.root.glob("release-*"))) == 2
    assert len(list(host.root.glob("lock-*"))) == 1
    assert host.run_command() == "three locked"
    assert host.run_command("former") == "two locked"


@pytest.fixture
def install_with_lock(host):
    """Return a function that installs the dependencies of a lock file.

    The function takes the lock file's entry for uv, and replaces ``{sha}`` in the entry by the hash
    of a fake uv. It returns the arguments with which the script called the fake uv.
    """
    wheelhouse = host.folder / "wheels"
    wheelhouse.mkdir()
    uv = build_wheel(
        wheelhouse / "uv-0.0.1-py3-none-any.whl",
        {"uv-0.0.1.data/scripts/uv": f'#!/bin/sh\necho "$*" >>{host.folder}/uv-calls\n'},
    )
    digest = hashlib.sha256(uv.read_bytes()).hexdigest()
    # The fake python3 creates an environment that contains the fake pip.
    pip = host.folder / "pip"
    pip.write_text(
        "#!/bin/bash\n"
        f'exec {sys.executable} -I -m pip --isolated "$@" --target "${{0%/*}}/installed"\n'
    )
    host.set_command(
        "python3",
        'bin=${@: -1}/bin\nmkdir -p "$bin"\nln -s installed/bin/uv "$bin"\n'
        f'install -m 755 {pip} "$bin"',
    )

    def run(entry):
        entries = (OTHER_ENTRIES[0], entry.format(sha=digest), OTHER_ENTRIES[1])
        host.lock.write_text("".join(entries))
        host.run_script("install-environment.sh", host.lock, wheelhouse)
        return (host.folder / "uv-calls").read_text()

    return run


OTHER_ENTRIES = ("other==1 \\\n    --hash=sha256:00\n", "uvicorn==1 \\\n    --hash=sha256:00\n")


def test_the_installer_is_the_uv_of_the_lock_file(install_with_lock):
    arguments = install_with_lock(
        "uv==0.0.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:{sha}\n"
    )

    assert "--require-hashes --requirement" in arguments


@pytest.mark.parametrize(
    "entry", [f"uv==0.0.1 \\\n    --hash=sha256:{64 * '0'}\n", "uv==0.0.1\n", ""]
)
def test_any_other_installer_is_refused(host, install_with_lock, entry):
    """The lock file's entry for uv has a wrong hash, has no hash, or is missing."""
    with pytest.raises(subprocess.CalledProcessError):
        install_with_lock(entry)

    assert not (host.folder / "uv-calls").exists()


def test_the_lock_file_of_the_control_plane_contains_uv_with_a_hash():
    text = (ROOT / "requirements/control.txt").read_text()

    assert re.search(r"^uv==\S+ \\\n +--hash=sha256:", text, re.MULTILINE)
