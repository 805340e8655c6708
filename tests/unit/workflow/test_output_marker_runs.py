# SPDX-License-Identifier: Apache-2.0
"""Markers of a job's output: its listing and its link, with a simulated curl and rclone."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import RCLONE, STORE
from tests.unit.workflow.node import workflow as without_log

from gridstead.workflow.render import render

# Prints the server's answer, which the test has written.
CURL = '#!/bin/bash\ncat -- "$HOME/answer"\nexit "$(cat "$HOME/code" 2>/dev/null || echo 0)"\n'


def workflow(command, **fields):
    return without_log(command, enableLogging=True, **fields)


def uploading_workflow(url, command="echo x >output/x"):
    """Return a workflow that sends its output to a URL."""
    return workflow(command, output={"http": {"url": url}})


@pytest.fixture
def server(node):
    """Return a function that sets the answer of the server."""
    node.add_program("curl", CURL)

    def answer(text, code=0):
        (node.home / "answer").write_bytes(text if isinstance(text, bytes) else text.encode())
        (node.home / "code").write_text(str(code))

    return answer


def links(node):
    return [marker for marker in node.markers if marker.startswith("[gridstead] link")]


class TestListing:
    def test_the_output_is_listed_with_its_size(self, node, server):
        server("")
        command = "cd output; mkdir b; printf 12345 >'b/ c d'; printf 1 >a; ln -s a link"

        assert node.run(uploading_workflow("https://a.example/", command))[0] == 0
        assert node.markers[3:-1] == [
            "[gridstead] output files=2 bytes=6",
            "[gridstead] file bytes=1 name=a",
            "[gridstead] file bytes=5 name=b/ c d",
            "[gridstead] link url=https://a.example/",
        ]

    @pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
    def test_control_characters_in_names_of_files_are_replaced(self, node, server, locale):
        server("")
        command = "cd output; touch $'a\\n[gridstead] job-end exit=0' $'\\e[31m' é"
        job = without_log(
            {"run": {"shell": "/bin/bash", "command": command}},
            enableLogging=True,
            output={"http": {"url": "https://a.example/"}},
        )

        assert node.run(job, LC_ALL=locale)[0] == 0
        assert sorted(node.markers[4:-2]) == [
            "[gridstead] file bytes=0 name=??",
            "[gridstead] file bytes=0 name=?[31m",
            "[gridstead] file bytes=0 name=a?[gridstead] job-end exit=0",
        ]

    def test_a_long_listing_and_long_names_are_cut_off(self, node, server):
        server("")
        command = "cd output; for each in $(seq 100 300); do touch $each; done; : >$(printf %0250d)"

        node.run(uploading_workflow("https://a.example/", command))

        files = [marker for marker in node.markers if marker.startswith("[gridstead] file ")]
        assert node.markers[3] == "[gridstead] output files=202 bytes=0"
        assert files[0] == f"[gridstead] file bytes=0 name={'0' * 200}"
        assert files[1] == "[gridstead] file bytes=0 name=100"
        assert len(files) == 50

    def test_an_empty_output_has_no_link(self, node, server):
        server("https://a.example/x")

        node.run(uploading_workflow("https://a.example/", "true"))

        assert node.markers[3:-1] == ["[gridstead] output files=0 bytes=0"]

    def test_an_answer_that_cannot_be_stored_does_not_fail_the_job(self, node, server):
        server("https://t.example/abc")
        job = uploading_workflow("https://a.example/up/x", "echo x >output/x; mkdir .answer")

        code, output = node.run(job)

        assert code == 0
        assert "https://t.example/abc" in output
        assert links(node) == ["[gridstead] link url=https://a.example/up/x"]


class TestLink:
    @pytest.mark.parametrize(
        ("answer", "link"),
        [
            ("https://t.example/abc/output.zip", "https://t.example/abc/output.zip"),
            ("https://t.example/abc\r\nmore\n", "https://t.example/abc"),
            ("https://me:hush@t.example/abc", "https://t.example/abc"),
            ("https://t.example/abc?X-Amz-Signature=hush#hush", "https://t.example/abc"),
            ("", "https://a.example/up/x"),
            ("stored\n", "https://a.example/up/x"),
            ("https://t.example/a b", "https://a.example/up/x"),
            ("https://t.example/\x1b[31m", "https://a.example/up/x"),
            ("https://t.example/é", "https://a.example/up/x"),
            ("https://t.example/" + "x" * 500, "https://a.example/up/x"),
            ("javascript:alert(1)", "https://a.example/up/x"),
            (b"\0\xff" * 1000, "https://a.example/up/x"),
        ],
    )
    def test_the_link_is_the_answer_of_the_server_or_the_target(self, node, server, answer, link):
        server(answer)

        assert node.run(uploading_workflow("https://a.example/up/x"))[0] == 0
        assert links(node) == [f"[gridstead] link url={link}"]

    @pytest.mark.parametrize(
        "url",
        [
            "https://me:hush@a.example:8443/up/x",
            "https://a.example:8443/up/x?X-Amz-Signature=hush&X-Amz-Credential=hush",
        ],
    )
    def test_the_link_of_a_target_with_credentials_does_not_contain_them(self, node, server, url):
        server("")
        job = uploading_workflow(url)

        node.run(job)

        assert links(node) == ["[gridstead] link url=https://a.example:8443/up/x"]
        assert "hush" not in render(job)

    def test_the_answer_of_the_server_remains_in_the_output(self, node, server):
        server("https://t.example/abc?token=mine")

        _, output = node.run(uploading_workflow("https://a.example/"))

        assert "\n-----\nhttps://t.example/abc?token=mine\n-----\n" in output

    def test_a_failed_upload_has_no_link_and_fails_the_job(self, node, server):
        server("https://t.example/abc", code=22)

        assert node.run(uploading_workflow("https://a.example/"))[0] == 22
        assert links(node) == []
        assert node.markers[-1] == "[gridstead] job-end exit=22"

    @pytest.mark.parametrize(
        ("path", "link"),
        [
            ("/some/data/", "s3://bucket/some/data"),
            ("/", "s3://bucket/"),
            ("/a b'é$(id)", "s3://bucket/a%20b%27%C3%A9%24%28id%29"),
            ("/" + "xx/" * 300, ("s3://bucket/" + "xx/" * 300)[:500]),
        ],
    )
    @pytest.mark.parametrize("synced", [False, True])
    def test_the_link_of_a_store_is_the_path_without_keys(self, node, path, link, synced):
        node.add_program("rclone", RCLONE)
        target = {"s3": {**STORE, "path": path}}
        job = workflow("echo x >output/x", output=target, continuousOutputSync=synced)

        node.run(job)

        assert links(node) == [f"[gridstead] link url={link}"]
        assert "AKIA" not in "".join(node.markers)

    def test_a_failed_transfer_to_a_store_has_no_link(self, node):
        node.add_program("rclone", "#!/bin/sh\nexit 5\n")

        assert node.run(workflow("true", output={"s3": STORE}))[0] == 5
        assert links(node) == []
