# SPDX-License-Identifier: Apache-2.0
"""Reads the decision log of a meta-scheduler from its queue view."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.errors import Transient, UnexpectedOutput

TIMEOUT_S = 30


def read_decisions(url: str, *, first: int, ca: Path | None) -> Iterator[SignedRecord]:
    """Yield the records of the log with consecutive numbers, oldest first.

    Args:
        url: ``https://host:port`` of the queue view.
        first: The number of the first record.
        ca: The PEM file of a CA. None for the CAs of the system.

    Raises:
        Transient: If the queue view does not answer.
        UnexpectedOutput: If an answer is not a list of the next records.
    """
    tls_context = ssl.create_default_context(cafile=ca)
    with httpx.Client(verify=tls_context, timeout=TIMEOUT_S, trust_env=False) as client:
        while True:
            page_url = f"{url.rstrip('/')}/decisions/{first}"
            records = _records(page_url, _get(client, page_url), first=first)
            yield from records
            if not records:
                return
            first = records[-1].number + 1


def _get(client: httpx.Client, url: str) -> str:
    try:
        answer = client.get(url)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise Transient("could not read the decision log", detail=f"{url}: {error}") from error
    return answer.text


def _records(url: str, text: str, *, first: int) -> list[SignedRecord]:
    try:
        records = list(map(_record, json.loads(text)))
    except (ValueError, KeyError, TypeError) as error:
        raise UnexpectedOutput(url, text) from error
    numbers = [record.number for record in records]
    if numbers != list(range(first, first + len(records))):
        raise UnexpectedOutput(url, f"the records {numbers}, which do not follow {first - 1}")
    return records


def _record(fields: dict[str, Any]) -> SignedRecord:
    return SignedRecord(
        number=int(fields["number"]), text=str(fields["text"]), signature=str(fields["signature"])
    )
