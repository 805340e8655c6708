# SPDX-License-Identifier: Apache-2.0
"""The modules of role footprint: records of a host, removed objects and restored objects."""

from pathlib import Path

import pytest
from ansible_collections.gridstead.site.plugins.modules import footprint_packages as packages
from ansible_collections.gridstead.site.plugins.modules import footprint_record as record
from ansible_collections.gridstead.site.plugins.modules import footprint_remove as remove

HOST = {
    "packages": ["sudo", "munge"],
    "manual": ["sudo"],
    "enabled": ["munge.service"],
    "active": ["ssh.service"],
}
NOTHING = {kind: [] for kind in remove.KINDS}


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


@pytest.fixture
def recorded(tmp_path, etc):
    """A function that records the present state of the host."""

    def now(**host):
        record.write(tmp_path / "before", {**HOST, **host}, etc)
        return remove.Record(tmp_path / "before")

    return now


class Commands:
    """Fake systemctl and other commands: it records the calls and returns answers."""

    def __init__(self, *answers):
        self.answers, self.calls = dict(answers), []

    def __call__(self, *argv, expected=(0,), text=None):
        self.calls.append(" ".join(argv))
        return self.answers.get(argv[0], "") if argv[:2] != ("systemctl", "stop") else ""


class Failed(Exception):
    """A module failed with a message."""


class Host:
    """Fake apt and dpkg for a run of a module."""

    def __init__(self, *, installed, manual, purge=""):
        self.installed, self.manual, self.purge, self.calls = installed, manual, purge, []
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
            case ["apt-get", "--assume-yes", *_] if self.purge:
                raise Failed(self.purge)
        return 0, "", ""


def remove_packages(monkeypatch, host, record):
    """Return the result of module footprint_packages after a purge."""
    host.params, host.said = {"record": str(record), "purge": True}, {}

    def exit_json(**said):
        host.said = said

    host.exit_json = exit_json
    monkeypatch.setattr(packages, "AnsibleModule", lambda **_: host)
    packages.main()
    return host.said


def perform(steps):
    changes = []
    for change, act in steps:
        act()
        changes.append(change)
    return changes


def test_a_truncated_record_is_ignored(tmp_path, etc):
    (tmp_path / "before.new").mkdir()
    (tmp_path / "before.new" / "host.json").write_text("{")

    assert not remove.Record(tmp_path / "before").exists
    record.write(tmp_path / "before", HOST, etc)
    assert remove.Record(tmp_path / "before").packages == {"sudo", "munge"}
    assert not (tmp_path / "before.new").exists()


def test_only_root_can_read_a_record(tmp_path, recorded):
    recorded()

    assert (tmp_path / "before").stat().st_mode & 0o777 == 0o700


def test_only_installed_packages_are_recorded():
    assert record.installed("installed b\nconfig-files a\nhalf-installed c\ninstalled b\n") == ["b"]


def test_a_replaced_file_is_restored_with_its_mode(etc, recorded):
    file = etc / "hosts"
    file.write_text("before")
    file.chmod(0o640)
    was = recorded()
    file.write_text("ours")
    file.chmod(0o644)

    assert perform(remove.restore_files([str(file)], was)) == [f"{file} as before"]

    assert file.read_text() == "before"
    assert file.stat().st_mode & 0o777 == 0o640
    assert perform(remove.restore_files([str(file)], was)) == []


def test_a_removed_file_is_restored_with_its_folder(etc, recorded):
    file = etc / "munge" / "munge.key"
    file.parent.mkdir()
    file.write_bytes(b"\0key")
    was = recorded()
    file.unlink()
    file.parent.rmdir()

    perform(remove.restore_files([str(file)], was))

    assert file.read_bytes() == b"\0key"


def test_a_folder_gets_its_old_mode_and_retains_its_files(etc, recorded):
    folder = etc / "sssd"
    folder.mkdir(mode=0o711)
    was = recorded()
    folder.chmod(0o751)
    (folder / "other").touch()

    assert perform(remove.restore_files([str(folder)], was)) == [f"{folder} as before"]

    assert folder.stat().st_mode & 0o777 == 0o711
    assert (folder / "other").exists()
    assert perform(remove.restore_files([str(folder)], was)) == []


