# SPDX-License-Identifier: Apache-2.0
"""Releases of the control plane on a host: installation, switch and rollback."""

import shutil
import subprocess

import pytest
from tests.roles.release_host import Host, build_wheel, files_of

ENTRY_POINTS = "[console_scripts]\ngridstead = fake_gridstead:main\n"
# The fake gridstead prints its version and the text of a dependency, for example "one locked".
MAIN = "import fake_dependency\n\n\ndef main():\n    print({!r}, fake_dependency.TEXT)\n"


def build_gridstead(folder, version):
    """Return a wheel whose command prints its version."""
    path = folder / version / "gridstead-0.1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "fake_gridstead.py": MAIN.format(version),
        "gridstead-0.1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    return build_wheel(path, files)


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


def test_the_former_release_is_kept_after_the_switch(host, wheels):
    host.install(wheels["one"])
    host.switch("next")
    host.switch("works")

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
