# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server for git repositories, which runs the CGI program git http-backend."""

from __future__ import annotations

import email
import os
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODULE = """\
name: Greeting
description: Greets.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
inputs:
- {key: WHO, description: Whom to greet., default: World}
outputs:
- {key: RESULT, description: The greeting.}
steps:
- run:
    command: echo "RESULT=Hello $WHO" >>"$DEEPSQUARE_ENV"
"""


class GitServer(ThreadingHTTPServer):
    """Serves the repositories of a folder.

    Attributes:
        requested: Paths of the requests.
        redirect_to: URL that every request is redirected to, or None.
        silent: Whether the server leaves requests unanswered.
        unavailable: Whether requests get status 503.
    """

    daemon_threads = True

    def __init__(self, root: Path, tls, *, address: str = "localhost", port: int = 0) -> None:
        super().__init__((address, port), Handler)
        self.root = root
        self.address = address
        self.requested: list[str] = []
        self.redirect_to: str | None = None
        self.silent = False
        self.unavailable = False
        self.stopped = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def host(self) -> str:
        return f"{self.address}:{self.server_address[1]}"

    def stop(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """Ignore clients that disconnect."""


class Handler(BaseHTTPRequestHandler):
    """Passes each request to git http-backend, a CGI program."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        """Log nothing."""

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        self.server.requested.append(path)
        if self.server.silent:
            self.server.stopped.wait(30)
        if self.server.unavailable:
            self.send_error(503)
            return
        if self.server.redirect_to:
            self.send_response(302)
            self.send_header("Location", self.server.redirect_to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        result = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, check=False,
            env={
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                "GIT_CONFIG_NOSYSTEM": "1",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HOME": str(self.server.root),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_ADDR": "127.0.0.1",
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            },
        )  # fmt: skip
        # A CGI program prints headers, an empty line and the content.
        head, _, content = result.stdout.partition(b"\r\n\r\n")
        headers = email.message_from_bytes(head)
        status = headers.get("Status", "200 OK")
        del headers["Status"]
        self.send_response(int(status[:3]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Repository:
    """A repository of the server, with methods that add commits and tags."""

    def __init__(
        self, root: Path, name: str = "me/greet", files: dict[str, str] | None = None
    ) -> None:
        self.folder = root / name
        self.git("init", "--quiet", "--initial-branch=main", str(self.folder), cwd=root)
        self.git("config", "uploadpack.allowFilter", "true")
        if files is None:
            files = {"module.yaml": MODULE}
        self.commit(files)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git in the repository and return its output."""
        environment = {
            "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@x",
        }  # fmt: skip
        result = subprocess.run(
            ["git", *words],
            cwd=cwd or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout.strip()

    def commit(self, files: dict[str, str | bytes], *, tag: str | None = None) -> str:
        """Commit files, tag the commit if a tag is given, and return the commit id."""
        for name, content in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                file.write_text(content)
            else:
                file.write_bytes(content)
        return self.commit_all(tag=tag)

    def commit_all(self, *, tag: str | None = None) -> str:
        """Commit all changes, tag the commit if a tag is given, and return the commit id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"at {time.monotonic()}")
        if tag:
            self.git("tag", "--annotate", "--message", tag, tag)
        return self.git("rev-parse", "HEAD")
