# SPDX-License-Identifier: Apache-2.0
"""A job's data: the parts of the script that fetch the input and send the output.

curl transfers data over HTTP, and rclone transfers data from and to S3. Secrets must not be on a
command line, which every user can read. They are in configuration files: ``$private/input`` and
``$private/output``.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import HTTPData, S3Data, TransportData, Workflow

SYNC_S = 5
DEFAULT_MODE = 0o700

_DEFAULT_NAME = "index.html"


def input_access(workflow: Workflow) -> str:
    """Return the configuration file for the input. Empty if there are no secrets."""
    return _access(workflow.input)


def output_access(workflow: Workflow) -> str:
    """Return the configuration file for the output. Empty if there are no secrets."""
    return _access(workflow.output)


def fetch(workflow: Workflow) -> str:
    """Return the part of the script that fetches the input."""
    place = workflow.input
    if not place or not (place.http or place.s3):
        return ""
    if place.http:
        source = _curl_url(place.http, "input")
        text = fill("http_input.sh", source=source, name=quote(_file_name(place.http.url)))
    else:
        assert place.s3, "there is either http or s3"
        text = fill("s3_input.sh", remote=quote(_remote(place.s3)))
    mode = DEFAULT_MODE if workflow.input_mode is None else workflow.input_mode
    return text + fill("input_mode.sh", mode=f"{mode:04o}")


def send(workflow: Workflow) -> tuple[str, str]:
    """Return the parts of the script that send the output: before the steps, and after them."""
    place = workflow.output
    if not place or not (place.http or place.s3):
        return "", ""
    if place.http:
        return "", fill("http_output.sh", target=_curl_url(place.http, "output"))
    assert place.s3, "there is either http or s3"
    action = "sync" if place.s3.delete_sync else "copy"
    function = fill("s3_output.sh", action=action, remote=quote(_remote(place.s3)))
    if workflow.continuous_output_sync:
        return function + fill("s3_sync.sh", interval=SYNC_S), fill("s3_sync_end.sh")
    return function, fill("s3_output_end.sh")


def _access(place: TransportData | None) -> str:
    if place is None:
        return ""
    if place.http:
        return f'url = "{_escaped(place.http.url)}"' if _is_secret(place.http) else ""
    return _rclone(place.s3) if place.s3 else ""


def _is_secret(place: HTTPData) -> bool:
    parts = urlsplit(place.url)
    return bool(parts.query) or "@" in parts.netloc


def _curl_url(place: HTTPData, name: str) -> str:
    return f'--config "$private/{name}"' if _is_secret(place) else f"-- {quote(place.url)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _file_name(url: str) -> str:
    """Return a safe file name for a URL: the last part of its path."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    safe = "".join(char if char.isprintable() and char != "/" else "_" for char in name)
    safe = safe[:128].lstrip(".")
    return re.sub("^-", "_", safe) or _DEFAULT_NAME


def _rclone(place: S3Data) -> str:
    lines = {
        "type": "s3",
        "provider": "Other",
        "access_key_id": place.access_key_id,
        "secret_access_key": place.secret_access_key,
        "region": place.region,
        "endpoint": place.endpoint_url,
        "no_check_bucket": "true",
    }
    return "[store]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def _remote(place: S3Data) -> str:
    return f"store:{place.bucket_url.removeprefix('s3://')}/{place.path.strip('/')}".rstrip("/")
