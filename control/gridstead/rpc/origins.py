# SPDX-License-Identifier: Apache-2.0
"""The web pages that may call a server of the grid from a browser (CORS).

By default pages of any origin may call: browsers send nothing on their own that identifies a user
to these servers. The servers use neither cookies nor client certificates, and a request for a log
contains the signature of the owner's wallet. Therefore no answer permits credentials.

Routes that check the caller's network, such as ``/metrics``, must not have this middleware: a page
in the browser of an operator could otherwise read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

ANY_ORIGIN = "*"
PREFLIGHT_MAX_AGE_S = 600  # how long a browser caches the answer to a preflight request


def allow_origins(
    origins: Iterable[str], *, headers: Iterable[str], exposed_headers: Iterable[str] = ()
) -> Middleware:
    """Return middleware that lets web pages send POST requests and read the answers.

    Args:
        origins: Origins of the pages, such as ``https://portal.example``, or ANY_ORIGIN.
        headers: Headers that the pages may send.
        exposed_headers: Headers of answers that the pages may read.
    """
    return Middleware(
        CORSMiddleware,
        allow_origins=tuple(origins),
        allow_methods=["POST"],
        allow_headers=tuple(headers),
        expose_headers=tuple(exposed_headers),
        max_age=PREFLIGHT_MAX_AGE_S,
    )
