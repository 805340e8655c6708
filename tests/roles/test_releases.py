# SPDX-License-Identifier: Apache-2.0
"""Releases of the control plane beside each other on a host: made, taken into use, gone back from."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.roles.catalogue import ROOT

FILES = ROOT / "roles/control_plane/files"
UV = Path(sys.executable).with_name("uv")
METADATA = "Metadata-Version: 2.1\nName: gridstead\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY = "[console_scripts]\ngridstead = gridstead_double:main\n"
MAIN = "import locked_double\n\n\ndef main():\n    print({!r}, locked_double.WORD)\n"


class Host:
    """A host's folder of releases and its settings, with the dependencies already there."""

    def __init__(self, folder):
        self.root = folder / "opt"
        self.settings = folder / "etc"
        self.settings.mkdir()
        self.lock = folder / "requirements.txt"
        self.lock.write_text("# nothing\n")
        locked = self.root / f"lock-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", locked], check=True)
        (locked / "bin/uv").symlink_to(UV)
        (packages,) = locked.glob("lib/python3*/site-packages")
        (packages / "locked_double.py").write_text("WORD = 'locked'\n")
        (locked / ".whole").touch()

    def script(self, name, *words):
        """Run a script of the role with /etc/gridstead elsewhere and return what it prints."""
        text = (FILES / name).read_text().replace("/etc/gridstead", str(self.settings))
        environment = os.environ | {"UV_NO_CACHE": "1"}
        argv = ["bash", "-c", text, name, self.root, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    def install(self, wheel):
        """Make a wheel's release, as the role does."""
        return self.script("install-environment.sh", self.lock, "", wheel)

    def switch(self, way):
        """Take a release into use, as the role does."""
        return self.script("switch-environment.sh", way)

    def says(self, name="venv"):
        """Return what the command of a release says."""
        return subprocess.run(
            [self.root / name / "bin/gridstead"], check=True, capture_output=True, text=True
        ).stdout.strip()


def wheel(folder, version):
    """Return a wheel whose command says its version."""
    path = folder / version / "gridstead-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "gridstead_double.py": MAIN.format(version),
        "gridstead-0.1.0.dist-info/METADATA": METADATA.format("0.1.0"),
        "gridstead-0.1.0.dist-info/WHEEL": WHEEL,
        "gridstead-0.1.0.dist-info/entry_points.txt": ENTRY,
    }
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    rows = [f"{name},sha256={base64.urlsafe_b64encode(one).decode().rstrip('=')},\n" for name, one in digests.items()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("gridstead-0.1.0.dist-info/RECORD", "".join(rows))
    return path


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def wheels(tmp_path):
    return {version: wheel(tmp_path, version) for version in ("one", "two", "three")}


def test_a_release_is_beside_the_one_in_use_until_it_is_taken(host, wheels):
    assert host.install(wheels["one"]) == "changed"
    assert not (host.root / "venv").exists()
    assert host.says("next") == "one locked"
    assert host.switch("next") == "changed"
    assert (host.install(wheels["one"]), host.switch("next")) == ("", "")

    assert host.install(wheels["two"]) == "changed"

    assert (host.says(), host.says("next")) == ("one locked", "two locked")
    assert host.install(wheels["two"]) == "changed"  # it is still not in use
    assert host.switch("next") == "changed"
    assert (host.says(), host.says("former")) == ("two locked", "one locked")


def test_the_way_back_has_the_settings_that_the_former_release_had(host, wheels):
    host.install(wheels["one"])
    host.switch("next")
    settings = host.settings / "agent.toml"
    settings.write_text("of the former")
    settings.chmod(0o640)
    host.install(wheels["two"])
    settings.write_text("of the new")
    host.install(wheels["two"])  # a run that was cut off here comes again
    host.switch("next")

    assert host.switch("former") == "changed"

    assert host.says() == "one locked"
    assert settings.read_text() == "of the former"
    assert settings.stat().st_mode & 0o777 == 0o640
    assert host.install(wheels["two"]) == "changed"  # the next run tries again


def test_the_first_release_has_no_way_back(host, wheels):
    host.install(wheels["one"])
    host.switch("next")

    assert host.switch("former") == ""
    assert host.says() == "one locked"


def test_a_link_that_cannot_be_read_is_not_taken_for_none(host, wheels, tmp_path, monkeypatch):
    host.install(wheels["one"])
    (tmp_path / "readlink").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "readlink").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(subprocess.CalledProcessError):
        host.switch("next")

    assert not (host.root / "venv").exists()


def test_a_release_that_was_cut_off_is_made_anew(host, wheels):
    host.install(wheels["one"])
    (release,) = host.root.glob("release-*")
    (release / ".whole").unlink()
    (release / "bin/gridstead").write_text("half")

    host.install(wheels["one"])

    assert host.says("next") == "one locked"


def test_two_releases_are_kept_and_an_environment_of_before_gives_way(host, wheels):
    old = host.root / "venv/bin"
    old.mkdir(parents=True)
    for version in ("one", "two", "three"):
        host.install(wheels[version])
        host.switch("next")

    assert len(list(host.root.glob("release-*"))) == 2
    assert len(list(host.root.glob("lock-*"))) == 1
    assert (host.says(), host.says("former")) == ("three locked", "two locked")
