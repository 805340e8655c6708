# SPDX-License-Identifier: Apache-2.0
"""Tests of steps in containers, with simulated Apptainer and Enroot."""

from __future__ import annotations

import json
import os

import pytest
from tests.unit.workflow.node import SRUN, workflow
from tests.unit.workflow.runtimes import (
    DEBIAN,
    ENROOT,
    calls,
    install,
    job_directory,
    start_calls,
    step,
)

from gridstead.workflow.render import render


class TestRuntime:
    def test_enroot_is_preferred_to_apptainer(self, node, runtime):
        code, _ = node.run(workflow(step()))

        assert code == 0
        assert len(start_calls(node, runtime)) == 1
        uses_enroot = calls(node, "enroot", "start") != []
        assert uses_enroot == (runtime == "enroot")

    @pytest.mark.parametrize(
        "container", [{**DEBIAN, "apptainer": True}, {**DEBIAN, "deepsquareHosted": True}]
    )
    def test_apptainer_is_used_if_the_step_requires_it(self, node, runtime, container, tmp_path):
        job = workflow(step(container=container))
        text = render(job, paths=node.script_paths).replace("/opt/software", str(tmp_path))
        (tmp_path / "registry-1.docker.io").mkdir()
        (tmp_path / "registry-1.docker.io/debian:12").write_text("image")

        code, _ = node.run(job, text=text)

        assert code == 0
        assert len(calls(node, "apptainer", "exec")) == 1
        assert calls(node, "enroot", "start") == []

    @pytest.mark.parametrize("image", [DEBIAN, {"image": "/my.sqsh"}])
    def test_a_step_fails_on_a_node_without_a_runtime(self, node, image):
        code, output = node.run(workflow("touch my.sqsh", step(container=image)))

        assert (code, output) == (127, "gridstead: this node has no apptainer\n")
        assert node.leftover_files == []

    def test_a_task_fails_on_a_node_without_the_selected_runtime(self, node, runtime):
        # This simulated srun removes the runtime before it starts the task.
        node.add_program(
            "srun", SRUN.replace("shift\ndone", f"shift\ndone\nrm {node.bin}/{runtime}")
        )

        code, output = node.run(workflow(step()))

        assert code == 127
        assert output.splitlines()[-1] == f"gridstead: this node has no {runtime}"
        assert node.leftover_files == []

    @pytest.mark.parametrize("code", [0, 7])
    def test_a_container_is_removed_whatever_its_exit_code(self, node, runtime, code):
        job_code, output = node.run(workflow(step(f"echo hello; exit {code}")))

        assert job_code == code
        assert output.endswith("hello\n")
        assert node.leftover_files == []
        assert len(calls(node, "enroot", "remove")) == (1 if runtime == "enroot" else 0)

    def test_the_command_runs_in_the_shell_of_the_step(self, node, runtime):
        _, output = node.run(workflow(step("echo ${BASH_VERSION:+bash}", shell="/bin/bash")))

        assert output.endswith("bash\n")

    def test_a_container_writes_to_a_private_folder_on_the_disk_of_the_node(self, node, apptainer):
        step_with_own_folder = step(env=[{"key": "TMPDIR", "value": "/of/the/image"}])

        code, _ = node.run(workflow(step_with_own_folder, step()))

        assert code == 0
        for record in start_calls(node, "apptainer"):
            words = record["words"]
            for option in ("--overlay", "--workdir"):
                assert words[words.index(option) + 1].startswith(f"{node.root}/tmp/gridstead.")
            assert record["mode"] == 0o700
        # The simulated Apptainer wrote to both folders. Slurm removes them if the job is killed.
        assert node.leftover_files == []

    def test_each_task_has_its_own_container(self, node, runtime):
        _, output = node.run(workflow(step('echo "$SLURM_PROCID"', resources={"tasks": 2})))

        assert output.endswith("0\n1\n")
        if runtime == "enroot":
            names = {record["words"][2] for record in calls(node, "enroot", "create")}
            assert len(names) == 2