def test_a_file_that_did_not_exist_before_is_removed(etc, recorded):
    was = recorded()
    (etc / "slurm.conf").write_text("ours")

    assert perform(remove.restore_files([str(etc / "slurm.conf")], was)) == [
        f"{etc}/slurm.conf removed"
    ]
    assert not (etc / "slurm.conf").exists()


def test_without_a_record_files_and_packages_are_retained(tmp_path, etc):
    (etc / "hosts").write_text("ours")
    nothing = remove.Record(tmp_path / "none")

    assert perform(remove.restore_files([str(etc / "hosts")], nothing)) == []
    assert perform(remove.mark_packages(["munge"], nothing, Commands())) == []


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
        f"{tmp_path}/empty/inner/ours removed", f"{tmp_path}/empty/inner removed", f"{tmp_path}/empty removed",
    ]  # fmt: skip
    assert (tmp_path / "empty/inner/ours").exists()
    perform(steps)
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_data_is_removed_only_on_request(tmp_path):
    (tmp_path / "wallets").mkdir()
    traces = {**NOTHING, "data": [str(tmp_path / "wallets")]}
    was = remove.Record(tmp_path / "none")

    for stage in remove.stages(traces, was, Commands(), remove_data=False):
        assert perform(stage) == []
    changes = [
        item
        for stage in remove.stages(traces, was, Commands(), remove_data=True)
        for item in perform(stage)
    ]
    assert changes == [f"{tmp_path}/wallets removed"]


def test_our_unit_is_stopped_with_its_processes_and_disabled(recorded):
    commands = Commands(("systemctl", "ActiveState=active\nUnitFileState=enabled\n"))

    perform(remove.stop_units(["slurmd"], recorded(), commands))

    assert commands.calls[1:] == [
        "systemctl stop slurmd", "systemctl kill --signal=KILL slurmd", "systemctl reset-failed slurmd",
        "systemctl disable slurmd",
    ]  # fmt: skip


def test_timers_are_stopped_before_their_services(recorded):
    """A timer would start its service again, which would fail without its dependencies."""
    commands = Commands(("systemctl", "ActiveState=active\nUnitFileState=enabled\n"))
    traces = {**NOTHING, "units": ["keys.service", "keys.timer"]}

    for stage in remove.stages(traces, recorded(), commands, remove_data=False):
        perform(stage)

    stops = [command for command in commands.calls if command.startswith("systemctl stop")]
    assert stops == ["systemctl stop keys.timer", "systemctl stop keys.service"]


def test_a_missing_unit_is_ignored(recorded):
    commands = Commands(
        (
            "systemctl",
            "ActiveState=inactive\nUnitFileState=\n\nActiveState=inactive\nUnitFileState=\n",
        )
    )

    assert perform(remove.stop_units(["sackd", "slurmd"], recorded(), commands)) == []


def test_a_failed_unit_is_reset(recorded):
    commands = Commands(("systemctl", "ActiveState=failed\nUnitFileState=disabled\n"))

    assert perform(remove.stop_units(["sackd"], recorded(), commands)) == [
        "sackd.service forgotten"
    ]


def test_a_unit_that_was_active_before_runs_with_its_old_settings(recorded):
    commands = Commands(("systemctl", "ActiveState=active\nUnitFileState=enabled\n"))
    was = recorded(active=["munge.service"])

    assert perform(remove.stop_units(["munge"], was, commands)) == []
    remove.notify(
        {**NOTHING, "units": ["munge"]}, ["/etc/munge/munge.key as before"], was, commands
    )

    assert commands.calls[-1] == "systemctl restart munge"


def test_a_unit_that_was_enabled_before_is_enabled_again(recorded):
    commands = Commands(("systemctl", "UnitFileState=disabled\n"))

    assert perform(remove.enable_units(["munge", "sssd"], recorded(), commands)) == [
        "munge.service enabled"
    ]


def test_an_account_that_existed_before_is_retained(recorded):
    was = recorded(accounts=["nobody"])

    # Both are on this machine.
    assert perform(remove.drop_users(["daemon", "nobody"], was, Commands())) == [
        "account daemon removed", "group daemon removed",
    ]  # fmt: skip


