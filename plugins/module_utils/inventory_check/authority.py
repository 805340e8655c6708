# SPDX-License-Identifier: Apache-2.0
"""Checks whether the site's certificate authority can sign and has not expired.

The authority is a folder on the machine that runs Ansible. Gridstead or the operator created it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from .diagnostic import MACHINE, Diagnostic
from .inventory import Host, Inventory

Fault = tuple[Path, str, str]  # the file, what is wrong with it, and what is allowed


def check_authority(
    inventory: Inventory, now: datetime, *, is_replaced: bool
) -> Iterator[Diagnostic]:
    """Report contradictory validity periods, and an authority that cannot sign or has expired.

    Args:
        inventory: The inventory.
        now: The current time.
        is_replaced: Whether the run replaces the authority. If so, it may have expired.
    """
    host = inventory.first()
    yield from _check_periods(host)
    folder = host.value("pki_authority_dir")
    if isinstance(folder, str) and folder.startswith("/"):
        # During the check, the folder of secrets contains symbolic links. Messages show real paths.
        real_folder = Path(folder).resolve()
        until = now + timedelta(days=host.number("pki_renew_before_days") or 0)
        for path, fault, allowed in authority_faults(
            real_folder, now, until, is_replaced=is_replaced
        ):
            yield Diagnostic(where=str(path), fault=fault, allowed=allowed, responsible=MACHINE)


def _check_periods(host: Host) -> Iterator[Diagnostic]:
    valid_days = host.number("pki_valid_days")
    authority_days = host.number("pki_authority_valid_days")
    renew_days = host.number("pki_renew_before_days")
    if valid_days and authority_days and valid_days > authority_days:
        yield Diagnostic(
            where="pki_valid_days",
            fault=f"{valid_days}, but the authority expires after {authority_days} days"
            " (pki_authority_valid_days)",
            allowed="at most pki_authority_valid_days",
            affected_names=frozenset({"pki_valid_days"}),
        )
    if valid_days and renew_days and renew_days >= valid_days:
        yield Diagnostic(
            where="pki_renew_before_days",
            fault=f"{renew_days}, but a certificate is valid for {valid_days} days"
            " (pki_valid_days)",
            allowed="less than pki_valid_days, otherwise every run renews every certificate",
            affected_names=frozenset({"pki_renew_before_days"}),
        )


def authority_faults(
    folder: Path, now: datetime, until: datetime, *, is_replaced: bool = False
) -> Iterator[Fault]:
    """Yield at most one fault of the current authority and at most one of the next authority.

    Args:
        folder: The folder of the authorities. It may be empty.
        now: The current time.
        until: The next authority must be valid until this time. The current authority may expire
            earlier, so that a run can still replace it. verify.yml reports this authority.
        is_replaced: Whether the run replaces the current authority. If so, it may have expired.

    Yields:
        The file, what is wrong with it, and what is allowed.
    """
    is_interrupted = (
        (folder / "old.crt").is_file()
        and (folder / "next.crt").is_file()
        and not (folder / "next.key").is_file()
    )
    if is_interrupted:
        # change-authority.sh was interrupted after it moved next.key to ca.key, and before it
        # moved next.crt.
        pairs = [(folder / "next.crt", folder / "ca.key", until)]
    else:
        current_until = None if is_replaced else now
        pairs = [
            (folder / "ca.crt", folder / "ca.key", current_until),
            (folder / "next.crt", folder / "next.key", until),
        ]
    for certificate, key, valid_until in pairs:
        if certificate.is_file():
            first_fault = next(_faults_of_pair(certificate, key, now, valid_until), None)
            if first_fault:
                yield first_fault


def _faults_of_pair(
    certificate: Path, key: Path, now: datetime, until: datetime | None
) -> Iterator[Fault]:
    try:
        chain = x509.load_pem_x509_certificates(certificate.read_bytes())
    except ValueError as error:
        yield certificate, f"not a certificate: {error}", "a certificate in PEM"
        return
    yield from _key_faults(chain[0], certificate, key)
    yield from _usage_faults(chain[0], certificate)
    yield from _validity_faults(chain, certificate, now, until)
    yield from _signature_faults(chain, certificate)


def _key_faults(first: x509.Certificate, certificate: Path, key: Path) -> Iterator[Fault]:
    if not key.is_file():
        yield key, f"missing, but {certificate.name} exists", "the private key of that certificate"
        return
    try:
        private_key = load_pem_private_key(key.read_bytes(), password=None)
    except TypeError:
        allowed = (
            "a key without a passphrase, because every run signs; to remove the passphrase, run"
            " openssl pkey -in OLD -out NEW"
        )
        yield key, "the key is encrypted", allowed
        return
    except (ValueError, UnsupportedAlgorithm) as error:
        yield key, f"not a private key: {error}", "a private key in PEM"
        return
    if not isinstance(private_key, RSAPrivateKey | EllipticCurvePrivateKey):
        yield (
            key,
            "not an RSA or EC key",
            "an RSA or EC key, because all services support these types",
        )
    if private_key.public_key() != first.public_key():
        allowed = f"the key of the first certificate in {certificate.name}"
        yield key, f"the key does not belong to {certificate.name}", allowed


def _usage_faults(certificate: x509.Certificate, file: Path) -> Iterator[Fault]:
    extensions = certificate.extensions
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    try:
        may_sign = extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        may_sign = True  # without the extension every usage is allowed
    if not (is_authority and may_sign):
        allowed = (
            "a certificate with the basic constraint CA:TRUE and, if it has key usages, keyCertSign"
        )
        yield file, "the certificate may not sign other certificates", allowed


def _validity_faults(
    chain: list[x509.Certificate], file: Path, now: datetime, until: datetime | None
) -> Iterator[Fault]:
    begins, ends = chain[0].not_valid_before_utc, chain[0].not_valid_after_utc
    for certificate in chain:
        begins = max(begins, certificate.not_valid_before_utc)
        ends = min(ends, certificate.not_valid_after_utc)
    if begins > now:
        allowed = "a certificate that is valid now; check the clock of this machine"
        yield file, f"the authority is not valid before {begins:%Y-%m-%d}", allowed
    if until and ends < now:
        allowed = (
            "an authority that has not expired; playbooks/authority.yml replaces it,"
            " docs/howto/secrets.md explains how"
        )
        yield file, f"the authority expired on {ends:%Y-%m-%d}", allowed
    elif until and ends < until:
        fault = (
            f"the authority expires on {ends:%Y-%m-%d}, but pki_renew_before_days requires"
            f" {until:%Y-%m-%d}"
        )
        yield file, fault, "an authority that expires later than the renewal of its certificates"


def _signature_faults(chain: list[x509.Certificate], file: Path) -> Iterator[Fault]:
    for number, (lower, upper) in enumerate(pairwise(chain), start=1):
        if not _is_signed_by(lower, upper):
            allowed = (
                "first the authority's own certificate, then the certificate that signed it, and"
                " so on up to the root"
            )
            yield (
                file,
                f"certificate {number + 1} in the file did not sign certificate {number}",
                allowed,
            )
    if not _is_signed_by(chain[-1], chain[-1]):
        issuer = chain[-1].issuer.rfc4514_string()
        allowed = "all certificates up to the root; otherwise programs do not trust the authority"
        yield (
            file,
            f'the certificate of "{issuer}" is missing, which signed the last certificate',
            allowed,
        )


def _is_signed_by(lower: x509.Certificate, upper: x509.Certificate) -> bool:
    try:
        lower.verify_directly_issued_by(upper)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
