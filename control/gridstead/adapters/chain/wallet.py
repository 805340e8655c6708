# SPDX-License-Identifier: Apache-2.0
"""Signs transactions and texts with the key of a wallet, and recovers a signature's signer."""

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

from gridstead.adapters.chain.keystore import keystore_address
from gridstead.adapters.disk import sync
from gridstead.errors import ConfigError, InvalidInput

SIGNATURE_BYTES = 65
CIPHER = "aes-128-ctr"
VERSIONS = (3, 4)
_RECOVERY_BASE = 27  # EIP-191 signatures contain the recovery id (0 or 1) plus this number
_RECOVERY_IDS = (0, 1, 27, 28)


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A signed transaction: its hash and its bytes, each as ``0x`` and hexadecimal digits."""

    hash: str
    raw: str


class Wallet:
    """A private key and its address. Neither ``repr`` nor an error shows the key.

    Args:
        address: The key's address, lower case.
        open_account: Returns the key. The wallet calls it once: in ``open`` or at the first
            signature.
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
        """Open the key now, so that an error occurs before the first transaction is prepared.

        Raises:
            ConfigError: If the key cannot be opened.
        """
        self._open_account()

    def sign_transaction(self, fields: dict[str, Any]) -> SignedTransaction:
        """Return a signed EIP-1559 transaction (type 2)."""
        signed_transaction = self._open_account().sign_transaction(fields)
        return SignedTransaction(
            hash="0x" + bytes(signed_transaction.hash).hex(),
            raw="0x" + bytes(signed_transaction.raw_transaction).hex(),
        )

    def sign_text(self, text: str | bytes) -> bytes:
        """Return an EIP-191 signature of a text: r, s and v (27 or 28), 65 bytes."""
        data = text.encode() if isinstance(text, str) else text
        signed_message = self._open_account().sign_message(encode_defunct(primitive=data))
        return bytes(signed_message.signature)

    def sign_typed(self, document: dict[str, Any]) -> tuple[int, bytes, bytes]:
        """Return the EIP-712 signature of a document: v, r and s.

        Args:
            document: A mapping with ``types``, ``domain`` and ``message``.
        """
        message = encode_typed_data(full_message=document)
        signed_message = self._open_account().sign_message(message)
        return signed_message.v, signed_message.r.to_bytes(32), signed_message.s.to_bytes(32)


def wallet_of(key: bytes) -> Wallet:
    """Return the wallet of a private key of 32 bytes."""
    account: LocalAccount = Keys.from_key(key)
    return Wallet(str(account.address).lower(), lambda: account)


def lazy_wallet(keystore: Path, password_file: Path) -> Wallet:
    """Return a wallet that opens its key file at the first signature, or in ``open``.

    Opening a key file takes most of a second, because the derivation of a key from the password
    is slow by design.

    Raises:
        ConfigError: If the key file cannot be read or has no address. When the wallet opens the
            file, it may raise the errors of ``load_wallet``.
    """
    address = keystore_address(keystore)

    def open_account() -> LocalAccount:
        account: LocalAccount = Keys.from_key(_decrypt_key(keystore, password_file))
        if account.address.lower() != address:
            detail = f"it names {address}, but its key is that of {account.address.lower()}"
            raise ConfigError(f"cannot open wallet {keystore}", detail=detail)
        return account

    return Wallet(address, open_account)


def load_wallet(keystore: Path, password_file: Path) -> Wallet:
    """Return the wallet of a V3 key file.

    Raises:
        ConfigError: If one of the files cannot be read, if ``keystore`` is not a key file, or if
            the password is wrong.
    """
    return wallet_of(_decrypt_key(keystore, password_file))


def _decrypt_key(keystore: Path, password_file: Path) -> bytes:
    try:
        document = json.loads(keystore.read_text())
        password = password_file.read_text().rstrip("\r\n")
        _check_supported(document)
        key = bytes(Keys.decrypt(document, password))
    except OSError as err:
        raise ConfigError(f"cannot read wallet {keystore}", detail=str(err)) from err
    except (ValueError, TypeError, KeyError) as err:
        hint = "Write the key file's password into the password file, on one line."
        raise ConfigError(f"cannot open wallet {keystore}", detail=str(err), hint=hint) from err
    return key


def _check_supported(document: object) -> None:
    """Check the version and the cipher of a key file.

    The library decrypts every file with CIPHER. For a file with another cipher it returns a wrong
    key. The password check does not detect this error, because the check covers the ciphertext and
    not the key.

    Raises:
        ValueError: If the version or the cipher is not supported, or is missing.
    """
    version = _lowercase_keys(document).get("version")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version!r}, not one of {', '.join(map(str, VERSIONS))}")
    crypto = _lowercase_keys(_lowercase_keys(document).get("crypto"))
    cipher = crypto.get("cipher")
    if isinstance(cipher, dict):  # version 4
        cipher = _lowercase_keys(cipher).get("function")
    if str(cipher).lower() != CIPHER:
        raise ValueError(f"its cipher is {cipher!r}, not {CIPHER}")


def _lowercase_keys(table: object) -> dict[str, object]:
    """Return a table of a key file with its keys in lower case, as the library reads them."""
    if not isinstance(table, dict):
        return {}
    return {str(key).lower(): value for key, value in table.items()}


def create_wallet(
    keystore: Path, password_file: Path, *, key: bytes | None = None, iterations: int | None = None
) -> Wallet:
    """Write a new wallet's key file with mode 0600, and return the wallet.

    Args:
        keystore: The new file; it must not exist.
        password_file: Contains the password on one line.
        key: 32 bytes; None for a random key.
        iterations: Cost of the key derivation (n of scrypt). None for the library's default.

    Raises:
        ConfigError: If the key file exists, or a file cannot be written or read.
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
    """Write a new file with mode 0600 to the disk. An existing file is not replaced.

    Raises:
        OSError: If the file exists or cannot be written.
    """
    new_file = path.with_name(f".{path.name}.new")
    new_file.unlink(missing_ok=True)
    new_file.touch(mode=0o600, exist_ok=False)
    try:
        new_file.write_text(text)
        sync(new_file)
        path.hardlink_to(new_file)
        sync(path.parent)
    finally:
        new_file.unlink()


def recover(text: str | bytes, signature: bytes) -> str:
    """Return the address of the signer of a text, lower case (EIP-191).

    Args:
        text: The signed text.
        signature: r, s and v. Clients use different values of v: 0 and 1, or 27 and 28.

    Raises:
        InvalidInput: If the signature is malformed.
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
    if v < _RECOVERY_BASE:
        v += _RECOVERY_BASE
    normalized_signature = signature[:-1] + bytes([v])
    data = text.encode() if isinstance(text, str) else text
    message = encode_defunct(primitive=data)
    try:
        signer = Keys.recover_message(message, signature=normalized_signature)
    except (ValueError, ValidationError, BadSignature) as err:
        raise InvalidInput("invalid signature", detail=str(err)) from err
    return str(signer).lower()
