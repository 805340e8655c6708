# SPDX-License-Identifier: Apache-2.0
"""The modules of role footprint: they record the state of a host and restore it later."""

from pathlib import Path

from ansible_collections.gridstead.site.plugins.modules import footprint_record as record
from ansible_collections.gridstead.site.plugins.modules import footprint_remove as remove
from tests.roles.content import lines_with, names_in
from tests.roles.footprint.commands import HOST_STATE, Commands, perform

EMPTY_FOOTPRINT = {kind: [] for kind in remove.KINDS}


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
