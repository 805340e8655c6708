# SPDX-License-Identifier: Apache-2.0
"""Steps in containers, with stand-ins for Apptainer and Enroot."""

from __future__ import annotations

import os

import pytest
from tests.unit.workflow.node import NAME, SRUN, steps, workflow
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, calls, install

from gridstead.workflow.render import render, secrets_of

DEBIAN = {"image": "debian:12"}


def step(command="echo hello", *, container=DEBIAN, **fields):
    return {"run": {"command": command, "container": container, **fields}}


def storage(node):
    return f"{node.root}/cache/shared/{os.getuid()}/{NAME}.42"


def starts(node, runtime):
    """Return the recorded calls that started a container."""
    return calls(node, runtime, "start" if runtime == "enroot" else "exec")


def fetches(node, runtime):
    """Return the recorded calls that fetched an image."""
    return calls(node, runtime, "import" if runtime == "enroot" else "pull")


@pytest.fixture
def apptainer(node):
    install(node, "apptainer", APPTAINER)


@pytest.fixture(params=["apptainer", "enroot"])
def runtime(request, node, apptainer):
    """Each of the two runtimes; the node uses it."""
    if request.param == "enroot":
        install(node, "enroot", ENROOT)
    return request.param


class TestRuntime:
    def test_enroot_is_used_if_the_node_has_it_and_apptainer_otherwise(self, node, runtime):
        assert node.run(workflow(step()))[0] == 0
        assert len(starts(node, runtime)) == 1
        assert bool(calls(node, "enroot", "start")) == (runtime == "enroot")

    @pytest.mark.parametrize(
        "container", [{**DEBIAN, "apptainer": True}, {**DEBIAN, "deepsquareHosted": True}]
    )
    def test_apptainer_is_used_if_the_step_requires_it(self, node, runtime, container, tmp_path):
        job = workflow(step(container=container))
        text = render(job, site=node.site).replace("/opt/software", str(tmp_path))
        (tmp_path / "registry-1.docker.io").mkdir()
        (tmp_path / "registry-1.docker.io/debian:12").write_text("image")

        assert node.run(job, text=text)[0] == 0
        assert len(calls(node, "apptainer", "exec")) == 1
        assert calls(node, "enroot", "start") == []

    @pytest.mark.parametrize("image", [DEBIAN, {"image": "/my.sqsh"}])
    def test_a_node_without_a_runtime_fails_the_step(self, node, image):
        code, output = node.run(workflow("touch my.sqsh", step(container=image)))

        assert (code, output) == (127, "gridstead: this node has no apptainer\n")
        assert node.left == []

    def test_a_task_on_a_node_without_the_runtime_fails(self, node, runtime):
        node.add("srun", SRUN.replace("shift\ndone", f"shift\ndone\nrm {node.bin}/{runtime}"))

        code, output = node.run(workflow(step()))

        assert (code, output.splitlines()[-1]) == (127, f"gridstead: this node has no {runtime}")
        assert node.left == []

    @pytest.mark.parametrize("code", [0, 7])
    def test_the_exit_code_of_the_command_is_returned_and_no_file_remains(
        self, node, runtime, code
    ):
        result, output = node.run(workflow(step(f"echo hello; exit {code}")))

        assert result == code
        assert output.endswith("hello\n")
        assert node.left == []
        assert len(calls(node, "enroot", "remove")) == (runtime == "enroot")

    def test_the_command_runs_in_the_shell_of_the_step(self, node, runtime):
        _, output = node.run(workflow(step("echo ${BASH_VERSION:+bash}", shell="/bin/bash")))

        assert output.endswith("bash\n")

    def test_each_task_has_its_own_container(self, node, runtime):
        _, output = node.run(workflow(step('echo "$SLURM_PROCID"', resources={"tasks": 2})))

        assert output.endswith("0\n1\n")
        if runtime == "enroot":
            assert len({record["words"][2] for record in calls(node, "enroot", "create")}) == 2


