# SPDX-License-Identifier: Apache-2.0
"""Converts calls, job keys and outbox keys to text that every database can store, and back.

A job key ends with text that a customer chose, so that text may contain anything. Characters that
are not printable ASCII are percent-encoded (PostgreSQL cannot store NUL). A text that is too long
for an index is cut and made unique with its hash.
"""

from __future__ import annotations

import hashlib
import string
from typing import Any
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.transactions.calls import CALL_NAMES, Call, name_of
from gridstead.errors import UnexpectedOutput

LONGEST = 256  # characters of a key before encoding; PostgreSQL indexes at most 2704 bytes
_UNENCODED = "".join(sorted(set(string.printable) - set(string.whitespace) - {"%"})) + " "

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind) for kind, name in CALL_NAMES.items()
}


def to_text(call: Call) -> str:
    """Return the call as one line of text."""
    name = name_of(call)
    return f"{name} {_ADAPTERS[name].dump_json(call).decode()}"


def from_text(text: str) -> Call:
    """Return the call whose text to_text() returned.

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
    """Return a key for any text that can be stored and indexed; different texts differ."""
    if len(text) > LONGEST:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        text = f"{text[: LONGEST - len(digest) - 1]}~{digest}"
    return quote(text, safe=_UNENCODED, errors="surrogatepass")


def from_key(key: str) -> str:
    """Return the text of a key that to_key() returned; a long text is cut."""
    return unquote(key, errors="surrogatepass")


def to_job_key(key: str) -> JobKey:
    """Return the job key of a key that to_key() returned.

    Raises:
        UnexpectedOutput: If the key has another form.
    """
    chain_id, *rest = key.split("/", 3)
    try:
        contract, name, batch_location_hash = rest
        job_id = JobId(chain_id=int(chain_id), contract=contract, number=int(name, 16))
    except ValueError as err:
        raise UnexpectedOutput("the journal", key) from err
    return JobKey(job_id=job_id, batch_location_hash=from_key(batch_location_hash))


def to_reason(text: str) -> str:
    """Return a text without NUL characters, which PostgreSQL cannot store."""
    return text.replace("\0", "")
