# SPDX-License-Identifier: Apache-2.0
"""Converts calls, job keys and outbox keys to text that every database can store, and back.

A job key ends with a script id that the customer chose. The id may have any characters, for example
NUL, which PostgreSQL cannot store. So "%" and all characters that are not printable ASCII are
percent-encoded. A text that is too long for an index is truncated, and the hash of the whole text
is appended.
"""

from __future__ import annotations

import hashlib
import string
from typing import Any
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.transactions.calls import CALL_NAMES, Call, call_name
from gridstead.errors import UnexpectedOutput

MAX_KEY_LENGTH = 256  # characters before encoding. PostgreSQL indexes at most 2704 bytes.
# The characters that a key contains unchanged: printable ASCII characters except "%".
_UNENCODED = "".join(sorted(set(string.printable) - set(string.whitespace) - {"%"})) + " "

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(call_class) for call_class, name in CALL_NAMES.items()
}


def to_text(call: Call) -> str:
    """Return a call as one line of text: its name and its fields as JSON."""
    name = call_name(call)
    return f"{name} {_ADAPTERS[name].dump_json(call).decode()}"


def from_text(text: str) -> Call:
    """Return the call in a text that ``to_text`` returned.

    Raises:
        UnexpectedOutput: If the name is unknown, or the fields are not those of the call.
    """
    name, _, fields = text.partition(" ")
    if name not in _ADAPTERS:
        raise UnexpectedOutput("the outbox", text)
    try:
        call: Call = _ADAPTERS[name].validate_json(fields)
    except ValidationError as error:
        raise UnexpectedOutput("the outbox", text) from error
    return call


def to_key(text: str) -> str:
    """Return a key that can be stored and indexed. Different texts have different keys."""
    if len(text) > MAX_KEY_LENGTH:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        text = f"{text[: MAX_KEY_LENGTH - len(digest) - 1]}~{digest}"
    return quote(text, safe=_UNENCODED, errors="surrogatepass")


def from_key(key: str) -> str:
    """Return the text in a key that ``to_key`` returned. A long text is truncated."""
    return unquote(key, errors="surrogatepass")


def to_job_key(key: str) -> JobKey:
    """Return the job key in a key that ``to_key`` returned.

    Raises:
        UnexpectedOutput: If the key has another format.
    """
    chain_id, *rest = key.split("/", 3)
    try:
        contract, name, batch_location_hash = rest
        job_id = JobId(chain_id=int(chain_id), contract=contract, number=int(name, 16))
    except ValueError as error:
        raise UnexpectedOutput("the journal", key) from error
    return JobKey(job_id=job_id, batch_location_hash=from_key(batch_location_hash))


def to_reason(text: str) -> str:
    """Return a text without NUL characters, which PostgreSQL cannot store."""
    return text.replace("\0", "")