def test_apt_lists_that_existed_before_are_retained(tmp_path, recorded):
    for name in ("mirror_dists_sid_InRelease", "other_dists_sid_InRelease"):
        (tmp_path / name).touch()
    was = recorded(lists=[str(tmp_path / "mirror_dists_sid_InRelease")])
    traces = {**NOTHING, "own": [f"{tmp_path}/*_dists_sid_*"]}

    for stage in remove.stages(traces, was, Commands(), remove_data=False):
        perform(stage)

    assert [path.name for path in tmp_path.glob("*_dists_*")] == ["mirror_dists_sid_InRelease"]


def test_only_packages_of_the_site_get_debconf_answers_to_remove_data(recorded):
    commands = Commands(("debconf-show", "  mariadb-server/remove: false\n"))
    lines = ["mariadb-server mariadb-server/remove boolean true", "munge munge/remove boolean true"]
    was = recorded()

    assert perform(remove.answer_questions(lines, was, commands)) == [
        "mariadb-server/remove answered: true"
    ]
    assert commands.calls == ["debconf-show mariadb-server", "debconf-set-selections"]
    commands.answers["debconf-show"] = "* mariadb-server/remove: true\n"
    assert perform(remove.answer_questions(lines, was, commands)) == []


def test_only_changes_are_reported():
    commands, was, traces = (
        Commands(),
        remove.Record(Path("/nonexistent")),
        {**NOTHING, "reloads": ["ssh"]},
    )

    remove.notify(traces, [], was, commands)
    assert commands.calls == []
    remove.notify(traces, ["/etc/systemd/system/a.service removed"], was, commands)
    assert commands.calls == ["systemctl daemon-reload", "systemctl try-reload-or-restart ssh"]


def test_nested_mounts_are_removed_first_and_others_are_retained():
    mounted = (
        "a / ext4 rw\nb /srv/shared fuse rw\nc /srv/shared/in fuse rw\nd /srv/shared-not fuse rw\n"
    )

    assert perform(remove.unmount(["/srv/shared"], mounted, Commands())) == [
        "/srv/shared/in unmounted", "/srv/shared unmounted",
    ]  # fmt: skip


def test_packages_that_were_automatic_before_are_marked_automatic(recorded):
    commands = Commands(("apt-mark", "munge\nslurmd\nsudo\nother\n"))

    changes = perform(
        remove.mark_packages(["munge", "slurmd", "sudo", "absent"], recorded(), commands)
    )

    assert changes == ["no longer wanted: munge slurmd"]
    assert commands.calls[-1] == "apt-mark auto munge slurmd"


def test_new_packages_are_removed_unless_they_were_installed_manually():
    """apt alone would retain gawk, because gawk can replace the required package mawk."""
    commands = Commands(
        ("apt-get", "Reading package lists...\nRemv slurmd [24.11]\nRemv gawk:amd64 [5.2]\n")
    )

    gone = packages.packages_to_remove(
        {"mawk", "orphan", "slurmd", "gawk", "vim"}, {"mawk", "orphan"}, {"vim"}, commands
    )

    assert gone == {"slurmd", "gawk"}
    assert commands.calls[0].endswith("--simulate remove gawk slurmd")


def test_a_new_package_that_is_still_needed_is_retained():
    class Apt(Commands):
        def __call__(self, *argv):
            super().__call__(*argv)
            return "Remv slurmd [24.11]\nRemv orphan [1]\n" + (
                "" if argv[-1] == "autoremove" else "Remv theirs [1]\n"
            )

    assert packages.packages_to_remove(
        {"orphan", "slurmd", "library"}, {"orphan"}, set(), Apt()
    ) == {"slurmd"}


def test_a_half_installed_package_is_recorded():
    states = "config-files old\ninstalled sudo\nhalf-configured munge\nnot-installed never\n"

    assert packages.by_state(states) == ({"sudo", "munge"}, {"old"})


def test_packages_of_an_interrupted_removal_are_removed(tmp_path, recorded, monkeypatch):
    """apt has marked these packages as manually installed."""
    recorded()
    host = Host(installed="sudo slurmd", manual="sudo", purge="cut off")
    with pytest.raises(Failed, match="cut off"):
        remove_packages(monkeypatch, host, tmp_path / "before")
    host.manual, host.purge = "sudo slurmd", ""

    assert remove_packages(monkeypatch, host, tmp_path / "before") == {
        "changed": True,
        "packages": ["slurmd"],
    }
    assert "apt-mark auto slurmd" in host.calls
    assert not (tmp_path / "before").exists()
