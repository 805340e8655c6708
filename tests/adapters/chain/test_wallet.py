# SPDX-License-Identifier: Apache-2.0
"""Keys, signatures and their signers."""

from __future__ import annotations

import json
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

CHEAP = 2**13


@pytest.fixture
def password(tmp_path):
    path = tmp_path / "password"
    path.write_text("a secret\n")
    return path


def test_created_wallet_can_be_loaded(tmp_path, password):
    created = create_wallet(tmp_path / "key.json", password, iterations=CHEAP)

    assert load_wallet(tmp_path / "key.json", password).address == created.address
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600


def test_wallet_of_a_given_key_has_its_address(tmp_path, password):
    created = create_wallet(tmp_path / "key.json", password, key=b"\1" * 32, iterations=CHEAP)

    assert (
        created.address
        == wallet_of(b"\1" * 32).address
        == Keys.from_key(b"\1" * 32).address.lower()
    )


def test_existing_key_file_is_not_overwritten(tmp_path, password):
    create_wallet(tmp_path / "key.json", password, iterations=CHEAP)

    with pytest.raises(ConfigError, match="cannot write wallet"):
        create_wallet(tmp_path / "key.json", password, iterations=CHEAP)


def test_killed_write_leaves_no_partial_wallet(tmp_path, password):
    """A program that finds the file uses it as a wallet, and does not create another one."""
    die = f"""
import os, signal
from pathlib import Path
from gridstead.adapters.chain.wallet import create_wallet
Path.write_text = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
create_wallet(Path({str(tmp_path / "key.json")!r}), Path({str(password)!r}), iterations={CHEAP})
"""

    died = subprocess.run([sys.executable, "-c", die], check=False)
    left = (tmp_path / "key.json").exists()
    created = create_wallet(tmp_path / "key.json", password, iterations=CHEAP)

    assert (died.returncode, left) == (-signal.SIGKILL, False)
    assert load_wallet(tmp_path / "key.json", password).address == created.address
    assert {path.name for path in tmp_path.iterdir()} == {"key.json", "password"}


def test_wrong_password_is_a_config_error(tmp_path, password):
    create_wallet(tmp_path / "key.json", password, iterations=CHEAP)
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


def _of_version_5(document):
    document["version"] = 5


def _of_another_cipher(document):
    document["crypto"]["cipher"] = "aes-256-gcm"


def _of_no_cipher(document):
    del document["crypto"]["cipher"]


def _of_another_derivation(document):
    document["crypto"]["kdf"] = "argon2id"


@pytest.mark.parametrize(
    "foreign", [_of_version_5, _of_another_cipher, _of_no_cipher, _of_another_derivation]
)
def test_unsupported_key_file_is_a_config_error(tmp_path, password, foreign):
    """The password is right, but the version, cipher or key derivation is not supported."""
    path = tmp_path / "key.json"
    create_wallet(path, password, iterations=CHEAP)
    document = json.loads(path.read_text())
    foreign(document)
    path.write_text(json.dumps(document))

    with pytest.raises(ConfigError, match=f"cannot open wallet {path}"):
        load_wallet(path, password)


def test_key_file_names_are_case_insensitive(tmp_path, password):
    path = tmp_path / "key.json"
    created = create_wallet(path, password, iterations=CHEAP)
    document = json.loads(path.read_text())
    document["Crypto"] = document.pop("crypto") | {"cipher": "AES-128-CTR"}
    path.write_text(json.dumps(document))

    assert load_wallet(path, password).address == created.address


def test_missing_file_is_a_config_error(tmp_path, password):
    with pytest.raises(ConfigError, match="cannot read wallet"):
        load_wallet(tmp_path / "nothing", password)


def test_key_is_not_printed(tmp_path, password):
    created = create_wallet(tmp_path / "key.json", password, key=b"\1" * 32, iterations=CHEAP)

    assert "01" * 8 not in repr(created)
    assert "01" * 8 not in json.dumps((tmp_path / "key.json").read_text())


@pytest.mark.parametrize("text", ["read:0xab/log/1", b"\xff\x00"])
@pytest.mark.parametrize("base", [27, 0])
def test_signer_is_recovered_from_both_forms_of_v(text, base):
    signature = wallet_of(b"\1" * 32).sign_text(text)
    signature = signature[:-1] + bytes([signature[-1] - 27 + base])

    assert recover(text, signature) == wallet_of(b"\1" * 32).address


def test_signature_of_another_text_has_another_signer():
    assert recover("b", wallet_of(b"\1" * 32).sign_text("a")) != wallet_of(b"\1" * 32).address


@pytest.mark.parametrize(
    "signature",
    [
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
