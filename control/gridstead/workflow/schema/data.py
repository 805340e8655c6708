# SPDX-License-Identifier: Apache-2.0
"""Source and target of a job's data."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gridstead.workflow.schema.base import Model, Name, printable, schema_rule

MAX_URL = 2048
MAX_MODE = 511  # 0o777

_ENDPOINT = re.compile(r"[A-Za-z0-9/+=._:@~!$&*()-]+")


def _url(value: str) -> str:
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ValueError("is not a URL: it contains a character that is not allowed")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as err:
        raise ValueError("is not a URL") from err
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must be a URL that starts with http:// or https:// and has a host")
    return value


def _bucket(value: str) -> str:
    name = value.removeprefix("s3://")
    if not value.startswith("s3://") or value.endswith("/") or ":" in name:
        raise ValueError("must start with s3://, have a bucket and not end with /")
    return value


def _from_root(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must start with /")
    return value


def _endpoint(value: str) -> str:
    if not _ENDPOINT.fullmatch(value):
        raise ValueError("must be the URL of a host, without a query")
    return value


def _mode(value: int) -> int:
    if not 0 <= value <= MAX_MODE:
        raise ValueError(
            f"must be at least 0 and at most {MAX_MODE}: permissions, such as 0o755 in a file"
        )
    return value


Url = Annotated[
    str, Field(max_length=MAX_URL), AfterValidator(_url), schema_rule(pattern="^https?://[!-~]+$")
]
Mode = Annotated[int, AfterValidator(_mode), schema_rule(minimum=0, maximum=MAX_MODE)]
S3Text = Annotated[str, Field(min_length=1, max_length=MAX_URL), AfterValidator(printable)]


class HTTPData(Model):
    """A URL.

    A URL with a `?`, or with a user and a password, is a secret. It is not part of the script. A
    supervisor that does not support separate secrets, such as DeepSquare's, cannot run a job with
    such a URL.
    """

    url: Url = Field(description="Starts with `http://` or `https://`.", repr=False)


class S3Data(Model):
    """A folder or an object in an S3 store.

    The keys, the region and the URL of the store are not part of the script. A supervisor that
    does not support separate secrets, such as DeepSquare's, cannot run a job with data in S3.
    """

    region: S3Text = Field(description="Region of the store.")
    bucket_url: Annotated[
        Name, AfterValidator(_bucket), schema_rule(pattern="^s3://[^:]*[^:/]$")
    ] = Field(description="`s3://` and the name of the bucket.")
    path: Annotated[
        str,
        Field(max_length=MAX_URL),
        AfterValidator(_from_root),
        AfterValidator(printable),
        schema_rule(pattern="^/"),
    ] = Field(
        description=(
            "Path in the bucket. Starts with `/`. For an output it is a folder. For an input, a"
            " path that ends with `/` is a folder whose content is copied. Any other path is a"
            " prefix of object names: `/data/in` copies the folder `in` as `$DEEPSQUARE_INPUT/in`,"
            " and also an object such as `/data/in.csv`."
        )
    )
    access_key_id: S3Text = Field(description="Access key id.", repr=False)
    secret_access_key: S3Text = Field(description="Secret access key.", repr=False)
    endpoint_url: Annotated[Url, AfterValidator(_endpoint)] = Field(description="URL of the store.")
    delete_sync: bool = Field(
        default=False,
        description=(
            "For an output: whether objects that are in the store but not in the job's output are"
            " deleted. If a step has failed, the transfer at the end deletes nothing."
        ),
    )


class TransportData(Model):
    """A source or target. If both fields have a value, `http` is used."""

    http: HTTPData | None = Field(default=None, description="A URL.")
    s3: S3Data | None = Field(default=None, description="A folder or an object in an S3 store.")

    @property
    def is_in_s3(self) -> bool:
        """Return whether ``s3`` has a value and is used."""
        return self.s3 is not None and self.http is None
