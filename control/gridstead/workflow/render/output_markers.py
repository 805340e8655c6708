# SPDX-License-Identifier: Apache-2.0
"""Renders the markers of a job's output: a listing, and a link without credentials."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote as percent_encode
from urllib.parse import urlsplit

from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import HTTPData, S3Data, TransportData

# A longer link is cut off.
MAX_LINK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParts:
    """Parts of the script that write markers of the output. All are empty without markers.

    Attributes:
        listing: Writes the number, the size and the names of the files.
        tee: Follows the command that sends the output to a URL, and copies the server's answer.
        link: Follows a command that has sent the output, and writes the link.
    """

    listing: str = ""
    tee: str = ""
    link: str = ""


def output_parts(target: TransportData, *, markers: bool) -> OutputParts:
    """Return the parts for the output of a job."""
    if not markers:
        return OutputParts()
    listing = fill("output_markers.sh")
    if target.http:
        answer = '"$storage/.answer"'
        return OutputParts(
            listing=fill("link_marker.sh") + listing,
            # The answer is printed even if it cannot be stored.
            tee=f" | {{ tee -- {answer} 2>/dev/null || :; }}",
            link=f" && link_marker {answer} {quote(_http_link(target.http))}",
        )
    assert target.s3, "there is either http or s3"
    link = quote(f"link url={_s3_link(target.s3)}")
    return OutputParts(listing=listing, link=f" && marker {link}")


def _http_link(http: HTTPData) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(http.url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:MAX_LINK]


def _s3_link(s3: S3Data) -> str:
    """Return a link with the bucket and the path in it, without the store and its keys."""
    bucket = s3.bucket_url.removeprefix("s3://")
    path = f"{bucket}/{s3.path.strip('/')}"
    return f"s3://{percent_encode(path)}"[:MAX_LINK]
