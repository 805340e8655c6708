# SPDX-License-Identifier: Apache-2.0
"""What a stopped host leaves on the machine: mounts and folders of systemd-nspawn, and a slice."""

from pathlib import Path

import pytest

from gridstead_lab import cgroups, commands, host, lifecycle, names
from gridstead_lab.errors import CommandFailed, LabError

LAB = names.names(Path("/srv/checkout"), "one")
EXPORT = "/run/systemd/nspawn/unix-export"
# Lines of /proc/self/mountinfo on a machine with systemd 257, while hosts of two labs run.
MOUNTINFO = f"""\
24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
26 24 0:24 / /run rw,nosuid,nodev shared:5 - tmpfs tmpfs rw,mode=755
812 24 0:61 / /var/lib/gridstead-lab/labs/gs12ab/hosts/db/root rw shared:90 - overlay gs12ab-db rw
830 26 0:70 / {EXPORT}/gs12ab-db rw,nosuid,nodev shared:92 - tmpfs tmpfs rw,nr_inodes=64
831 26 0:71 / {EXPORT}/gs12ab-db2 rw,nosuid,nodev shared:93 - tmpfs tmpfs rw,nr_inodes=64
832 830 0:72 / {EXPORT}/gs12ab-db/inner rw shared:94 - tmpfs tmpfs rw
"""


def test_a_folder_that_is_itself_a_mount_is_found_after_the_mounts_below_it():
    points = host.mount_points_in(MOUNTINFO, Path(f"{EXPORT}/gs12ab-db"))

    assert points == [f"{EXPORT}/gs12ab-db/inner", f"{EXPORT}/gs12ab-db"]


@pytest.fixture
def nspawn_run(monkeypatch, tmp_path):
    """Create the folders that systemd-nspawn left for host db and for a host of another lab."""
    monkeypatch.setattr(host, "NSPAWN_RUN", tmp_path)
    for parent in ("propagate", "unix-export"):
        for machine in (LAB.machine("db"), LAB.machine("db2"), "gsffff-db"):
            (tmp_path / parent / machine).mkdir(parents=True)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / LAB.machine("db")).touch()
    return tmp_path


def left(nspawn_run):
    return sorted(str(folder.relative_to(nspawn_run)) for folder in nspawn_run.glob("*/gs*"))


def test_a_killed_host_leaves_no_folders_of_systemd_nspawn(nspawn_run, monkeypatch):
    """With systemd 257, a host does not start again while its folder in unix-export is a mount."""
    monkeypatch.setattr(host, "_kill_processes", lambda *_: None)

    host.cut_power(LAB, "db")

    assert left(nspawn_run) == sorted(
        [
            f"locks/{LAB.machine('db')}",
            f"propagate/{LAB.machine('db2')}",
            "propagate/gsffff-db",
            f"unix-export/{LAB.machine('db2')}",
            "unix-export/gsffff-db",
        ]
    )


def test_down_removes_the_folders_of_systemd_nspawn_of_its_own_lab_only(nspawn_run):
    folders = host.nspawn_folders(f"{LAB.prefix}-*")

    assert sorted(str(folder.relative_to(nspawn_run)) for folder in folders) == [
        f"propagate/{LAB.machine('db')}",
        f"propagate/{LAB.machine('db2')}",
        f"unix-export/{LAB.machine('db')}",
        f"unix-export/{LAB.machine('db2')}",
    ]


@pytest.fixture
def silent_host(monkeypatch, tmp_path):
    """Return the console file of a host that never answers on its ssh port."""
    monkeypatch.setattr(names, "STORE", tmp_path)
    monkeypatch.setattr(lifecycle, "BOOT_TIMEOUT_S", -1)
    monkeypatch.setattr(lifecycle, "answers_ssh", lambda _: False)
    LAB.host_folder("db").mkdir(parents=True)
    return LAB.host_folder("db") / "console.log"


def test_an_error_about_a_silent_host_contains_the_last_line_of_its_console(silent_host):
    refusal = f"Mount point '{EXPORT}/gs12ab-db' exists already, refusing."
    silent_host.write_text(f"an earlier line\n\x1b[0;1;31m{refusal}\x1b[0m\r\n\r\n")

    with pytest.raises(LabError) as error:
        lifecycle.wait_for_ssh(LAB, {"db": "10.0.0.11"})

    message = str(error.value)
    assert message.startswith("no ssh answer after ")
    assert message.splitlines()[1:] == [f"  db, last line of its console: {refusal}"]


def test_an_error_about_a_silent_host_without_console_says_so(silent_host):
    assert not silent_host.exists()

    with pytest.raises(LabError, match="last line of its console: \\(empty\\)"):
        lifecycle.wait_for_ssh(LAB, {"db": "10.0.0.11"})


@pytest.fixture
def stop_slice(monkeypatch):
    """Return a function that stops the slice of a lab and returns the commands that it ran."""

    def stop(mountinfo):
        run = []

        def fail(argv):
            run.append(argv)
            message = "systemctl exited 5: Unit gs12ab.slice not loaded."
            raise CommandFailed(message)

        monkeypatch.setattr(commands, "run", fail)
        monkeypatch.setattr(Path, "read_text", lambda _: mountinfo)
        cgroups.stop_slice("gs12ab")
        return run

    return stop


def test_down_unloads_the_slice_of_a_unified_machine(stop_slice):
    unified = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

    assert stop_slice(unified) == [["systemctl", "stop", "gs12ab.slice"]]


def test_down_runs_no_systemctl_on_a_hybrid_machine(stop_slice):
    """A hybrid machine may run without systemd, and its labs have no slice."""
    hybrid = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

    assert stop_slice(hybrid) == []
