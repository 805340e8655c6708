# SPDX-License-Identifier: Apache-2.0
"""The modules of role footprint: they record the state of a host and restore it later.

A step is a pair: the description of a change, and the function that makes the change.
"""

from pathlib import Path

import pytest
from ansible_collections.gridstead.site.plugins.modules import footprint_packages as packages
from ansible_collections.gridstead.site.plugins.modules import footprint_record as record
from ansible_collections.gridstead.site.plugins.modules import footprint_remove as remove
from tests.roles.content import lines_with, names_in

HOST_STATE = {
    "packages": ["sudo", "munge"],
    "manual": ["sudo"],
    "enabled": ["munge.service"],
    "active": ["ssh.service"],
}
EMPTY_FOOTPRINT = {kind: [] for kind in remove.KINDS}


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


@pytest.fixture
def make_record(tmp_path, etc):
    """A function that records the present state of the host and returns the record.

    Its arguments replace values of HOST_STATE.
    """

    def write_record(**host):
        record.write(tmp_path / "before", {**HOST_STATE, **host}, etc)
        return remove.Record(tmp_path / "before")

    return write_record


class Commands:
    """A function that runs fake commands. It records each call and returns a fixed output.

    Args:
        outputs: The output of each program by name, with ``_`` instead of ``-``.
    """

    def __init__(self, **outputs):
        self.outputs = {name.replace("_", "-"): output for name, output in outputs.items()}
        self.calls = []

    def __call__(self, *argv, expected=(0,), text=None):
        self.calls.append(" ".join(argv))
        if argv[:2] == ("systemctl", "stop"):
            return ""
        return self.outputs.get(argv[0], "")


class AptError(Exception):
    """The error that the fake apt-get raises if ``purge_error`` is set."""


class Host:
    """A fake AnsibleModule with a fake apt and dpkg. Package names are separated by spaces."""

    def __init__(self, *, installed, manual, purge_error=""):
        self.installed = installed
        self.manual = manual
        self.purge_error = purge_error
        self.calls = []
        self.check_mode = False

    def run_command(self, argv, **_):
        self.calls.append(" ".join(argv))
        match argv:
            case ["dpkg-query", *_]:
                return 0, "".join(f"installed {name}\n" for name in self.installed.split()), ""
            case ["apt-mark", "showmanual"]:
                return 0, self.manual, ""
            case ["apt-mark", "auto", *names]:
                self.manual = " ".join(set(self.manual.split()) - set(names))
            case ["apt-get", "--assume-yes", *_] if self.purge_error:
                raise AptError(self.purge_error)
        return 0, "", ""


def remove_packages(monkeypatch, host, record):
    """Return the result of module footprint_packages after a purge."""
    result = {}
    host.params = {"record": str(record), "purge": True}
    host.exit_json = result.update
    monkeypatch.setattr(packages, "AnsibleModule", lambda **_: host)
    packages.main()
    return result


def perform(steps):
    """Perform steps and return the descriptions of their changes."""
    changes = []
    for change, act in steps:
        act()
        changes.append(change)
    return changes


def test_a_truncated_record_is_ignored(tmp_path, etc):
    (tmp_path / "before.new").mkdir()
    (tmp_path / "before.new" / "host.json").write_text("{")

    assert not remove.Record(tmp_path / "before").exists
    record.write(tmp_path / "before", HOST_STATE, etc)
    assert remove.Record(tmp_path / "before").packages == {"sudo", "munge"}
    assert not (tmp_path / "before.new").exists()


def test_only_root_can_read_a_record(tmp_path, make_record):
    make_record()

    assert (tmp_path / "before").stat().st_mode & 0o777 == 0o700


def test_only_installed_packages_are_recorded():
    assert record.installed("installed b\nconfig-files a\nhalf-installed c\ninstalled b\n") == ["b"]


def test_a_replaced_file_is_restored_with_its_mode(etc, make_record):
    file = etc / "hosts"
    file.write_text("before")
    file.chmod(0o640)
    before = make_record()
    file.write_text("of the site")
    file.chmod(0o644)

    assert perform(remove.restore_files([str(file)], before)) == [f"{file} as before"]

    assert file.read_text() == "before"
    assert file.stat().st_mode & 0o777 == 0o640
    assert perform(remove.restore_files([str(file)], before)) == []


def test_a_removed_file_is_restored_with_its_folder(etc, make_record):
    file = etc / "munge" / "munge.key"
    file.parent.mkdir()
    file.write_bytes(b"\0key")
    before = make_record()
    file.unlink()
    file.parent.rmdir()

    perform(remove.restore_files([str(file)], before))

    assert file.read_bytes() == b"\0key"


def test_a_folder_gets_its_old_mode_and_retains_its_files(etc, make_record):
    folder = etc / "sssd"
    folder.mkdir(mode=0o711)
    before = make_record()
    folder.chmod(0o751)
    (folder / "other").touch()

    assert perform(remove.restore_files([str(folder)], before)) == [f"{folder} as before"]

    assert folder.stat().st_mode & 0o777 == 0o711
    assert (folder / "other").exists()
    assert perform(remove.restore_files([str(folder)], before)) == []


