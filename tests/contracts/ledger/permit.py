# SPDX-License-Identifier: Apache-2.0
"""Permits of ERC-2612: compute their EIP-712 digest, sign it, and find a signature's signer."""

from __future__ import annotations

from eth_abi.abi import encode
from eth_keys import keys
from eth_keys.exceptions import BadSignature, ValidationError
from eth_utils.crypto import keccak

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
HALF_CURVE_ORDER = CURVE_ORDER // 2
PERMIT_TYPE_HASH = keccak(
    text="Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
)
DOMAIN_TYPE_HASH = keccak(
    text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_WORD = "bytes32"
# The contract expects v = 27 or 28. The library uses 0 or 1.
_RECOVERY_BASE = 27


def digest(credit: str, chain_id: int, permit_values: tuple[str, str, int, int, int]) -> bytes:
    """Return the digest of a permit. The values are owner, spender, value, nonce and deadline."""
    domain = (DOMAIN_TYPE_HASH, keccak(text="Credit"), keccak(text="1"), chain_id, credit)
    separator = keccak(encode([_WORD, _WORD, _WORD, "uint256", "address"], domain))
    types = [_WORD, "address", "address", "uint256", "uint256", "uint256"]
    return keccak(
        b"\x19\x01" + separator + keccak(encode(types, (PERMIT_TYPE_HASH, *permit_values)))
    )


def sign(key: bytes, message: bytes) -> tuple[int, bytes, bytes]:
    """Return v, r and s of the signature of a digest."""
    signature = keys.PrivateKey(key).sign_msg_hash(message)
    return signature.v + _RECOVERY_BASE, signature.r.to_bytes(32), signature.s.to_bytes(32)


def signer(message: bytes, v: int, r: bytes, s: bytes) -> str | None:
    """Return the signer's address, or None if the signature is invalid."""
    try:
        signature = keys.Signature(vrs=(v - _RECOVERY_BASE, int.from_bytes(r), int.from_bytes(s)))
        return signature.recover_public_key_from_msg_hash(message).to_address()
    except (BadSignature, ValidationError):
        return None
