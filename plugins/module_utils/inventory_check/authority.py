# SPDX-License-Identifier: Apache-2.0
"""Checks whether the site's certificate authority on this machine can sign and has not expired.

The authority may also be one that the site brings itself.
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

Fault = tuple[Path, str, str]


def authority(inventory: Inventory, now: datetime, *, exchanged: bool) -> Iterator[Diagnostic]:
    """Find contradictory validity periods, and an authority that cannot sign or has expired.

    Args:
        inventory: The inventory.
        now: The time.
        exchanged: Whether the run replaces the authority. It may then have expired.
    """
    host = inventory.first()
    yield from _periods(host)
    folder = host.value("pki_authority_dir")
    if isinstance(folder, str) and folder.startswith("/"):
        # The check sees the secrets through links.
        real = Path(folder).resolve()
        until = now + timedelta(days=host.number("pki_renew_before_days") or 0)
        for where, fault, allowed in faults(real, now, until, exchanged=exchanged):
            yield Diagnostic(where=str(where), seen=fault, allowed=allowed, acts=MACHINE)


def _periods(host: Host) -> Iterator[Diagnostic]:
    valid, own = host.number("pki_valid_days"), host.number("pki_authority_valid_days")
    renew = host.number("pki_renew_before_days")
    if valid and own and valid > own:
        yield Diagnostic(
            where="pki_valid_days",
            seen=f"{valid}, but the authority expires after pki_authority_valid_days, {own}",
            allowed="no certificate outlives its authority",
            about=frozenset({"pki_valid_days"}),
        )
    if valid and renew and renew >= valid:
        yield Diagnostic(
            where="pki_renew_before_days",
            seen=f"{renew}, but a certificate is valid for pki_valid_days, {valid}",
            allowed="less than pki_valid_days, otherwise every run renews every certificate",
            about=frozenset({"pki_renew_before_days"}),
        )


def faults(
    folder: Path, now: datetime, until: datetime, *, exchanged: bool = False
) -> Iterator[Fault]:
    """Find what is wrong with the current and the next authority, at most one fault each.

    Args:
        folder: The folder of the authorities, if there are any.
        now: The time.
        until: The next authority must be valid until then. The current authority may expire
            earlier, which verify.yml reports; if the check refused it, no run could replace it.
        exchanged: Whether the run replaces the current authority. It may then have expired.

    Yields:
        The file, what is wrong with it, and what is allowed.
    """
    is_interrupted = (
        (folder / "old.crt").is_file()
        and (folder / "next.crt").is_file()
        and not (folder / "next.key").is_file()
    )
    if is_interrupted:
        # change-authority.sh was interrupted: it has moved the next key, and moves the certificate
        # last.
        pairs = [(folder / "next.crt", folder / "ca.key", until)]
    else:
        current_until = None if exchanged else now
        pairs = [
            (folder / "ca.crt", folder / "ca.key", current_until),
            (folder / "next.crt", folder / "next.key", until),
        ]
    for certificate, key, end in pairs:
        if certificate.is_file():
            first_fault = next(_faults(certificate, key, now, end), None)
            if first_fault:
                yield first_fault


def _faults(certificate: Path, key: Path, now: datetime, until: datetime | None) -> Iterator[Fault]:
    try:
        chain = x509.load_pem_x509_certificates(certificate.read_bytes())
    except ValueError as error:
        yield certificate, f"no certificate: {error}", "PEM"
        return
    yield from _key_faults(chain[0], certificate, key)
    yield from _usage_faults(chain[0], certificate)
    yield from _validity_faults(chain, certificate, now, until)
    yield from _signature_faults(chain, certificate)


def _key_faults(own: x509.Certificate, certificate: Path, key: Path) -> Iterator[Fault]:
    if not key.is_file():
        yield key, f"missing, but {certificate.name} exists", "the key of that certificate"
        return
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except TypeError:
        allowed = "a key without a passphrase, since every run signs: openssl pkey -in OLD -out NEW"
        yield key, "it is encrypted", allowed
        return
    except (ValueError, UnsupportedAlgorithm) as error:
        yield key, f"no private key: {error}", "PEM"
        return
    if not isinstance(private, RSAPrivateKey | EllipticCurvePrivateKey):
        yield key, "neither an RSA nor an EC key", "one of these, which all services support"
    if private.public_key() != own.public_key():
        allowed = f"the key of the first certificate in {certificate.name}"
        yield key, f"it is not the key of {certificate.name}", allowed


def _usage_faults(own: x509.Certificate, file: Path) -> Iterator[Fault]:
    extensions = own.extensions
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
            "an authority's certificate: basic constraint CA:TRUE, and keyCertSign if it has key"
            " usages"
        )
        yield file, "it may not sign certificates", allowed


def _validity_faults(
    chain: list[x509.Certificate], file: Path, now: datetime, until: datetime | None
) -> Iterator[Fault]:
    begins, ends = chain[0].not_valid_before_utc, chain[0].not_valid_after_utc
    for certificate in chain:
        begins = max(begins, certificate.not_valid_before_utc)
        ends = min(ends, certificate.not_valid_after_utc)
    if begins > now:
        allowed = "a certificate that is valid now; check the clock of this machine"
        yield file, f"it is valid from {begins:%Y-%m-%d} on", allowed
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
        if not _signed(lower, upper):
            allowed = (
                "first the authority's own certificate, then the certificate that signed it, and"
                " so on up to the root"
            )
            yield file, f"number {number + 1} did not sign number {number}", allowed
    if not _signed(chain[-1], chain[-1]):
        issuer = chain[-1].issuer.rfc4514_string()
        allowed = "all certificates up to the root, otherwise programs on the hosts do not trust it"
        yield file, f'"{issuer}", which signed the last certificate, is missing', allowed


def _signed(lower: x509.Certificate, upper: x509.Certificate) -> bool:
    try:
        lower.verify_directly_issued_by(upper)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
