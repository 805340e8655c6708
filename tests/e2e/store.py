# SPDX-License-Identifier: Apache-2.0
"""A web server and S3 store for jobs of the lab, in this process: as much as curl and rclone ask of one.

It listens on the machine's end of the lab's network. What is under ``/bucket`` needs a request signed with its keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.server
import re
import secrets
import threading
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

REGION = "lab-1"
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)"
)
WHEN = "2026-01-01T00:00:00Z"


class Handler(http.server.BaseHTTPRequestHandler):
    """Files by path."""

    protocol_version = "HTTP/1.1"
    server: Store

    def do_GET(self) -> None:
        """Give a file, or list a bucket."""
        path, query = self._asked()
        if not self._may(path):
            self._answer(403, b"")
        elif path.strip("/") == "bucket":
            self._answer(200, self._listing(query))
        else:
            content = self.server.files.get(path)
            self._answer(404 if content is None else 200, content or b"")

    def do_HEAD(self) -> None:
        """Tell of a file."""
        self.do_GET()

    def do_PUT(self) -> None:
        """Keep a file."""
        path, _ = self._asked()
        content = self.rfile.read(int(self.headers["content-length"]))
        if not self._may(path):
            self._answer(403, b"")
            return
        self.server.files[path] = content
        self._answer(200, b"kept")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return unquote(parts.path), dict(parse_qsl(parts.query, keep_blank_values=True))

    def _answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"')
        self.send_header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _listing(self, query: dict[str, str]) -> bytes:
        """Return what is directly below a prefix; what lies deeper is named by its folder."""
        prefix, found, folders = query.get("prefix", ""), "", set()
        for path, content in sorted(self.server.files.items()):
            name = path.removeprefix("/bucket/")
            if name == path or not name.startswith(prefix):
                continue
            if query.get("delimiter") and "/" in name[len(prefix) :]:
                folders.add(prefix + name[len(prefix) :].split("/")[0] + "/")
                continue
            digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
            found += f'<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size><ETag>"{digest}"</ETag>'
            found += f"<LastModified>{WHEN}</LastModified></Contents>"
        found += "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)
        )
        return (
            f"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()
        )

    def _may(self, path: str) -> bool:
        """Whether a request for the bucket is signed with the secret key (signature version 4)."""
        if not path.startswith("/bucket"):
            return True
        found = AUTHORIZATION.fullmatch(self.headers.get("authorization", ""))
        if not found:
            return False
        key, day, region, signed, signature = found.groups()
        parts = urlsplit(self.path)
        pairs = sorted(
            (quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(parts.query, keep_blank_values=True)
        )
        headers = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in signed.split(";"))
        request = "\n".join(
            (self.command, parts.path, "&".join(f"{k}={v}" for k, v in pairs), headers, signed,
             self.headers["x-amz-content-sha256"])
        )  # fmt: skip
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(
            ("AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest())
        )
        digest = f"AWS4{self.server.secret}".encode()
        for word in (day, region, "s3", "aws4_request", text):
            digest = hmac.digest(digest, word.encode(), "sha256")
        return (key, region) == (self.server.key, REGION) and hmac.compare_digest(digest.hex(), signature)


class Store(http.server.ThreadingHTTPServer):
    """The server, its files by path, and its address."""

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), Handler)
        self.files: dict[str, bytes] = {}
        self.key, self.secret = secrets.token_hex(10), f"{secrets.token_urlsafe(24)}/+="
        self.url = f"http://{address}:{self.server_port}"

    def s3(self, path: str) -> dict[str, object]:
        """Return a place in the bucket as a workflow names it."""
        keys = {"accessKeyId": self.key, "secretAccessKey": self.secret}
        return {"s3": {"region": REGION, "bucketUrl": "s3://bucket", "path": path, "endpointUrl": self.url, **keys}}


@contextlib.contextmanager
def running(address: str) -> Iterator[Store]:
    """Run a store on an address."""
    with Store(address) as store:
        thread = threading.Thread(target=store.serve_forever)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