class TestImage:
    @pytest.mark.parametrize(
        ("container", "by_apptainer", "by_enroot"),
        [
            (DEBIAN, "docker://debian:12", "docker://library/debian:12"),
            ({"image": "me/it:1"}, "docker://me/it:1", "docker://me/it:1"),
            (
                {"image": "it", "registry": "reg.x:5000"},
                "docker://reg.x:5000/it",
                "docker://reg.x:5000#it",
            ),
        ],
    )
    def test_an_image_is_fetched_from_its_registry(
        self, node, runtime, container, by_apptainer, by_enroot
    ):
        node.run(workflow(step(container=container)))

        (record,) = fetches(node, runtime)
        assert record["words"][-1] == (by_enroot if runtime == "enroot" else by_apptainer)

    def test_an_image_is_fetched_once_for_all_steps(self, node, runtime):
        loop = {"for": {"parallel": True, "items": ["a", "b", "c"], "steps": [step()]}}

        assert node.run(workflow(loop, step(), step(container={"image": "other"})))[0] == 0
        assert len(fetches(node, runtime)) == 2

    def test_an_image_that_cannot_be_fetched_fails_the_step_and_is_tried_again(
        self, node, apptainer
    ):
        broken = {**step(container={"image": "broken"}), "catch": steps("true")}

        code, output = node.run(workflow(broken, broken))

        assert code == 0
        assert output.count("no such image") == 2
        assert node.left == []

    @pytest.mark.parametrize("path", ["/my.sif", "/x/../my.sif", "/../../my.sif", "//my.sif"])
    def test_the_path_of_an_image_is_in_the_jobs_directory(self, node, runtime, path):
        assert node.run(workflow("touch my.sif", step(container={"image": path})))[0] == 0
        words = calls(node, runtime, "create" if runtime == "enroot" else "exec")[0]["words"]
        assert f"{storage(node)}/my.sif" in words

    def test_a_missing_image_file_fails_the_step(self, node, apptainer):
        code, output = node.run(workflow(step(container={"image": "/none.sif"})))

        assert code == 66
        assert f"image {storage(node)}/none.sif does not exist" in output

    def test_the_password_is_for_the_host_of_the_registry_without_the_port(self, node, apptainer):
        install(node, "enroot", ENROOT)
        container = {**DEBIAN, "registry": "reg.x:5000", "username": "me", "password": "hush"}

        node.run(workflow(step(container=container)))

        (record,) = calls(node, "enroot", "import")
        assert record["access"] == "machine reg.x login me password hush\n"
        assert record["words"][-1] == "docker://me@reg.x:5000#debian:12"

    def test_the_password_is_passed_only_to_the_registry(self, node, runtime):
        container = {**DEBIAN, "registry": "reg.x", "username": "me", "password": "hush'$(x)\"\\"}
        job = workflow(step("env", container=container), "env", enableLogging=True)

        code, output = node.run(job)

        assert code == 0
        assert list(secrets_of(job)) == ["GRIDSTEAD_REGISTRY_1"]
        assert "hush" not in output + render(job)
        (record,) = fetches(node, runtime)
        assert "hush" not in " ".join(record["words"])
        if runtime == "enroot":
            assert record["access"] == "machine reg.x login me password hush'$(x)\"\\\n"
        else:
            assert record["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush'$(x)\"\\"
        assert all(not record["access"] for record in calls(node, "apptainer", "exec"))
        assert node.left == []


class TestEnvironment:
    def test_the_jobs_directories_are_mounted_below_deepsquare(self, node, runtime):
        _, output = node.run(
            workflow(step('echo "$STORAGE_PATH $DEEPSQUARE_INPUT $DEEPSQUARE_ENV $DEEPSQUARE_TMP"'))
        )

        assert output.endswith("/deepsquare /deepsquare/input /deepsquare/env /deepsquare/tmp\n")
        words = starts(node, runtime)[0]["words"]
        assert f"{storage(node)}:/deepsquare" in words
        assert f"{node.root}/cache/disk/tmp/user-{os.getuid()}:/deepsquare/disk/tmp" in words
        assert not any("world-tmp" in word for word in words)  # this node has none

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
            "ENROOT_RUNTIME_PATH": "/mine",
            "ENROOT_ROOTFS_WRITABLE": "no",
            "ENROOT_X": "a\nb",
        }
        env = [{"key": key, "value": value} for key, value in values.items()]
        command = "env -0" if shell == "/bin/sh" else "environment"

        code, output = node.run(workflow(step(command, shell=shell, env=env)))

        seen = dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)
        assert code == 0
        assert {key: seen.get(key) for key in values} == values
        assert "B" not in seen
        assert not list(node.root.rglob("owned"))
        assert node.left == []

    def test_variables_with_names_of_the_script_do_not_change_the_script(self, node, runtime):
        names = [
            "storage", "runtime", "image", "in_container", "STORAGE_PATH", "mounts",
            "set_container_paths", "name", "options",
        ]  # fmt: skip
        env = [{"key": name, "value": "/x"} for name in names]

        code, output = node.run(workflow(step("echo $STORAGE_PATH $mounts $name"), env=env))

        assert (code, output.splitlines()[-1]) == (0, "/x /x /x")
        assert f"{storage(node)}:/deepsquare" in starts(node, runtime)[0]["words"]
        assert node.left == []

    def test_the_entry_point_receives_the_words_of_the_command(self, node, runtime):
        _, output = node.run(workflow(step("a 'b c' $HOME \"d\"", shell="ENTRYPOINT")))

        assert output.endswith("entry point: a b c $HOME d\n")

    def test_an_empty_command_runs_the_entry_point(self, node, runtime):
        assert node.run(workflow(step("")))[1].endswith("entry point:\n")

    def test_the_options_of_apptainer_follow_from_the_container(self, node, apptainer):
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
        assert "--writable-tmpfs" not in first
        assert "--writable-tmpfs" in second
        assert home not in second
        assert second[second.index("--pwd") + 1] == "/"

    def test_the_command_runs_as_root_if_the_step_maps_to_user_0(self, node, runtime):
        node.run(workflow(step(mapUid=0), step()))

        first, second = (record["words"] for record in starts(node, runtime))
        option = "--root" if runtime == "enroot" else "--fakeroot"
        assert option in first
        assert option not in second

    def test_the_options_of_enroot_follow_from_the_container(self, node, apptainer):
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
        assert (code, output.split()[-2:]) == (0, ["/tmp", "/"])
        assert {f"{node.home}:{node.home}", "/a:/b:ro"} <= set(first)
        assert "--rw" not in first
        assert "--rw" in second
