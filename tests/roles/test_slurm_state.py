# SPDX-License-Identifier: Apache-2.0
"""An unmounted folder for slurmctld's state is not treated as a new folder."""

import json
import subprocess

import pytest
from tests.roles.catalogue import ROOT, Role

ROLE = Role("slurm")
NOTE = ROLE.vars["__slurm_state_note"]


@pytest.fixture
def place(tmp_path):
    """A function that prepares the folder of a controller's state, with a former folder."""
    for name in ("state.yml", "state_note.yml"):
        text = (ROLE.path / "tasks" / name).read_text()
        # Nobody here is called slurm.
        (tmp_path / name).write_text(
            text.replace("owner: slurm", "owner: root").replace("group: slurm", "group: root")
        )

    def run(state, was):
        known = {
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "slurm_components": ["controller"],
            "slurm_backup_controller_host": "",
            "__slurm_config": {"StateSaveLocation": str(state)},
            "__slurm_change_result": {"state_was": str(was)},
            **{name: ROLE.vars[name] for name in ("__slurm_state_note", "__slurm_state_was")},
        }
        tasks = [{"name": "Have a place", "ansible.builtin.import_tasks": "state.yml"}]
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": known,
            "tasks": tasks,
        }
        (tmp_path / "book.yml").write_text(json.dumps([play]))
        command = ["ansible-playbook", "--inventory=localhost,", tmp_path / "book.yml"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return result.returncode, " ".join(result.stdout.split())

    return run


def test_a_missing_state_that_existed_before_is_an_error(place, tmp_path):
    state = tmp_path / "mounted/slurm"

    code, output = place(state, was=state)

    assert code != 0
    assert f"localhost does not see slurmctld's state in {state}" in output
    assert "Mount its file system" in output
    assert f"create {state}/{NOTE}" in output
    assert not state.parent.exists()


def test_an_existing_state_is_not_changed(place, tmp_path):
    state = tmp_path / "slurm"
    assert place(state, was="")[0] == 0
    (state / "job_state").write_text("jobs")

    code, output = place(state, was=state)

    assert (code, "changed=0" in output) == (0, True)
    assert {path.name for path in state.iterdir()} == {NOTE, "job_state"}


@pytest.mark.parametrize("was", ["", "/var/lib/slurm/slurmctld"])
def test_a_new_state_folder_is_created_and_recorded(place, tmp_path, was):
    state = tmp_path / "a/slurm"

    assert place(state, was)[0] == 0

    assert (state / NOTE).exists()
    assert state.stat().st_mode & 0o777 == 0o700
