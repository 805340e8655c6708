# SPDX-License-Identifier: Apache-2.0
"""Where a job's data come from and go to."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gridstead.workflow.schema.base import Model, Name, printable, shown_as

MAX_URL = 2048
MAX_MODE = 511

_ACCESS = re.compile(
    r"[A-Za-z0-9/+=._:@~!$&*()-]+"
)  # nothing that means more than itself in a file of rclone


def _url(value: str) -> str:
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ValueError("is not a URL: it holds a character that none has")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as err:
        raise ValueError("is not a URL") from err
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must be a URL that starts with http:// or https:// and names a host")
    return value


def _bucket(value: str) -> str:
    if not value.startswith("s3://") or value.endswith("/") or ":" in value[5:]:
        raise ValueError("must start with s3://, name a bucket and not end with /")
    return value


def _from_root(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must start with /")
    return value


def _access(value: str) -> str:
    if not _ACCESS.fullmatch(value):
        raise ValueError("holds a character that keys and regions do not have")
    return value


def _endpoint(value: str) -> str:
    if not _ACCESS.fullmatch(value):
        raise ValueError("must be a URL of a host, without a query")
    return value


def _mode(value: int) -> int:
    if not 0 <= value <= MAX_MODE:
        raise ValueError(
            f"must be at least 0 and at most {MAX_MODE}: permissions as a decimal number"
        )
    return value


Url = Annotated[
    str, Field(max_length=MAX_URL), AfterValidator(_url), shown_as(pattern="^https?://[!-~]+$")
]
Mode = Annotated[int, AfterValidator(_mode), shown_as(minimum=0, maximum=MAX_MODE)]


Access = Annotated[
    str,
    Field(max_length=MAX_URL),
    AfterValidator(_access),
    shown_as(pattern=f"^{_ACCESS.pattern}$"),
]


class HTTPData(Model):
    """A place on the web.

    A URL with a `?` or with a user and a password in it is a secret: it is not in the script, and
    an old supervisor cannot run the job.
    """

    url: Url = Field(description="Starts with `http://` or `https://`.", repr=False)


class S3Data(Model):
    """A place in an S3 store. The script does not hold it; an old supervisor cannot run the job."""

    region: Access = Field(description="Region of the store.")
    bucket_url: Annotated[Name, AfterValidator(_bucket), shown_as(pattern="^s3://[^:]*[^:/]$")] = (
        Field(description="The bucket: `s3://` and its name.")
    )
    path: Annotated[
        str,
        Field(max_length=MAX_URL),
        AfterValidator(_from_root),
        AfterValidator(printable),
        shown_as(pattern="^/"),
    ] = Field(description="Folder or object in the bucket; starts with `/`.")
    access_key_id: Access = Field(description="Name of the key.", repr=False)
    secret_access_key: Access = Field(description="The key.", repr=False)
    endpoint_url: Annotated[Url, AfterValidator(_endpoint)] = Field(description="The store.")
    delete_sync: bool = Field(
        default=False,
        description="Of an output: whether what is not in the folder of the job goes from the store.",
    )


class TransportData(Model):
    """One place. If both are given, `http` counts."""

    http: HTTPData | None = Field(default=None, description="On the web.")
    s3: S3Data | None = Field(default=None, description="In an S3 store.")
