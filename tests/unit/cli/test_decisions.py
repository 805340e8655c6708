# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands that show and verify the decision log."""

import json

import pytest
from typer.testing import CliRunner

from gridstead.adapters.chain.wallet import wallet_of
from gridstead.cli import decisions
from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import SignedRecord, next_record
from gridstead.domain.matching.decisions import Rules
from gridstead.errors import InvalidInput

WALLET = wallet_of((7).to_bytes(32))
BLOCK = Block(number=12, hash="0x" + "ab" * 32, timestamp=100)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a command with a log of these records."""

    def run_command(records, *arguments):
        monkeypatch.setattr(decisions, "_records", lambda _config, first: iter(records[first:]))
        return CliRunner().invoke(decisions.app, arguments)

    return run_command


@pytest.fixture
def records():
    first = next_record(None, BLOCK, [], Rules(), sign=WALLET.sign_text)
    return [first, next_record(first, BLOCK, [], Rules(), sign=WALLET.sign_text)]


def test_valid_log_is_summarised(run, records):
    result = run(records, "verify", "--json", "--signer", WALLET.address)

    assert json.loads(result.stdout) == {
        "records": 2,
        "matches": 0,
        "signers": [WALLET.address],
        "last_hash": records[1].hash,
    }


def test_other_signer_is_refused(run, records):
    result = run(records, "verify", "--signer", "0x" + "11" * 20)

    assert isinstance(result.exception, InvalidInput)
    assert WALLET.address in result.exception.detail


def test_log_that_is_not_valid_is_refused(run, records):
    result = run(records[1:] + records[:1], "verify")

    assert isinstance(result.exception, InvalidInput)
    assert "record 0" in result.exception.message


def test_json_has_all_that_is_needed_to_verify(run, records):
    result = run(records, "log", "--json", "--from", "1")

    (record,) = json.loads(result.stdout)
    assert record == {
        "number": 1,
        "text": records[1].text,
        "signature": records[1].signature,
        "hash": records[1].hash,
    }


def test_table_shows_a_record_that_is_not_valid(run, records):
    malformed = SignedRecord(number=2, text="{}", signature="0x")

    result = run([*records, malformed], "log")

    lines = result.stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["0", "12", "0"],
        ["1", "12", "0"],
        ["2", "?", "?"],
    ]
