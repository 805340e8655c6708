# SPDX-License-Identifier: Apache-2.0
"""Two controllers: their configuration, the takeover by the backup, and the move of the state.

gridstead-settle-nodes prevents conflicts about running jobs after a crash; see
test_settle_nodes.py. It runs at the start of the primary and after a takeover by the backup.
"""

import subprocess

import pytest
from tests.roles.catalogue import Role
from tests.roles.content import lines_with, tasks_with, texts_below
from tests.yaml_files import read_yaml

ROLE = Role("slurm")
UNITS = ROLE.path / "templates/etc/systemd/system"
SLURMCTLD_DROP_IN = UNITS / "slurmctld.service.d/gridstead.conf.j2"
CONF = ROLE.path / "templates/etc/slurm/slurm.conf.j2"
TAKE_OVER = ROLE.path / "templates/usr/local/sbin/gridstead-take-over.j2"
WITHOUT_BACKUP = {
    "slurm_backup_controller_host": "",
    "slurm_state_directory": "/var/lib/slurm/slurmctld",
}


def lines(render, template, host="controller", **variables):
    """Return the lines of a rendered template without comments."""
    text = render(ROLE, template, host, **variables)
    return [line for line in text.splitlines() if line and line[0] != "#"]


def slurm_settings(render, *keys, **variables):
    """Return the lines of slurm.conf with these keys, in order."""
    return [line for line in lines(render, CONF, **variables) if line.partition("=")[0] in keys]


def test_slurm_conf_lists_both_controllers_in_order(render):
    keys = ("SlurmctldHost", "SlurmctldPrimaryOnProg", "StateSaveLocation")

    assert slurm_settings(render, *keys) == [
        "SlurmctldHost=controller",
        "SlurmctldHost=controller2",
        "SlurmctldPrimaryOnProg=/usr/local/sbin/gridstead-take-over",
        "StateSaveLocation=/srv/slurm/state",
    ]


def test_a_single_controller_has_no_backup_and_no_mount_of_its_state(render):
    keys = ("SlurmctldHost", "SlurmctldPrimaryOnProg", "StateSaveLocation")

    settings = slurm_settings(render, *keys, **WITHOUT_BACKUP)
    drop_in = lines(render, SLURMCTLD_DROP_IN, **WITHOUT_BACKUP)

    assert settings == [
        "SlurmctldHost=controller",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
    ]
    assert lines_with("RequiresMountsFor", drop_in) == []


@pytest.mark.parametrize("daemon", ["slurmd", "sackd"])
def test_nodes_use_both_controllers(render, daemon):
    drop_in = lines(render, UNITS / f"{daemon}.service.d/gridstead.conf.j2")

    (option,) = lines_with("conf-server", drop_in)
    assert option.endswith('--conf-server controller,controller2"')


def test_controllers_start_only_with_their_state(render):
    for host in ("controller", "controller2"):
        unit = lines(render, SLURMCTLD_DROP_IN, host)

        assert "RequiresMountsFor=/srv/slurm/state" in unit
        assert "ExecStartPre=/usr/bin/test -e /srv/slurm/state/state_of_this_cluster" in unit


def test_only_the_primarys_unit_settles_the_nodes(render):
    """A clean stop of the backup must not count as a clean stop of the primary."""
    assert settling_options(render, "controller") == ["ExecStartPost", "ExecStopPost"]
    assert settling_options(render, "controller2") == []


def settling_options(render, host):
    """Return the options of slurmctld's unit that run gridstead-settle-nodes."""
    drop_in = lines(render, SLURMCTLD_DROP_IN, host)
    return [line.partition("=")[0] for line in lines_with("settle", drop_in)]


@pytest.mark.parametrize("component", ["controller", "backup_controller"])
def test_slurmctld_restarts_for_a_newer_jwt_key(component):
    tasks = read_yaml(ROLE.path / f"tasks/{component}.yml")
    daemon_tasks = tasks_with("gridstead.site.daemon", tasks)

    (task,) = [task for task in daemon_tasks if "slurmctld" in str(task)]
    assert "__slurm_jwt_key_file" in str(task)


@pytest.fixture
def take_over(render, tmp_path, monkeypatch):
    """A function that runs the takeover program on a host.

    It returns the arguments of the fake gridstead-settle-nodes. During its run, the fake creates
    the marker of a clean stop, like a primary that stops late.
    """
    state = tmp_path / "state"
    commands = tmp_path / "bin"
    program = tmp_path / "take-over"
    arguments = tmp_path / "arguments"
    state.mkdir()
    commands.mkdir()
    text = render(ROLE, TAKE_OVER, "controller2", slurm_state_directory=str(state))
    program.write_text(text.replace("/usr/local/sbin/", f"{commands}/"))
    scripts = {
        "gridstead-settle-nodes": f'echo "$*" >{arguments}\ntouch "$2/stopped_cleanly"',
        "hostname": 'echo "$FAKE_HOSTNAME"',
        "logger": ":",
    }
    for name, script in scripts.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    arguments.write_text("")

    def run(host):
        monkeypatch.setenv("FAKE_HOSTNAME", host)
        # slurmctld starts the program with closed stdin, stdout and stderr.
        subprocess.run(["bash", "-c", 'exec <&- >&- 2>&-; exec bash "$0"', program], check=True)
        return arguments.read_text().split()

    run.state = state
    return run


def test_the_backup_settles_the_nodes_after_a_takeover(take_over):
    assert take_over("controller2") == ["started", str(take_over.state), "8"]


def test_the_takeover_program_does_nothing_on_the_primary(take_over):
    assert take_over("controller") == []


def test_a_late_stop_marker_of_the_primary_is_removed(take_over):
    take_over("controller2")

    assert [*take_over.state.iterdir()] == []


@pytest.fixture
def move(tmp_path, monkeypatch):
    """A function that moves the state from folder old to folder new and returns the exit code."""
    commands = tmp_path / "bin"
    commands.mkdir()
    scripts = {"systemctl": ":", "install": 'mkdir --parents "${@: -1}"'}
    for name, script in scripts.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")

    def run():
        argv = ["bash", ROLE.path / "files/move-state.sh", tmp_path / "old", tmp_path / "new"]
        return subprocess.run(argv, check=False).returncode

    return run


def test_the_state_moves_and_is_removed_from_its_old_folder(move, tmp_path):
    (tmp_path / "old/hash.7/job.17").mkdir(parents=True)
    for name in ("clustername", "job_state", "hash.7/job.17/script"):
        (tmp_path / "old" / name).touch()

    assert move() == 0
    assert texts_below(tmp_path / "new").keys() == {
        "clustername",
        "job_state",
        "hash.7/job.17/script",
    }
    assert "clustername" not in texts_below(tmp_path / "old")


def test_a_folder_without_state_is_not_moved(move, tmp_path):
    (tmp_path / "old").mkdir()

    assert move() != 0
