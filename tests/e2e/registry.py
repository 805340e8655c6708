# SPDX-License-Identifier: Apache-2.0
"""Container registries for jobs of the lab.

The registries listen on this machine's address in the lab's network and use certificates of the
lab's CA.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import re
import ssl
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import httpx

USER, PASSWORD = "somebody", "wrong'$(x)\"horse"
IMAGE = "tests/small:1"
PROGRAMS = (
    "/bin/sh",
    "/bin/cat",
    "/usr/bin/id",
    "/usr/bin/env",
    "/bin/ls",
    "/bin/echo",
    "/bin/sleep",
)
MANIFEST_MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
PART_MEDIA_TYPES = (
    "application/vnd.docker.container.image.v1+json",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
START_TIMEOUT_S = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A running registry.

    Attributes:
        host: Address and port.
        log: The log file, with one line for each request.
    """

    host: str
    log: Path

    def container(self, **fields: object) -> dict[str, object]:
        """Return the workflow field ``container`` with the registry's image."""
        return {"registry": self.host, "image": IMAGE, **fields}


def issue_certificate(lab, folder: Path) -> tuple[Path, Path]:
    """Issue a certificate of the lab's CA for this machine's address in the lab.

    Returns the files of the certificate and of its key.
    """
    pki, certificate, key = lab.secrets / "pki", folder / "server.crt", folder / "server.key"
    argv = ["openssl", "req", "-x509", "-CA", pki / "ca.crt", "-CAkey", pki / "ca.key"]
    argv += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
    argv += ["-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=tests"]
    argv += ["-addext", f"subjectAltName=IP:{lab.gateway}"]
    argv += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(argv, check=True, capture_output=True)
    return certificate, key


@contextlib.contextmanager
def run_registry(lab, folder: Path, *, requires_login: bool) -> Iterator[Registry]:
    """Run a registry with a small image during the ``with`` block.

    If ``requires_login`` is true, every request needs credentials.
    """
    folder.mkdir()
    certificate, key = issue_certificate(lab, folder)
    tls = {"certificate": str(certificate), "key": str(key)}
    settings = {
        "version": "0.1",
        "log": {"accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "images")}},
        "http": {"addr": f"{lab.gateway}:0", "tls": tls},
    }
    if requires_login:
        digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{USER}:{digest}\n")
        settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
    (folder / "settings.yml").write_text(json.dumps(settings))
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["docker-registry", "serve", folder / "settings.yml"],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
    try:
        registry = Registry(host=f"{lab.gateway}:{_port(process, log)}", log=log)
        auth = (USER, PASSWORD) if requires_login else None
        trusting_context = ssl.create_default_context(cafile=str(lab.secrets / "pki/ca.crt"))
        with httpx.Client(
            base_url=f"https://{registry.host}/v2", auth=auth, verify=trusting_context
        ) as client:
            _push(client)
        yield registry
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        match = re.search(r"listening on [^ ]*:(\d+)", log.read_text())
        if match:
            return match[1]
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _push(client: httpx.Client) -> None:
    name, _, tag = IMAGE.partition(":")
    files = _image_archive()
    packed_files = gzip.compress(files, 1)
    environment = ["PATH=/usr/bin:/bin", "OF_THE_IMAGE=yes"]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": environment, "Entrypoint": ["/bin/echo", "entry point:"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(files)]},
    }
    parts = (json.dumps(config).encode(), packed_files)
    for part in parts:
        upload = client.post(f"/{name}/blobs/uploads/").raise_for_status()
        location = upload.headers["location"]
        query = {**httpx.URL(location).params, "digest": _digest(part)}
        client.put(location, params=query, content=part).raise_for_status()
    descriptors = [
        {"mediaType": media_type, "size": len(part), "digest": _digest(part)}
        for media_type, part in zip(PART_MEDIA_TYPES, parts, strict=True)
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_MEDIA_TYPE,
        "config": descriptors[0],
        "layers": descriptors[1:],
    }
    client.put(
        f"/{name}/manifests/{tag}",
        content=json.dumps(manifest),
        headers={"content-type": MANIFEST_MEDIA_TYPE},
    ).raise_for_status()


def _image_archive() -> bytes:
    """Return a tar archive with some programs of this machine and their libraries."""
    ldd_output = subprocess.run(
        ["ldd", *PROGRAMS], check=True, capture_output=True, text=True
    ).stdout
    libraries = sorted(set(re.findall(r"(/\S+) \(0x", ldd_output)))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp", "var/tmp"):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for file in (*PROGRAMS, *libraries):
            member = archive.gettarinfo(Path(file).resolve(), arcname=file.lstrip("/"))
            member.uid = member.gid = 0
            with Path(file).resolve().open("rb") as content:
                archive.addfile(member, content)
        for name, text in (("passwd", b"root:x:0:0::/:/bin/sh\n"), ("group", b"root:x:0:\n")):
            member = tarfile.TarInfo(f"etc/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
