# SPDX-License-Identifier: Apache-2.0
"""The site's authority on this machine, whoever made it: whether it can sign, and how long."""

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

from inventory_check.problem import MACHINE, Problem
from inventory_check.site import Host, Site

Fault = tuple[Path, str, str]


def authority(site: Site, now: datetime, *, exchanged: bool) -> Iterator[Problem]:
    """Find times of certificates that contradict each other, and an authority that cannot sign or
    has ended.

    Args:
        site: The inventory.
        now: The time.
        exchanged: Whether the run exchanges the authority, which may have ended then.
    """
    host = site.first()
    yield from _times(host)
    folder = host.value("pki_authority_dir")
    if isinstance(folder, str) and folder.startswith("/"):
        # The secrets are looked at through links.
        until = now + timedelta(days=host.number("pki_renew_before_days") or 0)
        for where, found, allowed in faults(
            Path(folder).resolve(), now, until, exchanged=exchanged
        ):
            yield Problem(where=str(where), found=found, allowed=allowed, acts=MACHINE)


def _times(host: Host) -> Iterator[Problem]:
    valid, own = host.number("pki_valid_days"), host.number("pki_authority_valid_days")
    renew = host.number("pki_renew_before_days")
    if valid and own and valid > own:
        yield Problem(
            where="pki_valid_days",
            found=f"{valid}, and the authority's own certificate ends after pki_authority_valid_days, {own}",
            allowed="no certificate outlives its authority",
            about=frozenset({"pki_valid_days"}),
        )
    if valid and renew and renew >= valid:
        yield Problem(
            where="pki_renew_before_days",
            found=f"{renew}, and a certificate is valid for pki_valid_days, {valid}",
            allowed="less than that, or every run renews everything",
            about=frozenset({"pki_renew_before_days"}),
        )


def faults(
    folder: Path, now: datetime, until: datetime, *, exchanged: bool = False
) -> Iterator[Fault]:
    """Find what is wrong with the authority in a folder and with the next one beside it: one thing
    of each at most.

    Args:
        folder: Where they are, if there are any.
        now: The time.
        until: The next one must be valid until then. The one that signs may end before, which
            verify.yml tells of; refused for that, no run could exchange it.
        exchanged: Whether it is about to be exchanged, so that it may have ended.

    Yields:
        The file, what is wrong with it, and what may be there.
    """
    following = (folder / "next.crt", folder / "next.key", until)
    pairs = [(folder / "ca.crt", folder / "ca.key", None if exchanged else now), following]
    if (
        (folder / "old.crt").is_file()
        and (folder / "next.crt").is_file()
        and not (folder / "next.key").is_file()
    ):
        # change-authority.sh was cut: the next key is in its place already, its certificate comes
        # last.
        pairs = [(folder / "next.crt", folder / "ca.key", until)]
    for certificate, key, end in pairs:
        if certificate.is_file():
            found = next(_faults(certificate, key, now, end), None)
            yield from [found] if found else []


def _faults(certificate: Path, key: Path, now: datetime, until: datetime | None) -> Iterator[Fault]:
    try:
        chain = x509.load_pem_x509_certificates(certificate.read_bytes())
    except ValueError as error:
        yield certificate, f"no certificate: {error}", "PEM"
        return
    yield from _key_faults(chain[0], certificate, key)
    yield from _rights(chain[0], certificate)
    yield from _dates(chain, certificate, now, until)
    yield from _signatures(chain, certificate)


def _key_faults(own: x509.Certificate, certificate: Path, key: Path) -> Iterator[Fault]:
    if not key.is_file():
        yield key, f"missing, and {certificate.name} is there", "the key of that certificate"
        return
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except TypeError:
        yield (
            key,
            "it is encrypted",
            "a key without a passphrase, as every run signs with it: openssl pkey -in OLD -out NEW",
        )
        return
    except (ValueError, UnsupportedAlgorithm) as error:
        yield key, f"no private key: {error}", "PEM"
        return
    if not isinstance(private, RSAPrivateKey | EllipticCurvePrivateKey):
        yield key, "neither an RSA nor an EC key", "one of these, which all services know"
    if private.public_key() != own.public_key():
        yield (
            key,
            f"it is not the key of {certificate.name}",
            f"the key that {certificate.name}'s first certificate is for",
        )


def _rights(own: x509.Certificate, file: Path) -> Iterator[Fault]:
    extensions = own.extensions
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    try:
        may_sign = extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        may_sign = True  # nothing says for what it is not
    if not (is_authority and may_sign):
        allowed = "an authority's certificate: basic constraint CA:TRUE, and keyCertSign if it names key usages"
        yield file, "it may not sign certificates", allowed


def _dates(
    chain: list[x509.Certificate], file: Path, now: datetime, until: datetime | None
) -> Iterator[Fault]:
    ends, begins = (
        min(one.not_valid_after_utc for one in chain),
        max(one.not_valid_before_utc for one in chain),
    )
    if begins > now:
        yield (
            file,
            f"it is valid from {begins:%Y-%m-%d} on",
            "one that is valid now; look at this machine's clock",
        )
    if until and ends < now:
        allowed = "one that has not; playbooks/authority.yml exchanges it, docs/howto/secrets.md tells how"
        yield file, f"the authority ended on {ends:%Y-%m-%d}", allowed
    elif until and ends < until:
        found = f"the authority ends on {ends:%Y-%m-%d}, and pki_renew_before_days asks for {until:%Y-%m-%d}"
        yield file, found, "one that is worth the exchange"


def _signatures(chain: list[x509.Certificate], file: Path) -> Iterator[Fault]:
    for number, (lower, upper) in enumerate(pairwise(chain), start=1):
        if not _signed(lower, upper):
            allowed = "first the authority's own certificate, then who signed it, and so on up to the root"
            yield file, f"number {number + 1} did not sign number {number}", allowed
    if not _signed(chain[-1], chain[-1]):
        issuer = chain[-1].issuer.rfc4514_string()
        allowed = "also those above it, up to the root, or programs on the hosts do not believe it"
        yield file, f'"{issuer}", which signed the last certificate, is not there', allowed


def _signed(lower: x509.Certificate, upper: x509.Certificate) -> bool:
    try:
        lower.verify_directly_issued_by(upper)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
