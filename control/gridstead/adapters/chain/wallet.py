# SPDX-License-Identifier: Apache-2.0
"""Wallets: a key that signs transactions and texts, and the signer that a signature names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_account import Account as Keys
from eth_account.messages import encode_defunct, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from gridstead.domain.ids import parse_address
from gridstead.errors import ConfigError, InvalidInput

SIGNATURE_BYTES = 65
CIPHER = "aes-128-ctr"
VERSIONS = (3, 4)
_RECOVERY_BASE = 27
_RECOVERY_IDS = (0, 1, 27, 28)


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed transaction: hash and bytes, 0x and hexadecimal digits."""

    hash: str
    raw: str


class Wallet:
    """A key. It is never shown: neither by repr nor in an error.

    Args:
        address: The key's address, lower case.
        open_account: Returns the key; called once, before the first signature.
    """

    def __init__(self, address: str, open_account: Callable[[], LocalAccount]) -> None:
        self._address = address
        self._open_account = cache(open_account)

    def __repr__(self) -> str:
        return f"Wallet({self.address})"

    @property
    def address(self) -> str:
        """The wallet's address, lower case."""
        return self._address

    def open(self) -> None:
        """Open the key now, so that what is wrong with it is told before anything else is done.

        Raises:
            ConfigError: It cannot be opened.
        """
        self._open_account()

    def sign_transaction(self, fields: dict[str, Any]) -> Signed:
        """Return a signed transaction of type 2."""
        signed = self._open_account().sign_transaction(fields)
        return Signed(
            hash="0x" + bytes(signed.hash).hex(), raw="0x" + bytes(signed.raw_transaction).hex()
        )

    def sign_text(self, text: str | bytes) -> bytes:
        """Return an EIP-191 signature of a text: r, s and v (27 or 28), 65 bytes."""
        data = text.encode() if isinstance(text, str) else text
        return bytes(self._open_account().sign_message(encode_defunct(primitive=data)).signature)

    def sign_typed(self, document: dict[str, Any]) -> tuple[int, bytes, bytes]:
        """Return an EIP-712 signature of a document of types, domain and message: v, r and s."""
        signed = self._open_account().sign_message(encode_typed_data(full_message=document))
        return signed.v, signed.r.to_bytes(32), signed.s.to_bytes(32)


def wallet_of(key: bytes) -> Wallet:
    """Return the wallet of a key of 32 bytes."""
    account: LocalAccount = Keys.from_key(key)
    return Wallet(str(account.address).lower(), lambda: account)


def lazy_wallet(keystore: Path, password_file: Path) -> Wallet:
    """Return a wallet whose key file is opened when something must be signed: that takes most of a
    second, on purpose.

    Raises:
        ConfigError: If the key file cannot be read or names no address; and, when it is opened, as
            ``load_wallet``.
    """
    address = keystore_address(keystore)

    def open_account() -> LocalAccount:
        account: LocalAccount = Keys.from_key(_key(keystore, password_file))
        if account.address.lower() != address:
            raise ConfigError(
                f"cannot open wallet {keystore}",
                detail=f"its key is that of {account.address.lower()}",
            )
        return account

    return Wallet(address, open_account)


def keystore_address(keystore: Path) -> str:
    """Return the address that a V3 key file names, lower case; needs no password.

    Raises:
        ConfigError: If it cannot be read or names none.
    """
    try:
        return parse_address(
            "0x" + str(json.loads(keystore.read_text())["address"]).removeprefix("0x")
        )
    except (OSError, ValueError, KeyError, TypeError, InvalidInput) as err:
        raise ConfigError(f"cannot read wallet {keystore}", detail=str(err)) from err


def load_wallet(keystore: Path, password_file: Path) -> Wallet:
    """Return the wallet of a V3 key file.

    Raises:
        ConfigError: If a file cannot be read, is no key file, or the password is wrong.
    """
    return wallet_of(_key(keystore, password_file))


