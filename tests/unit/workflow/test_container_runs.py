# SPDX-License-Identifier: Apache-2.0
"""Steps in containers, with stand-ins for Apptainer and Enroot."""

from __future__ import annotations

import os

import pytest
from tests.unit.workflow.node import NAME, SRUN, steps, workflow
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, install, told

from gridstead.workflow.render import render, secrets_of

DEBIAN = {"image": "debian:12"}


def step(command="echo hello", *, container=DEBIAN, **fields):
    return {"run": {"command": command, "container": container, **fields}}


def storage(node):
    return f"{node.root}/cache/shared/{os.getuid()}/{NAME}.42"


@pytest.fixture
def apptainer(node):
    install(node, "apptainer", APPTAINER)


@pytest.fixture(params=["apptainer", "enroot"])
def runtime(request, node, apptainer):
    """Either runtime, in use."""
    if request.param == "enroot":
        install(node, "enroot", ENROOT)
    return request.param


class TestRuntime:
    def test_enroot_where_it_is_and_apptainer_otherwise(self, node, runtime):
        assert node.run(workflow(step()))[0] == 0
        assert len(told(node, runtime, "start" if runtime == "enroot" else "exec")) == 1
        assert bool(told(node, "enroot", "start")) == (runtime == "enroot")

    @pytest.mark.parametrize(
        "container", [{**DEBIAN, "apptainer": True}, {**DEBIAN, "deepsquareHosted": True}]
    )
    def test_apptainer_where_it_has_to_be(self, node, runtime, container, tmp_path):
        job = workflow(step(container=container))
        text = render(job, site=node.site).replace("/opt/software", str(tmp_path))
        (tmp_path / "registry-1.docker.io").mkdir()
        (tmp_path / "registry-1.docker.io/debian:12").write_text("image")

        assert node.run(job, text=text)[0] == 0
        assert len(told(node, "apptainer", "exec")) == 1
        assert told(node, "enroot", "start") == []

    @pytest.mark.parametrize("image", [DEBIAN, {"image": "/my.sqsh"}])
    def test_node_without_a_runtime_is_told(self, node, image):
        code, output = node.run(workflow("touch my.sqsh", step(container=image)))

        assert (code, output) == (127, "gridstead: this node has no apptainer\n")
        assert node.left == []

    def test_node_of_a_task_without_the_runtime_is_told(self, node, runtime):
        node.add("srun", SRUN.replace("shift\ndone", f"shift\ndone\nrm {node.bin}/{runtime}"))

        code, output = node.run(workflow(step()))

        assert (code, output.splitlines()[-1]) == (127, f"gridstead: this node has no {runtime}")
        assert node.left == []

    @pytest.mark.parametrize("code", [0, 7])
    def test_command_runs_and_its_code_comes_through_and_nothing_stays(self, node, runtime, code):
        result, output = node.run(workflow(step(f"echo hello; exit {code}")))

        assert result == code
        assert output.endswith("hello\n")
        assert node.left == []
        assert len(told(node, "enroot", "remove")) == (runtime == "enroot")

    def test_shell_is_the_wanted_one(self, node, runtime):
        assert node.run(workflow(step("echo ${BASH_VERSION:+bash}", shell="/bin/bash")))[
            1
        ].endswith("bash\n")

    def test_every_task_has_its_container(self, node, runtime):
        _, output = node.run(workflow(step('echo "$SLURM_PROCID"', resources={"tasks": 2})))

        assert output.endswith("0\n1\n")
        if runtime == "enroot":
            assert len({record["words"][2] for record in told(node, "enroot", "create")}) == 2


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
    def test_image_comes_from_its_registry(self, node, runtime, container, by_apptainer, by_enroot):
        node.run(workflow(step(container=container)))

        (record,) = told(node, runtime, "import" if runtime == "enroot" else "pull")
        assert record["words"][-1] == (by_enroot if runtime == "enroot" else by_apptainer)

    def test_image_is_fetched_once_for_all_steps(self, node, runtime):
        loop = {"for": {"parallel": True, "items": ["a", "b", "c"], "steps": [step()]}}

        assert node.run(workflow(loop, step(), step(container={"image": "other"})))[0] == 0
        assert len(told(node, runtime, "import" if runtime == "enroot" else "pull")) == 2

    def test_image_that_cannot_be_fetched_ends_the_step_and_is_tried_again(self, node, apptainer):
        broken = {**step(container={"image": "broken"}), "catch": steps("true")}

        code, output = node.run(workflow(broken, broken))

        assert code == 0
        assert output.count("no such image") == 2
        assert node.left == []

    @pytest.mark.parametrize("path", ["/my.sif", "/x/../my.sif", "/../../my.sif", "//my.sif"])
    def test_path_is_one_in_the_jobs_directory(self, node, runtime, path):
        assert node.run(workflow("touch my.sif", step(container={"image": path})))[0] == 0
        words = told(node, runtime, "create" if runtime == "enroot" else "exec")[0]["words"]
        assert f"{storage(node)}/my.sif" in words

    def test_missing_path_is_told(self, node, apptainer):
        code, output = node.run(workflow(step(container={"image": "/none.sif"})))

        assert code == 66
        assert f"there is no image {storage(node)}/none.sif" in output

    def test_password_is_that_of_the_host_whatever_its_port(self, node, apptainer):
        install(node, "enroot", ENROOT)
        container = {**DEBIAN, "registry": "reg.x:5000", "username": "me", "password": "hush"}

        node.run(workflow(step(container=container)))

        (record,) = told(node, "enroot", "import")
        assert record["access"] == "machine reg.x login me password hush\n"
        assert record["words"][-1] == "docker://me@reg.x:5000#debian:12"

    def test_password_is_told_to_the_registry_and_to_nobody_else(self, node, runtime):
        container = {**DEBIAN, "registry": "reg.x", "username": "me", "password": "hush'$(x)\"\\"}
        job = workflow(step("env", container=container), "env", enableLogging=True)

        code, output = node.run(job)

        assert code == 0
        assert list(secrets_of(job)) == ["GRIDSTEAD_REGISTRY_1"]
        assert "hush" not in output + render(job)
        (record,) = told(node, runtime, "import" if runtime == "enroot" else "pull")
        assert "hush" not in " ".join(record["words"])
        if runtime == "enroot":
            assert record["access"] == "machine reg.x login me password hush'$(x)\"\\\n"
        else:
            assert record["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush'$(x)\"\\"
        assert all(not record["access"] for record in told(node, "apptainer", "exec"))
        assert node.left == []


class TestSurroundings:
    def test_container_sees_the_jobs_directories_in_deepsquare(self, node, runtime):
        _, output = node.run(
            workflow(step('echo "$STORAGE_PATH $DEEPSQUARE_INPUT $DEEPSQUARE_ENV $DEEPSQUARE_TMP"'))
        )

        assert output.endswith("/deepsquare /deepsquare/input /deepsquare/env /deepsquare/tmp\n")
        words = told(node, runtime, "start" if runtime == "enroot" else "exec")[0]["words"]
        assert f"{storage(node)}:/deepsquare" in words
        assert f"{node.root}/cache/disk/tmp/user-{os.getuid()}:/deepsquare/disk/tmp" in words
        assert not any("world-tmp" in word for word in words)  # this node has none

    def test_variables_reach_the_command_as_they_are(self, node, runtime):
        value = "x'y\"$HOME`id`\\ ,;:"
        env = [{"key": "A", "value": value}]
        loop = {
            "for": {
                "parallel": False,
                "items": [value],
                "steps": [
                    step(
                        'printf "<%s><%s><%s>" "$A" "$B" "$item"',
                        env=[{"key": "B", "value": value}],
                    )
                ],
            }
        }

        assert node.run(workflow(loop, env=env))[1].endswith(f"<{value}>" * 3)

    @pytest.mark.parametrize("shell", ["/bin/sh", "ENTRYPOINT"])
    def test_values_of_several_lines_and_with_quotes_are_the_commands(self, node, runtime, shell):
        values = {
            "A": "one\nB=two\n#SBATCH x\n", "C": "it's \"$HOME\" `id` $(touch owned) \\ \\n", "D": "\n", "E": "é\t\x7f",
            "ENROOT_RUNTIME_PATH": "/mine", "ENROOT_ROOTFS_WRITABLE": "no", "ENROOT_X": "a\nb",
        }  # fmt: skip
        env = [{"key": key, "value": value} for key, value in values.items()]
        command = "env -0" if shell == "/bin/sh" else "environment"

        code, output = node.run(workflow(step(command, shell=shell, env=env)))

        seen = dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)
        assert code == 0
        assert {key: seen.get(key) for key in values} == values
        assert "B" not in seen
        assert not list(node.root.rglob("owned"))
        assert node.left == []

    def test_variables_named_as_ours_change_nothing_of_ours(self, node, runtime):
        names = [
            "storage",
            "runtime",
            "image",
            "in_container",
            "STORAGE_PATH",
            "mounts",
            "folders",
            "name",
            "options",
        ]
        env = [{"key": name, "value": "/x"} for name in names]

        code, output = node.run(workflow(step("echo $STORAGE_PATH $mounts $name"), env=env))

        assert (code, output.splitlines()[-1]) == (0, "/x /x /x")
        assert (
            f"{storage(node)}:/deepsquare"
            in told(node, runtime, "start" if runtime == "enroot" else "exec")[0]["words"]
        )
        assert node.left == []

    def test_entry_point_gets_the_words(self, node, runtime):
        _, output = node.run(workflow(step("a 'b c' $HOME \"d\"", shell="ENTRYPOINT")))

        assert output.endswith("entry point: a b c $HOME d\n")

    def test_empty_command_is_the_images_own(self, node, runtime):
        assert node.run(workflow(step("")))[1].endswith("entry point:\n")

    def test_options_of_apptainer(self, node, apptainer):
        container = {
            **DEBIAN, "mountHome": True, "readOnlyRootFS": True,
            "mounts": [
                {"hostDir": "/a-b", "containerDir": "/b", "options": "ro"},
                {"hostDir": "/c", "containerDir": "/d", "options": ""},
            ],
        }  # fmt: skip
        gpus = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 1}
        node.run(workflow(step(container=container, workDir="/w x"), step(), resources=gpus))

        one, other = (record["words"] for record in told(node, "apptainer", "exec"))
        assert {
            "--contain",
            "--no-eval",
            "--no-home",
            "--nv",
            f"{node.home}:{node.home}",
            "/a-b:/b:ro",
            "/c:/d",
        } <= set(one)
        assert one[one.index("--pwd") + 1] == "/w x"
        assert "--writable-tmpfs" not in one
        assert "--writable-tmpfs" in other
        assert f"{node.home}:{node.home}" not in other
        assert other[other.index("--pwd") + 1] == "/"

    def test_command_may_seem_to_be_root(self, node, runtime):
        node.run(workflow(step(mapUid=0), step()))

        one, other = (
            record["words"]
            for record in told(node, runtime, "start" if runtime == "enroot" else "exec")
        )
        option = "--root" if runtime == "enroot" else "--fakeroot"
        assert option in one
        assert option not in other

    def test_options_of_enroot(self, node, apptainer):
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

        one, other = (record["words"] for record in told(node, "enroot", "start"))
        assert (code, output.split()[-2:]) == (0, ["/tmp", "/"])
        assert {f"{node.home}:{node.home}", "/a:/b:ro"} <= set(one)
        assert "--rw" not in one
        assert "--rw" in other
