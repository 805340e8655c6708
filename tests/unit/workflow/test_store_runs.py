# SPDX-License-Identifier: Apache-2.0
"""Input from an S3 store and output to it, with a simulated rclone."""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow.node import RCLONE, STORE, wait_for, workflow

from gridstead.workflow.render import render


def remote_variables(node):
    """Return the variables that defined the remote for the last call of rclone."""
    lines = (node.home / "rclone-variables").read_text().splitlines()
    return dict(line.removeprefix("RCLONE_CONFIG_STORE_").split("=", 1) for line in lines)


class TestStore:
    @pytest.fixture(autouse=True)
    def _rclone(self, node):
        """Install rclone, and put the file x into the store."""
        node.add_program("rclone", RCLONE)
        (node.home / "store/bucket/some/data").mkdir(parents=True)
        (node.home / "store/bucket/some/data/x").write_text("hello\n")

    def test_the_input_is_copied_from_the_store(self, node):
        code, output = node.run(workflow("cat input/x", input={"s3": STORE}))

        assert code == 0
        assert output.endswith("hello\n")
        assert node.leftover_files == []

    def test_rclone_gets_the_endpoint_and_the_region_of_the_store(self, node):
        node.run(workflow("true", input={"s3": STORE}))

        assert remote_variables(node) == {
            "TYPE": "s3",
            "PROVIDER": "Other",
            "ACCESS_KEY_ID": "AKIA",
            "SECRET_ACCESS_KEY": "very/secret+key=",
            "REGION": "eu-1",
            "ENDPOINT": "https://store.example:9000",
            "NO_CHECK_BUCKET": "true",
        }

    @pytest.mark.parametrize("data", ["input", "output"])
    @pytest.mark.parametrize(
        "key",
        [
            "%", ",", "'", '"', ";", "#", "?", " a ", "%(region)s", "${HOME}`id`", "\\", "=",
            '"""x"""', "`x`", "[store]", "é",
        ],
    )  # fmt: skip
    def test_a_secret_key_with_special_characters_reaches_rclone_unchanged(self, node, key, data):
        job = workflow("true", **{data: {"s3": {**STORE, "secretAccessKey": key}}})

        code, _ = node.run(job)

        assert code == 0
        assert remote_variables(node)["SECRET_ACCESS_KEY"] == key
        assert node.leftover_files == []

    def test_the_permissions_of_link_targets_do_not_change(self, node):
        outside = node.root / "outside"
        outside.write_text("mine")
        outside.chmod(0o640)
        data = node.home / "store/bucket/some/data"
        (data / "link").symlink_to(outside)
        (data / "dangling").symlink_to(node.root / "nothing")

        # 365 is 0o555.
        code, output = node.run(workflow("stat -c %a input/x", input={"s3": STORE}, inputMode=365))

        assert code == 0
        assert output.endswith("\n555\n")
        assert outside.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize(
        ("delete_sync", "expected_names"), [(False, {"x", "y"}), (True, {"y"})]
    )
    def test_the_output_is_copied_to_the_store(self, node, delete_sync, expected_names):
        code, _ = node.run(
            workflow("echo y >output/y", output={"s3": {**STORE, "deleteSync": delete_sync}})
        )

        assert code == 0
        names = {path.name for path in (node.home / "store/bucket/some/data").iterdir()}
        assert names == expected_names

    def test_the_keys_of_the_store_are_in_no_output_script_or_arguments(self, node):
        job = workflow("env; ps ax", input={"s3": STORE}, output={"s3": STORE}, enableLogging=True)

        _, output = node.run(job)

        assert remote_variables(node)["SECRET_ACCESS_KEY"] == "very/secret+key="
        arguments = (node.home / "rclone").read_text()
        for text in (output, render(job), arguments):
            assert "very/secret" not in text
            assert "AKIA" not in text
        assert node.leftover_files == []

    def test_the_path_slash_means_the_whole_bucket(self, node):
        (node.home / "store/bucket/top").write_text("top\n")

        _, output = node.run(workflow("cat input/top", input={"s3": {**STORE, "path": "/"}}))

        assert output.endswith("top\n")

    @pytest.mark.parametrize(
        ("path", "expected_files"),
        [
            ("/some/data/", ["x"]),
            ("/some/data", ["data.csv", "data/x"]),
            ("/some/da", ["data.csv", "data/x"]),
            ("/so", ["some/data.csv", "some/data/x", "some/other"]),
            ("/some/data.csv", ["data.csv"]),
        ],
    )
    def test_an_input_path_without_a_slash_at_its_end_is_the_start_of_names(
        self, node, path, expected_files
    ):
        (node.home / "store/bucket/some/data.csv").write_text("1\n")
        (node.home / "store/bucket/some/other").write_text("1\n")
        command = "echo files:; cd input; find . -type f -printf '%P\n' | LC_ALL=C sort"

        code, output = node.run(workflow(command, input={"s3": {**STORE, "path": path}}))

        assert code == 0
        assert output.partition("files:\n")[2].splitlines() == expected_files

    def test_an_input_path_without_a_match_fails_the_job(self, node):
        code, output = node.run(
            workflow("echo never", input={"s3": {**STORE, "path": "/some/none"}})
        )

        assert code == 9  # rclone has transferred nothing
        assert "never" not in output

    def test_the_start_of_a_name_is_not_a_pattern(self, node):
        node.run(workflow("true", input={"s3": {**STORE, "path": "/a/*?[]{}\\"}}))

        start = r"/\*\?\[\]\{\}\\"
        arguments = (node.home / "rclone").read_text()
        assert f"--include {start}* --include {start}*/** store:bucket/a" in arguments

    def test_a_failed_job_sends_its_output_and_deletes_nothing_in_the_store(self, node):
        target = {"s3": {**STORE, "deleteSync": True}}

        code, _ = node.run(workflow("echo y >output/y; exit 4", output=target))

        assert code == 4
        names = {path.name for path in (node.home / "store/bucket/some/data").iterdir()}
        assert names == {"x", "y"}

    def test_continuous_output_is_sent_while_the_job_runs(self, node):
        # This simulated sleep shortens the time between two transfers.
        node.add_program("sleep", "#!/bin/bash\nexec /bin/sleep 0.05\n")
        stored_file = node.home / "store/bucket/some/data/y"
        body = f"echo y >output/y; while [ ! -e {stored_file} ]; do /bin/sleep 0.02; done"

        code, _ = node.run(workflow(body, output={"s3": STORE}, continuousOutputSync=True))

        assert code == 0
        assert node.leftover_files == []

    def test_a_failed_transfer_of_continuous_output_is_retried(self, node):
        node.add_program("sleep", "#!/bin/bash\nexec /bin/sleep 0.05\n")
        node.add_program("rclone-works", RCLONE)
        # The first call of this simulated rclone fails.
        node.add_program(
            "rclone",
            '#!/bin/bash\nmkdir "$HOME/failed" 2>/dev/null && exit 7\nexec rclone-works "$@"\n',
        )
        stored_file = node.home / "store/bucket/some/data/y"
        body = (
            f"echo y >output/y; for _ in $(seq 500); do [ ! -e {stored_file} ] || exit 0;"
            " /bin/sleep 0.02; done; exit 1"
        )

        code, output = node.run(workflow(body, output={"s3": STORE}, continuousOutputSync=True))

        assert code == 0
        assert output.count("gridstead: could not send the output") == 1
        assert node.leftover_files == []

    @pytest.mark.parametrize("code", [0, 6])
    def test_continuous_output_is_sent_at_the_end_of_the_job(self, node, code):
        job = workflow(
            f"echo y >output/y; exit {code}", output={"s3": STORE}, continuousOutputSync=True
        )

        assert node.run(job)[0] == code
        assert (node.home / "store/bucket/some/data/y").exists()
        assert node.leftover_files == []

    def test_continuous_output_is_sent_when_the_job_is_cancelled(self, node):
        job = workflow(
            "echo y >output/y; touch started; sleep 20",
            output={"s3": STORE},
            continuousOutputSync=True,
        )
        running_job = node.start(job)
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert (node.home / "store/bucket/some/data/y").exists()
        assert node.leftover_files == []

    def test_a_missing_secret_fails_the_job(self, node):
        assert node.run(workflow("echo never", input={"s3": STORE}), GRIDSTEAD_INPUT="")[0] == 1

    def test_a_hostile_path_is_not_executed(self, node):
        path = "/'; touch owned; '$(touch owned)`touch owned`"
        node.run(workflow("true", output={"s3": {**STORE, "path": path}}))

        assert f"store:bucket{path}" in (node.home / "rclone").read_text()
        assert not list(node.root.rglob("owned"))