def _key(keystore: Path, password_file: Path) -> bytes:
    try:
        document = json.loads(keystore.read_text())
        password = password_file.read_text().rstrip("\r\n")
        _check_form(document)
        key = bytes(Keys.decrypt(document, password))
    except OSError as err:
        raise ConfigError(f"cannot read wallet {keystore}", detail=str(err)) from err
    except (ValueError, TypeError, KeyError) as err:
        hint = (
            "The password file must hold the password that the key file was made with, on one line."
        )
        raise ConfigError(f"cannot open wallet {keystore}", detail=str(err), hint=hint) from err
    return key


def _check_form(document: object) -> None:
    """Refuse what the library does not know: a version, and a cipher, as it takes every one for
    CIPHER.

    With another cipher it returns a key that is none of ours. The password does not tell: what is
    checked with it is what was enciphered, not the key.

    Raises:
        ValueError: It is another, or the file does not say.
    """
    version = _lowered(document).get("version")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version!r}, not one of {', '.join(map(str, VERSIONS))}")
    cipher = _lowered(_lowered(document).get("crypto")).get("cipher")
    name = (
        _lowered(cipher).get("function") if isinstance(cipher, dict) else cipher
    )  # version 4 has a table
    if str(name).lower() != CIPHER:
        raise ValueError(f"its cipher is {name!r}, not {CIPHER}")


def _lowered(table: object) -> dict[str, object]:
    """Return a table of a key file, its keys in lower case, as the library reads them."""
    return (
        {str(key).lower(): value for key, value in table.items()} if isinstance(table, dict) else {}
    )


def create_wallet(
    keystore: Path, password_file: Path, *, key: bytes | None = None, iterations: int | None = None
) -> Wallet:
    """Write a new wallet's key file, readable by its owner alone, and return the wallet.

    Args:
        keystore: Must not exist.
        password_file: Holds the password on one line.
        key: 32 bytes; a random key if None.
        iterations: Cost of the key derivation (scrypt n); the standard's if None.

    Raises:
        ConfigError: If the key file exists or a file cannot be written or read.
    """
    account = Keys.from_key(key) if key else Keys.create()
    try:
        password = password_file.read_text().rstrip("\r\n")
        document = Keys.encrypt(account.key, password, kdf="scrypt", iterations=iterations)
        write_once(keystore, json.dumps(document))
    except OSError as err:
        raise ConfigError(f"cannot write wallet {keystore}", detail=str(err)) from err
    return wallet_of(bytes(account.key))


def write_once(path: Path, text: str) -> None:
    """Write a file that only its owner reads: whole from its first moment, and never in place of
    another.

    Raises:
        OSError: It exists, or could not be written.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.touch(mode=0o600, exist_ok=False)
    try:
        beside.write_text(text)
        path.hardlink_to(beside)
    finally:
        beside.unlink()


def recover(text: str | bytes, signature: bytes) -> str:
    """Return the address, lower case, whose wallet made an EIP-191 signature of a text.

    Args:
        text: What was signed.
        signature: r, s and v; v may be 0, 1, 27 or 28, as clients differ.

    Raises:
        InvalidInput: If it is no signature.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise InvalidInput(
            "invalid signature", detail=f"{len(signature)} bytes instead of {SIGNATURE_BYTES}"
        )
    v = signature[-1]
    if v not in _RECOVERY_IDS:
        raise InvalidInput(
            "invalid signature", detail=f"v is {v} instead of one of {_RECOVERY_IDS}"
        )
    plain = signature[:-1] + bytes([v + _RECOVERY_BASE if v < _RECOVERY_BASE else v])
    data = text.encode() if isinstance(text, str) else text
    try:
        return str(Keys.recover_message(encode_defunct(primitive=data), signature=plain)).lower()
    except (ValueError, ValidationError, BadSignature) as err:
        raise InvalidInput("invalid signature", detail=str(err)) from err