def test_a_file_that_did_not_exist_before_is_removed(etc, make_record):
    before = make_record()
    (etc / "slurm.conf").write_text("ours")

    assert perform(remove.restore_files([str(etc / "slurm.conf")], before)) == [
        f"{etc}/slurm.conf removed"
    ]
    assert not (etc / "slurm.conf").exists()


def test_without_a_record_files_and_packages_are_retained(tmp_path, etc):
    (etc / "hosts").write_text("ours")
    no_record = remove.Record(tmp_path / "none")

    assert perform(remove.restore_files([str(etc / "hosts")], no_record)) == []
    assert perform(remove.mark_packages(["munge"], no_record, Commands())) == []


def test_files_folders_and_dangling_links_are_removed(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "a.toml").touch()
    patterns = [str(tmp_path / name) for name in ("own", "link", "*.toml", "absent")]

    assert len(perform(remove.drop_paths(remove.existing_paths(patterns), []))) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_removed_only_if_it_is_empty(tmp_path):
    for name in ("empty/inner", "shared"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "empty/inner/ours").touch()
    (tmp_path / "shared/theirs").touch()
    folders = [str(tmp_path / name) for name in ("empty/inner", "empty", "shared", "absent")]

    steps = list(remove.drop_paths([tmp_path / "empty/inner/ours"], folders))

    assert [change for change, _ in steps] == [
        f"{tmp_path}/empty/inner/ours removed",
        f"{tmp_path}/empty/inner removed",
        f"{tmp_path}/empty removed",
    ]
    assert (tmp_path / "empty/inner/ours").exists()
    perform(steps)
    assert names_in(tmp_path) == {"shared"}


def test_data_is_removed_only_on_request(tmp_path):
    (tmp_path / "wallets").mkdir()
    traces = {**EMPTY_FOOTPRINT, "data": [str(tmp_path / "wallets")]}
    before = remove.Record(tmp_path / "none")

    for stage in remove.stages(traces, before, Commands(), remove_data=False):
        assert perform(stage) == []
    changes = []
    for stage in remove.stages(traces, before, Commands(), remove_data=True):
        changes += perform(stage)
    assert changes == [f"{tmp_path}/wallets removed"]


def test_a_unit_of_the_site_is_stopped_with_its_processes_and_disabled(make_record):
    commands = Commands(systemctl="ActiveState=active\nUnitFileState=enabled\n")

    perform(remove.stop_units(["slurmd"], make_record(), commands))

    assert commands.calls[1:] == [
        "systemctl stop slurmd",
        "systemctl kill --signal=KILL slurmd",
        "systemctl reset-failed slurmd",
        "systemctl disable slurmd",
    ]


def test_timers_are_stopped_before_their_services(make_record):
    """A timer that still runs would start its service again, without the units that it needs."""
    commands = Commands(systemctl="ActiveState=active\nUnitFileState=enabled\n")
    traces = {**EMPTY_FOOTPRINT, "units": ["keys.service", "keys.timer"]}

    for stage in remove.stages(traces, make_record(), commands, remove_data=False):
        perform(stage)

    stops = lines_with("systemctl stop", commands.calls)
    assert stops == ["systemctl stop keys.timer", "systemctl stop keys.service"]


def test_a_missing_unit_is_ignored(make_record):
    commands = Commands(
        systemctl="ActiveState=inactive\nUnitFileState=\n\nActiveState=inactive\nUnitFileState=\n"
    )

    assert perform(remove.stop_units(["sackd", "slurmd"], make_record(), commands)) == []


def test_a_failed_unit_is_reset(make_record):
    commands = Commands(systemctl="ActiveState=failed\nUnitFileState=disabled\n")

    assert perform(remove.stop_units(["sackd"], make_record(), commands)) == [
        "sackd.service forgotten"
    ]


def test_a_unit_that_was_active_before_runs_with_its_old_settings(make_record):
    commands = Commands(systemctl="ActiveState=active\nUnitFileState=enabled\n")
    before = make_record(active=["munge.service"])

    assert perform(remove.stop_units(["munge"], before, commands)) == []
    remove.notify(
        {**EMPTY_FOOTPRINT, "units": ["munge"]},
        ["/etc/munge/munge.key as before"],
        before,
        commands,
    )

    assert commands.calls[-1] == "systemctl restart munge"


def test_a_unit_that_was_enabled_before_is_enabled_again(make_record):
    commands = Commands(systemctl="UnitFileState=disabled\n")

    assert perform(remove.enable_units(["munge", "sssd"], make_record(), commands)) == [
        "munge.service enabled"
    ]


def test_an_account_that_existed_before_is_retained(make_record):
    before = make_record(accounts=["nobody"])

    # Both accounts exist on the machine that runs the test.
    assert perform(remove.drop_users(["daemon", "nobody"], before, Commands())) == [
        "account daemon removed", "group daemon removed",
    ]  # fmt: skip


