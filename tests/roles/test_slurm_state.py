# SPDX-License-Identifier: Apache-2.0
"""Role slurm creates the folder of slurmctld's state, but not in place of a missing mount.

A marker file in the folder shows that the folder contains the state.
"""

import json
import subprocess

import pytest
from tests.roles.catalogue import ROOT, Role
from tests.roles.content import names_in

pytestmark = pytest.mark.slow

ROLE = Role("slurm")
MARKER = ROLE.vars["__slurm_state_marker"]


@pytest.fixture
def prepare_state(tmp_path):
    """A function that prepares the folder of a controller's state, like the role.

    Argument ``previous`` is the folder that the last run recorded, or empty for a new controller.
    The function returns the exit code and the output of Ansible.
    """
    for name in ("state.yml", "state_note.yml"):
        text = (ROLE.path / "tasks" / name).read_text()
        # This machine has no account slurm.
        text = text.replace("owner: slurm", "owner: root").replace("group: slurm", "group: root")
        (tmp_path / name).write_text(text)

    def run(state, previous):
        variables = {
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "slurm_components": ["controller"],
            "slurm_backup_controller_host": "",
            "__slurm_config": {"StateSaveLocation": str(state)},
            "__slurm_change_result": {"state_was": str(previous)},
            "__slurm_state_marker": ROLE.vars["__slurm_state_marker"],
            "__slurm_previous_state_directory": ROLE.vars["__slurm_previous_state_directory"],
        }
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": variables,
            "tasks": [{"ansible.builtin.import_tasks": "state.yml"}],
        }
        (tmp_path / "playbook.yml").write_text(json.dumps([play]))
        command = ["ansible-playbook", "--inventory=localhost,", tmp_path / "playbook.yml"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return result.returncode, " ".join(result.stdout.split())

    return run


def test_a_state_folder_that_existed_before_and_is_missing_is_an_error(prepare_state, tmp_path):
    state = tmp_path / "mounted/slurm"

    code, output = prepare_state(state, previous=state)

    assert code != 0
    assert f"{state} on localhost does not contain the state of slurmctld" in output
    assert "Mount the file system of the state" in output
    assert f"create {state}/{MARKER}" in output
    assert not state.parent.exists()


def test_an_existing_state_is_not_changed(prepare_state, tmp_path):
    state = tmp_path / "slurm"
    assert prepare_state(state, previous="")[0] == 0
    (state / "job_state").write_text("jobs")

    code, output = prepare_state(state, previous=state)

    assert code == 0
    assert "changed=0" in output
    assert names_in(state) == {MARKER, "job_state"}


@pytest.mark.parametrize("previous", ["", "/var/lib/slurm/slurmctld"])
def test_a_new_state_folder_is_created_and_recorded(prepare_state, tmp_path, previous):
    state = tmp_path / "new/slurm"

    assert prepare_state(state, previous)[0] == 0

    assert (state / MARKER).exists()
    assert state.stat().st_mode & 0o777 == 0o700
