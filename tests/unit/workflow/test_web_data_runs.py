# SPDX-License-Identifier: Apache-2.0
"""Input and output of a job over HTTP, with a web server on the loopback."""

from __future__ import annotations

import gzip
import http.server
import io
import os
import signal
import tarfile
import threading
import zipfile

import pytest
from tests.unit.workflow.node import steps, wait_for, workflow

from gridstead.workflow.render import render


@pytest.fixture
def web():
    """Yield a web server. It serves ``files`` and stores ``uploads``, both bytes by path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            content = server.files.get(path)
            self.send_response(200 if content is not None else 404)
            self.send_header("content-length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def do_PUT(self):
            server.uploads[self.path] = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"https://web.example/it-is-here")

        def log_message(self, *_arguments):
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.uploads = {}, {}
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make_tar_gz():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("folder/inside")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    return buffer.getvalue()


def make_zip():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/inside", "hello")
    return buffer.getvalue()


class TestWebInput:
    @pytest.mark.parametrize(
        ("name", "content", "unpacked_name"),
        [
            ("plain.txt", b"hello", "plain.txt"),
            ("a.tar.gz", make_tar_gz(), "folder/inside"),
            ("no-suffix", make_zip(), "folder/inside"),
            ("x.gz", gzip.compress(b"hello", mtime=0), "x"),
            ("x", gzip.compress(b"hello", mtime=0), "x.unpacked"),
        ],
    )
    def test_an_input_file_is_unpacked_according_to_its_content(
        self, node, web, name, content, unpacked_name
    ):
        web.files[f"/{name}"] = content
        job = workflow(
            f'cat "$DEEPSQUARE_INPUT/{unpacked_name}"; [ -e "$DEEPSQUARE_INPUT/{name}" ]',
            input={"http": {"url": f"{web.url}/{name}"}},
        )

        code, output = node.run(job)

        assert code == 0
        assert output.endswith("hello")
        assert node.leftover_files == []

    def test_a_missing_input_fails_the_job(self, node, web):
        code, output = node.run(
            workflow("echo never", input={"http": {"url": f"{web.url}/nothing"}})
        )

        assert code == 22  # curl received an HTTP error
        assert "never" not in output
        assert "404" in output
        assert node.leftover_files == []

    def test_the_input_has_the_permissions_that_the_workflow_requests(self, node, web):
        web.files["/x"] = b"x"
        # 365 is 0o555, which stat prints as 555.
        job = workflow(
            "stat -c %a input input/x", input={"http": {"url": f"{web.url}/x"}}, inputMode=365
        )

        assert node.run(job)[1].endswith("555\n555\n")
        assert node.leftover_files == []

    def test_a_url_with_a_secret_is_not_in_the_script(self, node, web):
        web.files["/x"] = b"hello"
        url = web.url.replace("http://", "http://user:hush@") + "/x?token=hush&x={a,b}[1-2]"
        job = workflow(
            "cat input/x; env; cat /proc/$PPID/environ | tr '\\0' '\\n'",
            input={"http": {"url": url}},
        )

        code, output = node.run(job)

        assert code == 0
        assert "hello" in output
        assert "hush" not in output + render(job)
        assert "GRIDSTEAD_INPUT" not in output
        assert node.leftover_files == []

    @pytest.mark.parametrize(
        "name",
        [
            "%27;touch%20owned;%27",
            "$(touch%20owned)",
            "`touch%20owned`",
            "%2e%2e%2f%2e%2e%2fowned",
            "-o",
            "%0aowned",
            "..",
            "~",
        ],
    )
    def test_a_hostile_file_name_is_not_executed(self, node, web, name):
        web.files[f"/{name}"] = b"hello"

        code, _ = node.run(workflow("cat -- input/*", input={"http": {"url": f"{web.url}/{name}"}}))

        # 22: curl received the status 404, for example because it has shortened the path.
        assert code in (0, 22)
        assert not list(node.root.rglob("owned"))


class TestWebOutput:
    def test_a_single_file_is_uploaded_unchanged_and_the_answer_is_printed(self, node, web):
        job = workflow(
            "echo hello >output/x; mkdir output/empty", output={"http": {"url": f"{web.url}/up/"}}
        )

        code, output = node.run(job)

        assert code == 0
        assert web.uploads == {"/up/x": b"hello\n"}
        assert "\n-----\nhttps://web.example/it-is-here\n-----\n" in output

    def test_several_files_are_uploaded_as_an_archive_of_the_folder_output(self, node, web):
        """The names of the entries are those of DeepSquare: relative to the job's directory."""
        job = workflow(
            "cd output; echo a >a; mkdir b; echo b >'b/ b'; echo c >.c",
            output={"http": {"url": f"{web.url}/up/"}},
        )

        code, _ = node.run(job)

        assert code == 0
        with zipfile.ZipFile(io.BytesIO(web.uploads["/up/output.zip"])) as archive:
            names = set(archive.namelist())
        files = {"output/.c", "output/a", "output/b/ b"}
        assert names == files | {"output/", "output/b/"}
        assert node.leftover_files == []

    def test_an_empty_output_is_not_uploaded(self, node, web):
        _, output = node.run(workflow("true", output={"http": {"url": f"{web.url}/up/"}}))

        assert "gridstead: the output is empty" in output
        assert web.uploads == {}

    def test_the_output_of_a_failed_job_is_uploaded(self, node, web):
        target = {"http": {"url": f"{web.url}/up/"}}

        code, _ = node.run(workflow("echo x >output/x; exit 3", output=target))

        assert code == 3
        assert web.uploads == {"/up/x": b"x\n"}

    def test_the_output_is_uploaded_if_a_launched_step_without_a_waiting_step_fails(
        self, node, web
    ):
        """The job fails with the exit code of the launched step."""
        # Signal 0 is no signal, so the launched step always runs to its end.
        launch = {"launch": {"signalOnParentStepExit": 0, "steps": steps("exit 8")}}
        job = workflow(launch, "echo x >output/x", output={"http": {"url": f"{web.url}/up/"}})

        code, _ = node.run(job)

        assert code == 8
        assert web.uploads == {"/up/x": b"x\n"}

    def test_the_output_of_a_cancelled_job_is_uploaded(self, node, web):
        job = workflow(
            "echo x >output/x; touch started; sleep 20", output={"http": {"url": f"{web.url}/up/"}}
        )
        running_job = node.start(job)
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert web.uploads == {"/up/x": b"x\n"}
        assert node.leftover_files == []

    @pytest.mark.parametrize(("step_code", "job_code"), [(0, 7), (3, 3)])
    def test_a_failed_upload_fails_a_job_that_has_not_failed_before(
        self, node, step_code, job_code
    ):
        job = workflow(
            f"echo x >output/x; exit {step_code}", output={"http": {"url": "http://127.0.0.1:9/"}}
        )

        code, _ = node.run(job)

        assert code == job_code  # 7: curl could not connect
        assert node.leftover_files == []

    def test_continuous_output_without_a_store_is_sent_at_the_end(self, node, web):
        target = {"http": {"url": f"{web.url}/up/"}}
        job = workflow("echo x >output/x", output=target, continuousOutputSync=True)

        assert node.run(job)[0] == 0
        assert web.uploads == {"/up/x": b"x\n"}
