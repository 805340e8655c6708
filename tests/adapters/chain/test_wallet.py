# SPDX-License-Identifier: Apache-2.0
"""Tests of wallets: key files, signatures, and the recovery of a signature's signer."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from eth_account import Account as Keys

from gridstead.adapters.chain.wallet import (
    create_wallet,
    lazy_wallet,
    load_wallet,
    recover,
    wallet_of,
)
from gridstead.errors import ConfigError, InvalidInput

ITERATIONS = 2**13  # few rounds, so that the tests open wallets quickly


@pytest.fixture
def password(tmp_path):
    """The path of a password file."""
    path = tmp_path / "password"
    path.write_text("a secret\n")
    return path


def test_created_wallet_can_be_loaded(tmp_path, password):
    created_wallet = create_wallet(tmp_path / "key.json", password, iterations=ITERATIONS)

    assert load_wallet(tmp_path / "key.json", password).address == created_wallet.address
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600


def test_wallet_of_a_given_key_has_its_address(tmp_path, password):
    created_wallet = create_wallet(
        tmp_path / "key.json", password, key=b"\1" * 32, iterations=ITERATIONS
    )

    address = Keys.from_key(b"\1" * 32).address.lower()
    assert created_wallet.address == address
    assert wallet_of(b"\1" * 32).address == address


def test_existing_key_file_is_not_overwritten(tmp_path, password):
    create_wallet(tmp_path / "key.json", password, iterations=ITERATIONS)

    with pytest.raises(ConfigError, match="cannot write wallet"):
        create_wallet(tmp_path / "key.json", password, iterations=ITERATIONS)


def test_killed_write_leaves_no_partial_wallet(tmp_path, password):
    """A program that finds a key file creates no wallet, so a partial file would remain."""
    key = tmp_path / "key.json"
    program = f"""
import os, signal
from pathlib import Path
from gridstead.adapters.chain.wallet import create_wallet
Path.write_text = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
create_wallet(Path({str(key)!r}), Path({str(password)!r}), iterations={ITERATIONS})
"""

    result = subprocess.run([sys.executable, "-c", program], check=False)

    assert result.returncode == -signal.SIGKILL
    assert not key.exists()
    created_wallet = create_wallet(key, password, iterations=ITERATIONS)
    assert load_wallet(key, password).address == created_wallet.address
    assert {path.name for path in tmp_path.iterdir()} == {"key.json", "password"}


def test_key_file_and_its_folder_are_synced_to_the_disk(tmp_path, password, monkeypatch):
    synced_paths = []
    fsync = os.fsync

    def record_and_sync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        key_exists = (tmp_path / "key.json").exists()
        synced_paths.append(("folder" if is_folder else "file", key_exists))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_and_sync)

    create_wallet(tmp_path / "key.json", password, iterations=ITERATIONS)

    assert synced_paths == [("file", False), ("folder", True)]


def test_wrong_password_is_a_config_error(tmp_path, password):
    create_wallet(tmp_path / "key.json", password, iterations=ITERATIONS)
    password.write_text("another")

    with pytest.raises(ConfigError, match="cannot open wallet") as error:
        load_wallet(tmp_path / "key.json", password)
    assert "another" not in str(error.value)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", '{"crypto": {}, "version": 3}', '{"version": 9}']
)
def test_invalid_key_file_is_a_config_error(tmp_path, password, content):
    (tmp_path / "key.json").write_text(content)

    with pytest.raises(ConfigError, match="cannot open wallet"):
        load_wallet(tmp_path / "key.json", password)


def _set_version_5(document):
    document["version"] = 5


def _set_another_cipher(document):
    document["crypto"]["cipher"] = "aes-256-gcm"


def _remove_cipher(document):
    del document["crypto"]["cipher"]


def _set_another_key_derivation(document):
    document["crypto"]["kdf"] = "argon2id"


@pytest.mark.parametrize(
    "change_document",
    [_set_version_5, _set_another_cipher, _remove_cipher, _set_another_key_derivation],
)
def test_unsupported_key_file_is_a_config_error(tmp_path, password, change_document):
    """The password is right, but the version, cipher or key derivation is not supported."""
    path = tmp_path / "key.json"
    create_wallet(path, password, iterations=ITERATIONS)
    document = json.loads(path.read_text())
    change_document(document)
    path.write_text(json.dumps(document))

    with pytest.raises(ConfigError, match=f"cannot open wallet {path}"):
        load_wallet(path, password)


def test_field_names_of_a_key_file_are_case_insensitive(tmp_path, password):
    path = tmp_path / "key.json"
    created = create_wallet(path, password, iterations=ITERATIONS)
    document = json.loads(path.read_text())
    document["Crypto"] = document.pop("crypto") | {"cipher": "AES-128-CTR"}
    path.write_text(json.dumps(document))

    assert load_wallet(path, password).address == created.address


def test_missing_file_is_a_config_error(tmp_path, password):
    with pytest.raises(ConfigError, match="cannot read wallet"):
        load_wallet(tmp_path / "nothing", password)


def test_key_is_not_printed(tmp_path, password):
    created = create_wallet(tmp_path / "key.json", password, key=b"\1" * 32, iterations=ITERATIONS)

    # A part of the key in hexadecimal.
    assert "01" * 8 not in repr(created)
    assert "01" * 8 not in json.dumps((tmp_path / "key.json").read_text())


@pytest.mark.parametrize("text", ["read:0xab/log/1", b"\xff\x00"])
# The last byte of a signature, v, is 27 or 28 in one encoding and 0 or 1 in the other.
@pytest.mark.parametrize("lowest_v", [27, 0])
def test_signer_is_recovered_from_both_encodings_of_v(text, lowest_v):
    signature = wallet_of(b"\1" * 32).sign_text(text)
    v = signature[-1] - 27 + lowest_v
    signature = signature[:-1] + bytes([v])

    assert recover(text, signature) == wallet_of(b"\1" * 32).address


def test_signature_of_another_text_has_another_signer():
    wallet = wallet_of(b"\1" * 32)

    assert recover("b", wallet.sign_text("a")) != wallet.address


@pytest.mark.parametrize(
    "signature",
    [
        # Wrong lengths, and invalid values of r, s or v.
        b"",
        b"\0" * 64,
        b"\0" * 65,
        b"\xff" * 65,
        b"\0" * 64 + b"\x1b",
        b"\1" * 64 + b"\x1d",
        b"\1" * 66,
    ],
)
def test_invalid_signature_is_refused(signature):
    with pytest.raises(InvalidInput, match="invalid signature"):
        recover("a", signature)


def test_lazy_wallet_opens_its_file_before_the_first_signature(tmp_path):
    keystore, password = tmp_path / "w.json", tmp_path / "p"
    password.write_text("right\n")
    created = create_wallet(keystore, password, iterations=2**10)
    password.write_text("wrong\n")
    wallet = lazy_wallet(keystore, password)
    assert wallet.address == created.address
    with pytest.raises(ConfigError, match="cannot open"):
        wallet.sign_text("a")

    password.write_text("right\n")

    assert recover("a", wallet.sign_text("a")) == created.address


def test_lazy_wallet_needs_an_address_in_its_file(tmp_path):
    (tmp_path / "w.json").write_text("{}")

    with pytest.raises(ConfigError, match="cannot read"):
        lazy_wallet(tmp_path / "w.json", tmp_path / "p")
