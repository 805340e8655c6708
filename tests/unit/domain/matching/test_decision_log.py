# SPDX-License-Identifier: Apache-2.0
"""Tests of the records of the decision log."""

import hashlib
import json
from dataclasses import replace

import pytest
from tests.unit.domain.matching.grids import FIRST, pending_job

from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import NO_RECORD, LogSummary, next_record, verify
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.transactions.calls import Match
from gridstead.errors import InvalidInput

SIGNER = "0x" + "51" * 20


def sign(text):
    """Return a signature that only this text has."""
    return hashlib.sha256(text.encode()).digest()


def signer_of(text, signature):
    if signature != sign(text):
        raise InvalidInput("invalid signature")
    return SIGNER


def match(number):
    return Match(job_key=pending_job(number).job_key, provider=FIRST, max_price_per_min=2**60)


def block(number):
    return Block(number=number, hash=f"0x{number:064x}", timestamp=1000 + number)


def log_of(count):
    """Return a log in which record N has N + 1 matches."""
    records = []
    for number in range(count):
        last = records[-1] if records else None
        matches = [match(10 * number + index) for index in range(number + 1)]
        records.append(next_record(last, block(number), matches, Rules(), sign=sign))
    return records


def signed(record, **changes):
    """Return a record with these fields, with a valid signature of the new text."""
    fields = json.loads(record.text) | changes
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return replace(record, text=text, signature="0x" + sign(text).hex())


def test_text_of_a_record():
    (record,) = log_of(1)

    assert record.text == (
        '{"block":{"hash":"0x' + 64 * "0" + '","number":0,"timestamp":1000},'
        '"format":"gridstead-decision-1",'
        f'"matches":[{{"job":"{match(0).job_key}","price_per_min":"1152921504606846976",'
        f'"provider":"{FIRST}"}}],"number":0,"previous":"{NO_RECORD}",'
        '"rules":{"half_life_blocks":302400,"max_matches":1000,"max_new_reservations":50,'
        '"max_work":5000,"policy":"balanced","queue_allowance":0,"wait_percent":100}}'
    )


def test_record_has_the_hash_of_the_record_before_it():
    first, second = log_of(2)

    assert json.loads(second.text)["previous"] == first.hash
    assert first.hash == "0x" + hashlib.sha256(first.text.encode()).hexdigest()


@pytest.mark.parametrize("first", [0, 1, 3])
def test_records_from_any_record_on_are_valid(first):
    records = log_of(4)

    summary = verify(records[first:], signer_of=signer_of)

    assert summary.record_count == 4 - first
    assert summary.match_count == sum(range(first + 1, 5))
    assert summary.signers == {SIGNER}
    assert summary.last_hash == records[-1].hash


def test_empty_log_is_valid():
    summary = LogSummary(record_count=0, match_count=0, signers=frozenset(), last_hash="")
    assert verify([], signer_of=signer_of) == summary


def refuse(records, *parts):
    """Check that a log is refused, and that the error contains each part."""
    with pytest.raises(InvalidInput) as error:
        verify(records, signer_of=signer_of)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"format":"other"}'])
def test_text_that_is_not_a_record_is_refused(text):
    record = replace(log_of(1)[0], text=text)

    refuse([record], "record 0", "not a record")


def test_unknown_format_is_refused():
    refuse([signed(log_of(1)[0], format="gridstead-decision-2")], "gridstead-decision-2")


def test_matches_that_are_not_a_list_are_refused():
    refuse([signed(log_of(1)[0], matches=5)], "record 0", "matches")


def test_other_form_of_the_same_json_is_refused():
    record = log_of(1)[0]
    text = record.text.replace(",", ", ")

    refuse([replace(record, text=text, signature="0x" + sign(text).hex())], "form")


def test_changed_text_is_refused():
    first, second = log_of(2)
    changed = replace(second, text=second.text.replace(FIRST, SIGNER))

    refuse([first, changed], "record 1", "invalid signature")


def test_record_that_was_changed_and_signed_again_is_refused_at_the_next_record():
    first, second = log_of(2)

    refuse([signed(first, matches=[]), second], "record 1", "record 0 was changed")


def test_missing_record_is_refused():
    first, _, third = log_of(3)

    refuse([first, third], "record 2", "follows record 0")


def test_number_that_differs_from_the_text_is_refused():
    refuse([replace(log_of(1)[0], number=5)], "record 5", "number 0")


def test_first_record_with_a_record_before_it_is_refused():
    refuse([signed(log_of(1)[0], previous="0x" + "11" * 32)], "record 0")


def test_signature_that_is_not_hexadecimal_is_refused():
    refuse([replace(log_of(1)[0], signature="0xzz")], "record 0", "hexadecimal")
