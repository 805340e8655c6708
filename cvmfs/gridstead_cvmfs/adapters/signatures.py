# SPDX-License-Identifier: Apache-2.0
"""RSA signatures in the two formats of CVMFS.

The master key signs the hash of the whitelist as text, in PKCS#1 type 1 padding without the
identifier of a hash algorithm. The key of a certificate signs the hash of the manifest as text,
with ordinary PKCS#1 v1.5 and SHA-1.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gridstead.errors import ConfigError
from gridstead_cvmfs.domain.objects import HashAlgorithm, new_hasher
from gridstead_cvmfs.domain.signed_files import SignedFile
from gridstead_cvmfs.errors import RepositoryUntrusted


class RsaSignatures:
    """Implements port ``Signatures``.

    Args:
        files: PEM files of the repository's master public keys. One valid signature is enough.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._keys = tuple(map(_read_key, files))

    def is_signed_by_master(self, signed_file: SignedFile) -> bool:
        """Return whether a file is signed, with one of the master keys."""
        for key in self._keys:
            if _recover_text(key, signed_file.signature) == signed_file.signed_hash:
                return True
        return False

    def certificate(self, pem: bytes) -> RsaCertificate:
        """Return a certificate."""
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            key = certificate.public_key()
        except (ValueError, UnsupportedAlgorithm) as error:
            raise RepositoryUntrusted(
                "certificate of the manifest is not a valid certificate"
            ) from error
        if not isinstance(key, rsa.RSAPublicKey):
            raise RepositoryUntrusted(
                "key of the certificate is not RSA", detail=type(key).__name__
            )
        return RsaCertificate(certificate, key)


class RsaCertificate:
    """Implements port ``SigningCertificate``."""

    def __init__(self, certificate: x509.Certificate, key: rsa.RSAPublicKey) -> None:
        self._der = certificate.public_bytes(serialization.Encoding.DER)
        self._key = key

    def fingerprint(self, algorithm: HashAlgorithm) -> str:
        """Return the certificate's fingerprint in the format of whitelists."""
        hasher = new_hasher(algorithm)
        hasher.update(self._der)
        return bytes.fromhex(hasher.hexdigest()).hex(":").upper()

    def has_signed(self, signed_file: SignedFile) -> bool:
        """Return whether a file is signed, with the key of the certificate."""
        sha1 = hashes.SHA1()  # noqa: S303 - the format prescribes SHA-1
        try:
            self._key.verify(
                signed_file.signature, signed_file.signed_hash, padding.PKCS1v15(), sha1
            )
        except InvalidSignature:
            return False
        return True


def _read_key(path: Path) -> rsa.RSAPublicKey:
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"cannot read master key {path}", detail=str(error)) from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise ConfigError(f"master key {path} is not RSA", detail=type(key).__name__)
    return key


def _recover_text(key: rsa.RSAPublicKey, signature: bytes) -> bytes | None:
    """Return the bytes that were signed,; None if the signature is invalid."""
    try:
        return key.recover_data_from_signature(signature, padding.PKCS1v15(), None)
    except (InvalidSignature, ValueError):
        return None