def test_apt_lists_that_existed_before_are_retained(tmp_path, make_record):
    for name in ("mirror_dists_sid_InRelease", "other_dists_sid_InRelease"):
        (tmp_path / name).touch()
    before = make_record(lists=[str(tmp_path / "mirror_dists_sid_InRelease")])
    traces = {**EMPTY_FOOTPRINT, "own": [f"{tmp_path}/*_dists_sid_*"]}

    for stage in remove.stages(traces, before, Commands(), remove_data=False):
        perform(stage)

    assert [path.name for path in tmp_path.glob("*_dists_*")] == ["mirror_dists_sid_InRelease"]


def test_a_package_that_existed_before_gets_no_debconf_answer_to_remove_data(make_record):
    commands = Commands(debconf_show="  mariadb-server/remove: false\n")
    lines = ["mariadb-server mariadb-server/remove boolean true", "munge munge/remove boolean true"]
    before = make_record()

    assert perform(remove.answer_questions(lines, before, commands)) == [
        "mariadb-server/remove answered: true"
    ]
    assert commands.calls == ["debconf-show mariadb-server", "debconf-set-selections"]
    commands.outputs["debconf-show"] = "* mariadb-server/remove: true\n"
    assert perform(remove.answer_questions(lines, before, commands)) == []


def test_systemd_and_daemons_are_reloaded_only_if_something_changed():
    commands = Commands()
    before = remove.Record(Path("/nonexistent"))
    traces = {**EMPTY_FOOTPRINT, "reloads": ["ssh"]}

    remove.notify(traces, [], before, commands)
    assert commands.calls == []
    remove.notify(traces, ["/etc/systemd/system/a.service removed"], before, commands)
    assert commands.calls == ["systemctl daemon-reload", "systemctl try-reload-or-restart ssh"]


def test_a_nested_mount_is_removed_before_its_parent_and_other_mounts_are_retained():
    mounted = (
        "a / ext4 rw\nb /srv/shared fuse rw\nc /srv/shared/in fuse rw\nd /srv/shared-not fuse rw\n"
    )

    assert perform(remove.unmount(["/srv/shared"], mounted, Commands())) == [
        "/srv/shared/in unmounted", "/srv/shared unmounted",
    ]  # fmt: skip


def test_packages_that_were_marked_automatic_before_are_marked_automatic_again(make_record):
    commands = Commands(apt_mark="munge\nslurmd\nsudo\nother\n")

    changes = perform(
        remove.mark_packages(["munge", "slurmd", "sudo", "absent"], make_record(), commands)
    )

    assert changes == ["no longer wanted: munge slurmd"]
    assert commands.calls[-1] == "apt-mark auto munge slurmd"


def test_new_packages_are_removed_unless_they_were_installed_manually():
    """apt alone would retain gawk, because gawk can replace the required package mawk."""
    commands = Commands(
        apt_get="Reading package lists...\nRemv slurmd [24.11]\nRemv gawk:amd64 [5.2]\n"
    )
    installed_packages = {"mawk", "orphan", "slurmd", "gawk", "vim"}
    installed_before = {"mawk", "orphan"}
    manual = {"vim"}

    unwanted_packages = packages.packages_to_remove(
        installed_packages, installed_before, manual, commands
    )

    assert unwanted_packages == {"slurmd", "gawk"}
    assert commands.calls[0].endswith("--simulate remove gawk slurmd")


def test_a_new_package_that_is_still_needed_is_retained():
    """Package theirs must stay and depends on package library, so library is retained."""

    class Apt(Commands):
        def __call__(self, *argv):
            super().__call__(*argv)
            output = "Remv slurmd [24.11]\nRemv orphan [1]\n"
            if argv[-1] != "autoremove":
                output += "Remv theirs [1]\n"
            return output

    installed = {"orphan", "slurmd", "library"}

    assert packages.packages_to_remove(installed, {"orphan"}, set(), Apt()) == {"slurmd"}


def test_a_half_installed_package_is_recorded():
    states = "config-files old\ninstalled sudo\nhalf-configured munge\nnot-installed never\n"

    assert packages.by_state(states) == ({"sudo", "munge"}, {"old"})


def test_packages_of_an_interrupted_removal_are_removed(tmp_path, make_record, monkeypatch):
    """After the interruption, apt regards these packages as manually installed."""
    make_record()
    host = Host(installed="sudo slurmd", manual="sudo", purge_error="interrupted")
    with pytest.raises(AptError, match="interrupted"):
        remove_packages(monkeypatch, host, tmp_path / "before")
    host.manual = "sudo slurmd"
    host.purge_error = ""

    assert remove_packages(monkeypatch, host, tmp_path / "before") == {
        "changed": True,
        "packages": ["slurmd"],
    }
    assert "apt-mark auto slurmd" in host.calls
    assert not (tmp_path / "before").exists()
