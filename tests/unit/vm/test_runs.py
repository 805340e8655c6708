# SPDX-License-Identifier: Apache-2.0
"""The runs of `make vm`, and the files that the guest gets before its first boot."""

import os
import signal
from pathlib import Path

import pytest

from gridstead_lab import lifecycle, names, state
from gridstead_lab.errors import LabError
from gridstead_lab.inputs import Inputs
from gridstead_vm import disk, guest, progress, qemu, runs

SIZE = qemu.GuestSize(cpus=2, memory_mb=6144)
QUIET = progress.Progress(lambda _: None)


@pytest.fixture
def lab_names(tmp_path):
    return names.Names(checkout=tmp_path, lab="vm")


@pytest.fixture
def removals(monkeypatch):
    """Return a list that gets an entry for each removal of the guest."""
    removed_labs = []
    monkeypatch.setattr(
        lifecycle, "down", lambda lab_names, _report: removed_labs.append(lab_names)
    )
    return removed_labs


def fail_with(monkeypatch, error):
    def start(*_arguments, **_named):
        raise error

    monkeypatch.setattr(runs, "_start", start)


@pytest.mark.parametrize("run", [runs.run_site, runs.run_demo])
@pytest.mark.parametrize("error", [LabError("no ssh answer"), KeyboardInterrupt()])
def test_the_guest_is_removed_after_an_error_and_after_an_interrupt(
    run, error, lab_names, removals, monkeypatch
):
    fail_with(monkeypatch, error)

    with pytest.raises(type(error)):
        run(lab_names, SIZE, QUIET, None)

    assert removals == [lab_names, lab_names]  # before the run and after it


def test_a_signal_does_not_interrupt_the_removal(lab_names, monkeypatch):
    received = []

    def down(_names, _report):
        os.kill(os.getpid(), signal.SIGTERM)
        received.append("removed")

    monkeypatch.setattr(lifecycle, "down", down)
    fail_with(monkeypatch, LabError("no ssh answer"))

    with pytest.raises(LabError):
        runs.run_site(lab_names, SIZE, QUIET, None)

    assert received == ["removed", "removed"]


def test_with_keep_the_guest_stays_until_the_user_ends_it(lab_names, removals, monkeypatch):
    fail_with(monkeypatch, LabError("site.yml exited 2"))
    removals_before_the_end = []

    def wait_for_interrupt(err):
        removals_before_the_end.extend(removals)
        assert str(err) == "site.yml exited 2"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.run_site(lab_names, SIZE, QUIET, wait_for_interrupt)

    assert removals_before_the_end == [lab_names]
    assert removals == [lab_names, lab_names]


@pytest.fixture
def new_guest(lab_names, tmp_path, monkeypatch):
    """Return a guest whose root folder is in the folder of the test."""
    monkeypatch.setattr(names.Names, "run_folder", tmp_path / "run")
    inputs = Inputs(
        sources=(), apt_conf=(("99machine", 'Acquire::Retries "3";'),), packages=(), locks=()
    )
    created_guest = disk.Guest(
        names=lab_names, name="grid1", address="10.70.1.11", inputs=inputs,
        environment={"https_proxy": "http://127.0.0.1:3128"},
    )  # fmt: skip
    for folder in ("ssh", "apt/apt.conf.d"):
        (created_guest.root / "etc" / folder).mkdir(parents=True)
    (created_guest.root / "root").mkdir()
    (created_guest.root / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 KEY root@x\n")
    return created_guest


def test_the_guest_reaches_the_proxies_of_this_machine_in_all_its_settings(new_guest):
    etc = new_guest.root / "etc"
    (etc / "apt/apt.conf.d/99machine").write_text('Acquire::http::Proxy "http://localhost:3142";')
    (etc / "pip.conf").write_text("[global]\nproxy = http://127.0.0.1:3128\n")
    (new_guest.root / "root/.npmrc").write_text("proxy=http://127.0.0.1:3128\n")

    host_key = disk.add_identity(new_guest, "ssh-ed25519 USER\n")

    assert host_key == "ssh-ed25519 KEY root@x"
    assert (etc / "environment").read_text() == "https_proxy=http://10.0.2.2:3128\n"
    for path in ("etc/apt/apt.conf.d/99machine", "etc/pip.conf", "root/.npmrc"):
        text = (new_guest.root / path).read_text()
        assert "//10.0.2.2:" in text
        assert "127.0.0.1" not in text


def test_the_demo_finds_the_guest_like_a_lab_with_one_host(new_guest):
    new_guest.names.state_folder.mkdir(parents=True)

    guest.save_state(new_guest, "10.70.1.0/24", SIZE, "ssh-ed25519 KEY")

    lab = state.load(new_guest.names)
    assert lab.members["devnet"] == ["grid1"]
    assert lab.hosts["grid1"]["address"] == "10.70.1.11"
    assert lab.gateway == "10.70.1.1"
    known_hosts = Path(new_guest.names.state_folder / "known_hosts").read_text()
    assert known_hosts == "grid1,10.70.1.11 ssh-ed25519 KEY\n"
