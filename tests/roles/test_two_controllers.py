# SPDX-License-Identifier: Apache-2.0
"""Two controllers: their configuration, the takeover by the backup, and the move of the state."""

import subprocess

import pytest
import yaml
from tests.roles.catalogue import Role

ROLE = Role("slurm")
UNITS = ROLE.path / "templates/etc/systemd/system"
CONF = ROLE.path / "templates/etc/slurm/slurm.conf.j2"
TAKE_OVER = ROLE.path / "templates/usr/local/sbin/gridstead-take-over.j2"
ALONE = {"slurm_backup_controller_host": "", "slurm_state_directory": "/var/lib/slurm/slurmctld"}


def lines(render, template, host="controller", **variables):
    return [
        line
        for line in render(ROLE, template, host, **variables).splitlines()
        if line and line[0] != "#"
    ]


def slurm_settings(render, *keys, **variables):
    return [line for line in lines(render, CONF, **variables) if line.partition("=")[0] in keys]


def test_slurm_conf_lists_both_controllers_in_order(render):
    assert slurm_settings(
        render, "SlurmctldHost", "SlurmctldPrimaryOnProg", "StateSaveLocation"
    ) == [
        "SlurmctldHost=controller",
        "SlurmctldHost=controller2",
        "SlurmctldPrimaryOnProg=/usr/local/sbin/gridstead-take-over",
        "StateSaveLocation=/srv/slurm/state",
    ]


def test_a_single_controller_has_no_backup(render):
    assert slurm_settings(
        render, "SlurmctldHost", "SlurmctldPrimaryOnProg", "StateSaveLocation", **ALONE
    ) == [
        "SlurmctldHost=controller",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
    ]
    assert not [
        line
        for line in lines(render, UNITS / "slurmctld.service.d/gridstead.conf.j2", **ALONE)
        if "shared" in line
    ]


@pytest.mark.parametrize("daemon", ["slurmd", "sackd"])
def test_nodes_use_both_controllers(render, daemon):
    (option,) = [
        line
        for line in lines(render, UNITS / f"{daemon}.service.d/gridstead.conf.j2")
        if "conf-server" in line
    ]

    assert option.endswith('--conf-server controller,controller2"')


def test_controllers_start_only_with_their_state(render):
    for host in ("controller", "controller2"):
        unit = lines(render, UNITS / "slurmctld.service.d/gridstead.conf.j2", host)

        assert "RequiresMountsFor=/srv/slurm/state" in unit
        assert "ExecStartPre=/usr/bin/test -e /srv/slurm/state/state_of_this_cluster" in unit


def test_a_standby_start_records_nothing_and_holds_nothing(render):
    """Its clean stop would count as a stop of the primary and hide the primary's crash."""
    first, second = (
        [
            line.partition("=")[0]
            for line in lines(render, UNITS / "slurmctld.service.d/gridstead.conf.j2", host)
            if "settle" in line
        ]
        for host in ("controller", "controller2")
    )

    assert first == ["ExecStartPost", "ExecStopPost"]
    assert second == []


@pytest.mark.parametrize("component", ["controller", "backup_controller"])
def test_slurmctld_restarts_for_a_newer_jwt_key(component):
    tasks = yaml.safe_load((ROLE.path / f"tasks/{component}.yml").read_text())
    (task,) = [
        task
        for task in tasks
        if "slurmctld" in str(task.get("gridstead.site.daemon", "")) + str(task.get("loop", ""))
    ]

    assert "__slurm_jwt_key_file" in str(task)
    assert "gridstead.site.daemon" in task


@pytest.fixture
def taken_over(render, tmp_path, monkeypatch):
    """A function that runs a takeover by a host and returns the calls of the settling program."""
    state, commands, program = tmp_path / "state", tmp_path / "bin", tmp_path / "take-over"
    state.mkdir()
    commands.mkdir()
    text = render(ROLE, TAKE_OVER, "controller2", slurm_state_directory=str(state))
    program.write_text(text.replace("/usr/local/sbin/", f"{commands}/"))
    settle = f'#!/bin/sh\necho "$*" >{tmp_path}/told\ntouch "$2/stopped_cleanly"\n'
    for name, script in {
        "gridstead-settle-nodes": settle,
        "hostname": '#!/bin/sh\necho "$HERE"\n',
        "logger": "#!/bin/sh\n",
    }.items():
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    (tmp_path / "told").write_text("")

    def run(host):
        monkeypatch.setenv("HERE", host)
        # slurmctld starts it with nothing open.
        subprocess.run(["bash", "-c", 'exec <&- >&- 2>&-; exec bash "$0"', program], check=True)
        return (tmp_path / "told").read_text().split()

    run.state = state
    return run


def test_the_backup_settles_the_nodes_after_a_takeover(taken_over):
    assert taken_over("controller2") == ["started", str(taken_over.state), "8"]


def test_the_primarys_nodes_are_settled_by_its_unit(taken_over):
    assert taken_over("controller") == []


def test_a_late_stop_record_of_the_primary_is_removed(taken_over):
    taken_over("controller2")

    assert [*taken_over.state.iterdir()] == []


@pytest.fixture
def move(tmp_path, monkeypatch):
    """A function that moves the state from folder old to folder new, like the role."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, script in {"systemctl": ":", "install": 'mkdir --parents "${@: -1}"'}.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")

    def run():
        argv = ["bash", ROLE.path / "files/move-state.sh", tmp_path / "old", tmp_path / "new"]
        return subprocess.run(argv, check=False).returncode

    return run


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_state_moves_and_is_removed_from_its_old_folder(move, tmp_path):
    (tmp_path / "old/hash.7/job.17").mkdir(parents=True)
    for name in ("clustername", "job_state", "hash.7/job.17/script"):
        (tmp_path / "old" / name).touch()

    assert move() == 0
    assert files(tmp_path / "new") == {"clustername", "job_state", "hash.7/job.17/script"}
    assert "clustername" not in files(tmp_path / "old")


def test_a_folder_without_state_is_not_moved(move, tmp_path):
    (tmp_path / "old").mkdir()

    assert move() != 0
