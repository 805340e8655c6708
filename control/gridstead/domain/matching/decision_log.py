# SPDX-License-Identifier: Apache-2.0
"""The records of the decision log, and how to verify them.

A meta-scheduler signs a record of each decision that has matches. With the events of the chain,
anyone can decide again and compare the result. Each record contains the hash of the record before
it. So a record cannot be changed or removed later without changing all records after it.

The text of a record is JSON in one form only: ASCII, without whitespace, the keys of each object in
alphabetical order. The hash of a record is the SHA-256 of this text, and the signature is an
EIP-191 signature of this text. docs/reference/decision-log.md describes the fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.transactions.calls import Match
from gridstead.errors import InvalidInput

FORMAT = "gridstead-decision-1"  # changes with the fields and the matching rules
NO_RECORD = "0x" + "00" * 32  # `previous` of the first record


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRecord:
    """A record of the log.

    Attributes:
        number: The position in the log, from 0 on.
        text: The record as JSON.
        signature: The signature of the text, 0x and hexadecimal digits.
    """

    number: int
    text: str
    signature: str

    @property
    def hash(self) -> str:
        """The hash of the text."""
        return "0x" + hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """What a verified part of a log contains.

    Attributes:
        record_count: The number of records.
        match_count: The number of matches in the records.
        signers: The addresses that signed the records, lower case.
        last_hash: The hash of the last record. Empty if there is no record.
    """

    record_count: int
    match_count: int
    signers: frozenset[str]
    last_hash: str


def next_record(
    last: SignedRecord | None,
    block: Block,
    matches: Sequence[Match],
    rules: Rules,
    *,
    sign: Callable[[str], bytes],
) -> SignedRecord:
    """Return the record of a decision.

    Args:
        last: The last record of the log. None if the log is empty.
        block: The block at which the matches were decided.
        matches: The matches, in the order in which they were decided.
        rules: The parameters of the decision.
        sign: Returns the EIP-191 signature of a text.
    """
    number = 0 if last is None else last.number + 1
    text = _as_text(
        {
            "block": {"hash": block.hash, "number": block.number, "timestamp": block.timestamp},
            "format": FORMAT,
            "matches": list(map(_match_fields, matches)),
            "number": number,
            "previous": NO_RECORD if last is None else last.hash,
            "rules": _rules_fields(rules),
        }
    )
    return SignedRecord(number=number, text=text, signature="0x" + sign(text).hex())


def verify(
    records: Iterable[SignedRecord], *, signer_of: Callable[[str, bytes], str]
) -> LogSummary:
    """Check the form, the order, the hashes and the signatures of consecutive records.

    Args:
        records: Records of one log, oldest first. The first may be any record of the log.
        signer_of: Returns the address that signed a text. Raises InvalidInput if the signature is
            malformed.

    Raises:
        InvalidInput: If a record is not valid. The message names the first such record.
    """
    last: SignedRecord | None = None
    record_count = match_count = 0
    signers: set[str] = set()
    for record in records:
        match_count += _check_text(record, last)
        signers.add(_signer(record, signer_of))
        record_count += 1
        last = record
    return LogSummary(
        record_count=record_count,
        match_count=match_count,
        signers=frozenset(signers),
        last_hash="" if last is None else last.hash,
    )


def _check_text(record: SignedRecord, last: SignedRecord | None) -> int:
    """Check the text of a record, and return the number of its matches."""
    try:
        fields = json.loads(record.text)
        format_name, number, previous = fields["format"], fields["number"], fields["previous"]
        matches = fields["matches"]
    except (ValueError, KeyError, TypeError) as error:
        raise _invalid(record, "it is not a record of a decision") from error
    if not isinstance(matches, list):
        raise _invalid(record, "its matches are not a list")
    if format_name != FORMAT:
        raise _invalid(record, f"its format is {format_name!r}; this release reads {FORMAT!r}")
    if _as_text(fields) != record.text:
        raise _invalid(record, "its JSON does not have the form of the log")
    if number != record.number:
        raise _invalid(record, f"its text has the number {number}")
    if number == 0 and previous != NO_RECORD:
        raise _invalid(record, "it is the first record, but names a record before it")
    if last is not None and number != last.number + 1:
        raise _invalid(record, f"it follows record {last.number}")
    if last is not None and previous != last.hash:
        raise _invalid(record, f"record {last.number} was changed after record {number} was signed")
    return len(matches)


def _signer(record: SignedRecord, signer_of: Callable[[str, bytes], str]) -> str:
    try:
        signature = bytes.fromhex(record.signature.removeprefix("0x"))
    except ValueError as error:
        raise _invalid(record, "its signature is not hexadecimal") from error
    try:
        return signer_of(record.text, signature)
    except InvalidInput as error:
        raise _invalid(record, str(error)) from error


def _match_fields(match: Match) -> dict[str, Any]:
    return {
        "job": str(match.job_key),
        # Many JSON parsers read numbers above 2**53 with a loss, so amounts are texts.
        "price_per_min": str(match.max_price_per_min),
        "provider": match.provider,
    }


def _rules_fields(rules: Rules) -> dict[str, Any]:
    return {
        "half_life_blocks": rules.half_life.blocks,
        "max_matches": rules.max_matches,
        "max_new_reservations": rules.max_new_reservations,
        "max_work": rules.max_work,
        "policy": rules.policy.name,
        "queue_allowance": rules.queue_allowance,
        "wait_percent": rules.policy.wait_percent,
    }


def _as_text(fields: object) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _invalid(record: SignedRecord, detail: str) -> InvalidInput:
    return InvalidInput(f"record {record.number} of the decision log is not valid", detail=detail)
