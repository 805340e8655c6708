# SPDX-License-Identifier: Apache-2.0
"""Tests of the images of containers, with simulated Apptainer and Enroot."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import steps, workflow
from tests.unit.workflow.runtimes import (
    DEBIAN,
    ENROOT,
    calls,
    fetch_calls,
    install,
    job_directory,
    step,
)

from gridstead.workflow.render import render, secrets_of


class TestImage:
    @pytest.mark.parametrize(
        ("container", "apptainer_url", "enroot_url"),
        [
            (DEBIAN, "docker://library/debian:12", "docker://library/debian:12"),
            ({"image": "me/it:1"}, "docker://me/it:1", "docker://me/it:1"),
            (
                {"image": "it", "registry": "reg.x:5000"},
                "docker://reg.x:5000/it",
                "docker://reg.x:5000#it",
            ),
        ],
    )
    def test_an_image_is_fetched_from_its_registry(
        self, node, runtime, container, apptainer_url, enroot_url
    ):
        node.run(workflow(step(container=container)))

        (record,) = fetch_calls(node, runtime)
        expected_url = enroot_url if runtime == "enroot" else apptainer_url
        assert record["words"][-1] == expected_url

    @pytest.mark.parametrize("registry", ["registry-1.docker.io", "docker.io", "Index.Docker.io"])
    def test_an_image_of_docker_hub_without_a_slash_is_in_library(self, node, runtime, registry):
        container = {**DEBIAN, "registry": registry, "username": "me", "password": "hush"}

        node.run(workflow(step(container=container)))

        (record,) = fetch_calls(node, runtime)
        if runtime == "enroot":
            assert record["words"][-1] == "docker://me@library/debian:12"
            # Docker Hub checks logins at this host.
            assert record["access"] == "machine auth.docker.io login me password hush\n"
        else:
            assert record["words"][-1] == "docker://library/debian:12"

    def test_an_image_is_fetched_once_for_all_steps(self, node, runtime):
        loop = {"for": {"parallel": True, "items": ["a", "b", "c"], "steps": [step()]}}

        code, _ = node.run(workflow(loop, step(), step(container={"image": "other"})))

        assert code == 0
        assert len(fetch_calls(node, runtime)) == 2

    def test_a_failed_fetch_fails_the_step_and_the_next_step_tries_again(self, node, apptainer):
        broken = {**step(container={"image": "broken"}), "catch": steps("true")}

        code, output = node.run(workflow(broken, broken))

        assert code == 0
        assert output.count("no such image") == 2
        assert node.leftover_files == []

    @pytest.mark.parametrize("path", ["/my.sif", "/x/../my.sif", "/../../my.sif", "//my.sif"])
    def test_the_path_of_an_image_is_relative_to_the_jobs_directory(self, node, runtime, path):
        code, _ = node.run(workflow("touch my.sif", step(container={"image": path})))

        assert code == 0
        subcommand = "create" if runtime == "enroot" else "exec"
        record, *_ = calls(node, runtime, subcommand)
        assert f"{job_directory(node)}/my.sif" in record["words"]

    def test_a_missing_image_file_fails_the_step(self, node, apptainer):
        code, output = node.run(workflow(step(container={"image": "/none.sif"})))

        assert code == 66  # EX_NOINPUT of sysexits.h
        assert f"image {job_directory(node)}/none.sif does not exist" in output

    def test_the_password_file_of_enroot_has_the_registry_without_its_port(self, node, apptainer):
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
        (record,) = fetch_calls(node, runtime)
        assert "hush" not in " ".join(record["words"])
        if runtime == "enroot":
            assert record["access"] == "machine reg.x login me password hush'$(x)\"\\\n"
        else:
            assert record["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush'$(x)\"\\"
        for exec_record in calls(node, "apptainer", "exec"):
            assert not exec_record["access"]
        assert node.leftover_files == []
