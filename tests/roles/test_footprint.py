# SPDX-License-Identifier: Apache-2.0
"""The modules of role footprint: what a record holds, what goes, what comes back, and what stays."""

import importlib.util
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "roles" / "footprint" / "library"


def load(name):
    specification = importlib.util.spec_from_file_location(name, LIBRARY / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


record = load("footprint_record")
remove = load("footprint_remove")
packages = load("footprint_packages")

HOST = {"packages": ["sudo", "munge"], "manual": ["sudo"], "enabled": ["munge.service"], "active": ["ssh.service"]}
NOTHING = {kind: [] for kind in remove.KINDS}


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


@pytest.fixture
def recorded(tmp_path, etc):
    """Return a function that records the host as it is then."""

    def now(**host):
        record.write(tmp_path / "before", {**HOST, **host}, etc)
        return remove.Record(tmp_path / "before")

    return now


class Commands:
    """What systemctl and its like are told, and what they say."""

    def __init__(self, *answers):
        self.answers, self.told = dict(answers), []

    def __call__(self, *argv, expected=(0,)):
        self.told.append(" ".join(argv))
        return self.answers.get(argv[0], "") if argv[:2] != ("systemctl", "stop") else ""


def perform(steps):
    changes = []
    for change, act in steps:
        act()
        changes.append(change)
    return changes


def test_a_record_that_was_cut_off_is_no_record(tmp_path, etc):
    (tmp_path / "before.new").mkdir()
    (tmp_path / "before.new" / "host.json").write_text("{")

    assert not remove.Record(tmp_path / "before").exists
    record.write(tmp_path / "before", HOST, etc)
    assert remove.Record(tmp_path / "before").packages == {"sudo", "munge"}
    assert not (tmp_path / "before.new").exists()


def test_a_record_is_for_root_alone(tmp_path, recorded):
    recorded()

    assert (tmp_path / "before").stat().st_mode & 0o777 == 0o700


def test_a_package_counts_as_installed_only_when_it_is():
    assert record.installed("installed b\nconfig-files a\nhalf-installed c\ninstalled b\n") == ["b"]


def test_a_replaced_file_comes_back_with_its_rights(etc, recorded):
    file = etc / "hosts"
    file.write_text("before")
    file.chmod(0o640)
    was = recorded()
    file.write_text("ours")
    file.chmod(0o644)

    assert perform(remove.return_files([str(file)], was)) == [f"{file} as before"]

    assert file.read_text() == "before"
    assert file.stat().st_mode & 0o777 == 0o640
    assert perform(remove.return_files([str(file)], was)) == []


def test_a_replaced_file_that_is_gone_comes_back_with_its_folder(etc, recorded):
    file = etc / "munge" / "munge.key"
    file.parent.mkdir()
    file.write_bytes(b"\0key")
    was = recorded()
    file.unlink()
    file.parent.rmdir()

    perform(remove.return_files([str(file)], was))

    assert file.read_bytes() == b"\0key"


def test_a_folder_gets_its_rights_back_and_keeps_what_is_in_it(etc, recorded):
    folder = etc / "sssd"
    folder.mkdir(mode=0o711)
    was = recorded()
    folder.chmod(0o751)
    (folder / "other").touch()

    assert perform(remove.return_files([str(folder)], was)) == [f"{folder} as before"]

    assert folder.stat().st_mode & 0o777 == 0o711
    assert (folder / "other").exists()
    assert perform(remove.return_files([str(folder)], was)) == []


def test_a_replaced_file_that_was_not_there_goes(etc, recorded):
    was = recorded()
    (etc / "slurm.conf").write_text("ours")

    assert perform(remove.return_files([str(etc / "slurm.conf")], was)) == [f"{etc}/slurm.conf removed"]
    assert not (etc / "slurm.conf").exists()


def test_without_a_record_replaced_files_and_packages_stay(tmp_path, etc):
    (etc / "hosts").write_text("ours")
    nothing = remove.Record(tmp_path / "none")

    assert perform(remove.return_files([str(etc / "hosts")], nothing)) == []
    assert perform(remove.release_packages(["munge"], nothing, Commands())) == []


def test_files_and_folders_go_and_links_to_nothing_too(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "a.toml").touch()
    patterns = [str(tmp_path / name) for name in ("own", "link", "*.toml", "absent")]

    assert len(perform(remove.drop_paths(remove.found(patterns), []))) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_only_when_nothing_else_is_in_it(tmp_path):
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


def test_data_goes_only_when_asked_for(tmp_path):
    (tmp_path / "wallets").mkdir()
    traces = {**NOTHING, "data": [str(tmp_path / "wallets")]}
    was = remove.Record(tmp_path / "none")

    for stage in remove.stages(traces, was, Commands(), remove_data=False):
        assert perform(stage) == []
    changes = [one for stage in remove.stages(traces, was, Commands(), remove_data=True) for one in perform(stage)]
    assert changes == [f"{tmp_path}/wallets removed"]


def test_a_unit_of_ours_is_stopped_with_what_outlives_it_and_disabled(recorded):
    commands = Commands(("systemctl", "ActiveState=active\nUnitFileState=enabled\n"))

    perform(remove.stop_units(["slurmd"], recorded(), commands))

    assert commands.told[1:] == [
        "systemctl stop slurmd", "systemctl kill --signal=KILL slurmd", "systemctl reset-failed slurmd",
        "systemctl disable slurmd",
    ]  # fmt: skip


def test_a_unit_that_is_not_there_is_let_alone(recorded):
    commands = Commands(("systemctl", "ActiveState=inactive\nUnitFileState=\n\nActiveState=inactive\nUnitFileState=\n"))

    assert perform(remove.stop_units(["sackd", "slurmd"], recorded(), commands)) == []


def test_a_failed_unit_is_forgotten(recorded):
    commands = Commands(("systemctl", "ActiveState=failed\nUnitFileState=disabled\n"))

    assert perform(remove.stop_units(["sackd"], recorded(), commands)) == ["sackd.service forgotten"]


def test_a_unit_that_was_enabled_and_active_before_stays_so_with_the_settings_of_then(recorded):
    commands = Commands(("systemctl", "ActiveState=active\nUnitFileState=enabled\n"))
    was = recorded(active=["munge.service"])

    assert perform(remove.stop_units(["munge"], was, commands)) == []
    remove.tell({**NOTHING, "units": ["munge"]}, ["/etc/munge/munge.key as before"], was, commands)

    assert commands.told[-1] == "systemctl restart munge"


def test_a_unit_that_was_enabled_before_is_so_again(recorded):
    commands = Commands(("systemctl", "UnitFileState=disabled\n"))

    assert perform(remove.enable_units(["munge", "sssd"], recorded(), commands)) == ["munge.service enabled"]


def test_only_changes_are_told():
    commands, was, traces = Commands(), remove.Record(Path("/nonexistent")), {**NOTHING, "reloads": ["ssh"]}

    remove.tell(traces, [], was, commands)
    assert commands.told == []
    remove.tell(traces, ["/etc/systemd/system/a.service removed"], was, commands)
    assert commands.told == ["systemctl daemon-reload", "systemctl try-reload-or-restart ssh"]


def test_mounts_below_a_point_go_first_and_neighbours_stay():
    mounted = "a / ext4 rw\nb /srv/shared fuse rw\nc /srv/shared/in fuse rw\nd /srv/shared-not fuse rw\n"

    assert perform(remove.unmount(["/srv/shared"], mounted, Commands())) == [
        "/srv/shared/in unmounted", "/srv/shared unmounted",
    ]  # fmt: skip


def test_packages_that_nobody_had_asked_for_are_no_longer_wanted(recorded):
    commands = Commands(("apt-mark", "munge\nslurmd\nsudo\nother\n"))

    changes = perform(remove.release_packages(["munge", "slurmd", "sudo", "absent"], recorded(), commands))

    assert changes == ["no longer wanted: munge slurmd"]
    assert commands.told[-1] == "apt-mark auto munge slurmd"


def test_packages_that_were_there_before_are_not_removed():
    simulation = "Reading package lists...\nRemv slurmd [24.11]\nRemv libmunge2:amd64 [0.5]\nRemv orphan [1]\n"

    assert packages.unneeded(simulation, {"orphan"}) == ["libmunge2", "slurmd"]
    assert packages.removed("config-files slurmd\nconfig-files old\ninstalled sudo\n", {"old"}) == ["slurmd"]
