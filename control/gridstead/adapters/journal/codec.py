# SPDX-License-Identifier: Apache-2.0
"""Values as text that every database keeps: calls, job keys and keys.

A job key ends with text that a customer chose, so nothing is expected of it. What is no printable
ASCII is escaped as in URLs (PostgreSQL keeps no NUL), and what is too long for an index is cut and
made unique again by its hash.
"""

from __future__ import annotations

import hashlib
import string
from typing import Any
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.calls import CALL_NAMES, Call, name_of
from gridstead.domain.ids import JobId, JobKey
from gridstead.errors import UnexpectedOutput

LONGEST = 256  # characters of a key, before escapes; PostgreSQL indexes at most 2704 bytes
_AS_IT_IS = "".join(sorted(set(string.printable) - set(string.whitespace) - {"%"})) + " "

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind) for kind, name in CALL_NAMES.items()
}


def to_text(call: Call) -> str:
    """Return the call as one line of text."""
    name = name_of(call)
    return f"{name} {_ADAPTERS[name].dump_json(call).decode()}"


def from_text(text: str) -> Call:
    """Return the call that to_text() wrote.

    Raises:
        UnexpectedOutput: If the name is unknown or the fields do not belong to it.
    """
    name, _, fields = text.partition(" ")
    if name not in _ADAPTERS:
        raise UnexpectedOutput("the outbox", text)
    try:
        call: Call = _ADAPTERS[name].validate_json(fields)
    except ValidationError as err:
        raise UnexpectedOutput("the outbox", text) from err
    return call


def to_key(text: str) -> str:
    """Return any text as one that can be stored and indexed; two texts never become the same."""
    if len(text) > LONGEST:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        text = f"{text[: LONGEST - len(digest) - 1]}~{digest}"
    return quote(text, safe=_AS_IT_IS, errors="surrogatepass")


def from_key(key: str) -> str:
    """Return the text that to_key() was given, or what it was cut to."""
    return unquote(key, errors="surrogatepass")


def to_job_key(key: str) -> JobKey:
    """Return the job key whose text to_key() was given.

    Raises:
        UnexpectedOutput: Something else wrote it.
    """
    chain_id, *rest = key.split("/", 3)
    try:
        contract, name, batch_location_hash = rest
        job_id = JobId(chain_id=int(chain_id), contract=contract, number=int(name, 16))
    except ValueError as err:
        raise UnexpectedOutput("the journal", key) from err
    return JobKey(job_id=job_id, batch_location_hash=from_key(batch_location_hash))


def to_reason(words: str) -> str:
    """Return somebody's words without what PostgreSQL does not keep."""
    return words.replace("\0", "")