class TestEnvironment:
    def test_the_jobs_directories_are_mounted_below_deepsquare(self, node, runtime):
        _, output = node.run(
            workflow(step('echo "$STORAGE_PATH $DEEPSQUARE_INPUT $DEEPSQUARE_ENV $DEEPSQUARE_TMP"'))
        )

        assert output.endswith("/deepsquare /deepsquare/input /deepsquare/env /deepsquare/tmp\n")
        words = start_calls(node, runtime)[0]["words"]
        assert f"{job_directory(node)}:/deepsquare" in words
        assert f"{node.root}/cache/disk/tmp/user-{os.getuid()}:/deepsquare/disk/tmp" in words
        # This node has no directory world-tmp.
        assert not any("world-tmp" in word for word in words)

    def test_variables_reach_the_command_unchanged(self, node, runtime):
        value = "x'y\"$HOME`id`\\ ,;:"
        command = 'printf "<%s><%s><%s>" "$A" "$B" "$item"'
        inner = step(command, env=[{"key": "B", "value": value}])
        loop = {"for": {"parallel": False, "items": [value], "steps": [inner]}}

        _, output = node.run(workflow(loop, env=[{"key": "A", "value": value}]))

        assert output.endswith(f"<{value}>" * 3)

    @pytest.mark.parametrize("shell", ["/bin/sh", "ENTRYPOINT"])
    def test_values_with_several_lines_and_quotes_reach_the_command(self, node, runtime, shell):
        values = {
            "A": "one\nB=two\n#SBATCH x\n",
            "C": 'it\'s "$HOME" `id` $(touch owned) \\ \\n',
            "D": "\n",
            "E": "é\t\x7f",
            # Enroot reads these variables, so they must not reach Enroot itself.
            "ENROOT_RUNTIME_PATH": "/mine",
            "ENROOT_ROOTFS_WRITABLE": "no",
            "ENROOT_X": "a\nb",
        }
        env = [{"key": key, "value": value} for key, value in values.items()]
        command = "env -0" if shell == "/bin/sh" else "environment"

        code, output = node.run(workflow(step(command, shell=shell, env=env)))

        variables = dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)
        assert code == 0
        assert values.items() <= variables.items()
        assert "B" not in variables
        assert not list(node.root.rglob("owned"))
        assert node.leftover_files == []

    def test_variables_with_names_of_the_script_do_not_change_the_script(self, node, runtime):
        names = [
            "storage", "runtime", "image", "in_container", "STORAGE_PATH", "mounts",
            "set_container_paths", "name", "options",
        ]  # fmt: skip
        env = [{"key": name, "value": "/x"} for name in names]

        code, output = node.run(workflow(step("echo $STORAGE_PATH $mounts $name"), env=env))

        assert code == 0
        assert output.splitlines()[-1] == "/x /x /x"
        assert f"{job_directory(node)}:/deepsquare" in start_calls(node, runtime)[0]["words"]
        assert node.leftover_files == []

    def test_the_entry_point_receives_the_words_of_the_command(self, node, runtime):
        _, output = node.run(workflow(step("a 'b c' $HOME \"d\"", shell="ENTRYPOINT")))

        assert output.endswith("entry point: a b c $HOME d\n")

    def test_an_empty_command_runs_the_entry_point(self, node, runtime):
        _, output = node.run(workflow(step("")))

        assert output.endswith("entry point:\n")

    def test_the_fields_of_a_container_become_options_of_apptainer(self, node, apptainer):
        container = {
            **DEBIAN, "mountHome": True, "readOnlyRootFS": True,
            "mounts": [
                {"hostDir": "/a-b", "containerDir": "/b", "options": "ro"},
                {"hostDir": "/c", "containerDir": "/d", "options": ""},
            ],
        }  # fmt: skip
        gpus = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 1}
        node.run(workflow(step(container=container, workDir="/w x"), step(), resources=gpus))

        first, second = (record["words"] for record in calls(node, "apptainer", "exec"))
        home = f"{node.home}:{node.home}"
        options = {"--contain", "--no-eval", "--no-home", "--nv"}
        assert options | {home, "/a-b:/b:ro", "/c:/d"} <= set(first)
        assert first[first.index("--pwd") + 1] == "/w x"
        assert "--overlay" not in first
        assert "--overlay" in second
        assert home not in second
        assert second[second.index("--pwd") + 1] == "/"

    @pytest.mark.parametrize("name", ["a b", "$(touch owned)'x", "plain"])
    def test_a_command_without_work_dir_runs_in_the_working_directory_of_the_image(
        self, node, runtime, name
    ):
        directory = node.root / name
        directory.mkdir()
        config = {"Labels": {"WorkingDir": "/label"}, "WorkingDir": str(directory), "User": ""}
        (node.home / "image-config").write_text(json.dumps(config, separators=(",", ":")))
        (node.home / "image-rc").write_text(
            f'# a label\nmkdir -p "{directory}"\ncd "{directory}" && unset OLDPWD || exit 1\n'
        )
        variable = [{"key": "work_dir", "value": "/other"}]

        code, output = node.run(workflow(step("pwd", env=variable), step("pwd", workDir="/tmp")))

        assert code == 0
        first, second = start_calls(node, runtime)
        if runtime == "enroot":
            assert output.splitlines()[-2:] == [str(directory), "/tmp"]
        else:
            words = [record["words"] for record in (first, second)]
            directories = [each[each.index("--pwd") + 1] for each in words]
            assert directories == [str(directory), "/tmp"]
        assert not list(node.root.rglob("owned"))

    def test_the_command_runs_as_root_if_the_step_maps_to_user_0(self, node, runtime):
        node.run(workflow(step(mapUid=0), step()))

        first, second = (record["words"] for record in start_calls(node, runtime))
        option = "--root" if runtime == "enroot" else "--fakeroot"
        assert option in first
        assert option not in second

    @pytest.mark.parametrize(
        ("ids", "expected"),
        [({"mapUid": 5}, f"5 {os.getgid()}"), ({"mapUid": 5, "mapGid": 6}, "5 6")],
    )
    def test_a_command_in_enroot_can_map_to_another_user(self, node, apptainer, ids, expected):
        install(node, "enroot", ENROOT)

        code, output = node.run(workflow(step('echo "$(id -u) $(id -g)"', **ids)))

        assert (code, output.splitlines()[-1]) == (0, expected)
        (start,) = start_calls(node, "enroot")
        assert "--root" not in start["words"]

    def test_a_step_that_maps_to_another_user_fails_in_apptainer(self, node, apptainer):
        code, output = node.run(workflow(step("echo never", mapUid=5)))

        message = "gridstead: Apptainer can map only to user 0 and group 0"
        assert (code, output.splitlines()[-1]) == (78, message)
        assert node.leftover_files == []

    def test_variables_of_an_image_replace_those_of_the_node_in_enroot(self, node, apptainer):
        install(node, "enroot", ENROOT)
        (node.home / "image-environment").write_text(
            "ON_NODE=image\nOWN=image\nSTORAGE_PATH=/image\n$(touch owned)=x\n"
        )
        command = 'echo "$ON_NODE $OWN $STORAGE_PATH $OTHER"'
        own_variable = [{"key": "OWN", "value": "workflow"}]

        code, output = node.run(
            workflow(step(command, env=own_variable)), ON_NODE="node", OTHER="node"
        )

        assert code == 0
        assert output.splitlines()[-1] == "image workflow /deepsquare node"
        assert not list(node.root.rglob("owned"))

    def test_the_fields_of_a_container_become_options_of_enroot(self, node, apptainer):
        install(node, "enroot", ENROOT)
        container = {
            **DEBIAN,
            "mountHome": True,
            "readOnlyRootFS": True,
            "mounts": [{"hostDir": "/a", "containerDir": "/b", "options": "ro"}],
        }
        code, output = node.run(
            workflow(step("pwd", container=container, workDir="/tmp"), step("pwd"))
        )

        first, second = (record["words"] for record in calls(node, "enroot", "start"))
        assert code == 0
        assert output.split()[-2:] == ["/tmp", "/"]
        assert {f"{node.home}:{node.home}", "/a:/b:ro"} <= set(first)
        assert "--rw" not in first
        assert "--rw" in second
