# SPDX-License-Identifier: Apache-2.0
"""A job's data: the parts of the script that fetch the input and send the output.

curl transfers data over HTTP, and rclone transfers data from and to S3. Secrets must not be on a
command line, which every user can read. So the script keeps secrets in ``$private/input`` and
``$private/output``. curl reads such a file as its configuration. For rclone the script exports the
lines of the file as variables, because a configuration file of rclone cannot contain every text.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from gridstead.workflow.render.output_markers import output_parts
from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import HTTPData, S3Data, TransportData, Workflow

# Time between two transfers of a continuous output sync.
SYNC_INTERVAL_S = 5
DEFAULT_MODE = 0o700

_DEFAULT_NAME = "index.html"


def input_access(workflow: Workflow) -> str:
    """Return the content of ``$private/input``. Empty if the input has no secrets."""
    return _secret_settings(workflow.input)


def output_access(workflow: Workflow) -> str:
    """Return the content of ``$private/output``. Empty if the output has no secrets."""
    return _secret_settings(workflow.output)


def fetch_input(workflow: Workflow) -> str:
    """Return the part of the script that fetches the input."""
    source = workflow.input
    if not source or not (source.http or source.s3):
        return ""
    if source.http:
        url = _curl_url(source.http, "input")
        text = fill("http_input.sh", source=url, name=quote(_file_name(source.http.url)))
    else:
        assert source.s3, "there is either http or s3"
        text = fill("s3_access.sh") + fill("s3_input.sh", source=_rclone_source(source.s3))
    mode = DEFAULT_MODE if workflow.input_mode is None else workflow.input_mode
    return text + fill("input_mode.sh", mode=f"{mode:04o}")


def send_output(workflow: Workflow, *, markers: bool) -> tuple[str, str]:
    """Return two parts of the script that send the output.

    The first part must run before the steps. The second part runs after the steps, even if a step
    has failed. It reads the exit code of the steps from ``code``, and exits with this code. With
    ``markers``, it writes markers of the output to the job's log.
    """
    target = workflow.output
    if not target or not (target.http or target.s3):
        return "", ""
    parts = output_parts(target, markers=markers)
    if target.http:
        url = _curl_url(target.http, "output")
        function = fill("http_output.sh", target=url, tee=parts.tee, link=parts.link)
        return function, parts.listing + fill("output_end.sh", before="", link="")
    assert target.s3, "there is either http or s3"
    action = "sync" if target.s3.delete_sync else "copy"
    remote = quote(_rclone_path(target.s3, target.s3.path))
    function = fill("s3_output.sh", action=action, remote=remote)
    # If the input is in S3 too, the part that fetches it defines in_store.
    if not (workflow.input and workflow.input.is_in_s3):
        function = fill("s3_access.sh") + function
    before_end = fill("s3_output_end.sh")
    if workflow.is_output_synced:
        function += fill("s3_sync.sh", interval=SYNC_INTERVAL_S)
        before_end = fill("s3_sync_end.sh") + before_end
    end = fill("output_end.sh", before=before_end, link=parts.link)
    return function, parts.listing + end


def _secret_settings(data: TransportData | None) -> str:
    """Return a configuration file of curl, or variables of rclone. Empty if nothing is secret."""
    if data is None:
        return ""
    if data.http:
        return f'url = "{_escaped(data.http.url)}"' if _is_secret(data.http) else ""
    return _rclone_variables(data.s3) if data.s3 else ""


def _is_secret(http: HTTPData) -> bool:
    """Return whether the URL may contain a password or a token."""
    parts = urlsplit(http.url)
    return bool(parts.query) or "@" in parts.netloc


def _curl_url(http: HTTPData, name: str) -> str:
    """Return the arguments that pass the URL to curl. A secret URL is in a configuration file."""
    return f'--config "$private/{name}"' if _is_secret(http) else f"-- {quote(http.url)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _file_name(url: str) -> str:
    """Return a safe file name for a URL: the last part of its path."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    safe_name = "".join(char if char.isprintable() and char != "/" else "_" for char in name)
    safe_name = safe_name[:128].lstrip(".")
    # A leading "-" is replaced, because programs read a name that starts with "-" as an option.
    return re.sub("^-", "_", safe_name) or _DEFAULT_NAME


def _rclone_variables(s3: S3Data) -> str:
    """Return the variables that define the remote ``store`` for rclone, one on each line."""
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ACCESS_KEY_ID": s3.access_key_id,
        "SECRET_ACCESS_KEY": s3.secret_access_key,
        "REGION": s3.region,
        "ENDPOINT": s3.endpoint_url,
        "NO_CHECK_BUCKET": "true",
    }
    lines = (f"RCLONE_CONFIG_STORE_{name}={value}" for name, value in settings.items())
    return "\n".join(lines)


def _rclone_source(s3: S3Data) -> str:
    """Return the arguments that select the objects of the input.

    A path that ends with a slash is a folder. Any other path is the start of the names of objects
    and folders, as in DeepSquare.
    """
    folder, _, object_prefix = s3.path.rpartition("/")
    if not object_prefix:
        return quote(_rclone_path(s3, s3.path))
    pattern = "/" + re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", object_prefix)
    filters = f"--include {quote(f'{pattern}*')} --include {quote(f'{pattern}*/**')}"
    # Without a match, the exit code of rclone is 9.
    return f"--error-on-no-transfer {filters} {quote(_rclone_path(s3, folder))}"


def _rclone_path(s3: S3Data, path: str) -> str:
    """Return the bucket and a path in it as an argument of rclone."""
    bucket = s3.bucket_url.removeprefix("s3://")
    return f"store:{bucket}/{path.strip('/')}".rstrip("/")
