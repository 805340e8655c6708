# SPDX-License-Identifier: Apache-2.0
"""The two signed files of a repository: the manifest and the whitelist.

The manifest contains the hash of the root catalog. The whitelist contains the certificates that
may sign the manifest. A signed file consists of lines of text, a line `--`, the hash of the text,
and a signature of that hash as raw bytes. This module only parses signed files, and trust.py checks
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gridstead_cvmfs.domain.objects import (
    HashAlgorithm,
    ObjectKind,
    ObjectName,
    new_hasher,
    parse_hash,
)
from gridstead_cvmfs.errors import RepositoryUntrusted

MANIFEST = ".cvmfspublished"
WHITELIST = ".cvmfswhitelist"
MAX_SIGNED_FILE_BYTES = 256 * 1024
MAX_FINGERPRINTS = 1000

# This line follows the text of a signed file. After it come the hash of the text and the signature.
_END = b"\n--\n"
_HASH_LINE = re.compile(rb"[0-9a-f]{40}(?:-rmd160|-shake128)?")
_NUMBER = re.compile(r"[0-9]{1,18}")
_TIMESTAMP = re.compile(r"[0-9]{14}")  # YYYYMMDDhhmmss in UTC
# For example ``01:AB:...:EF-rmd160 # comment``. A fingerprint has 20 bytes. Without a suffix the
# algorithm is SHA-1.
_FINGERPRINT = re.compile(r"((?:[0-9A-F]{2}:){19}[0-9A-F]{2})(|-rmd160|-shake128)(?:[ \t#].*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFile:
    """A signed file whose hash matches its text.

    Attributes:
        raw: The whole file, as served.
        lines: The lines of the text.
        signed_hash: The signed bytes, which are the hash as text.
        signature: The signature as raw bytes.
    """

    raw: bytes
    lines: tuple[str, ...]
    signed_hash: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of one revision of a repository.

    Attributes:
        signed_file: The file that contains the manifest.
        name: The name of the repository.
        revision: The revision number. Each new revision has a higher number.
        published_at: Time of publication. Unit: Unix seconds. 0 if the manifest has no time.
        catalog: The root catalog.
        certificate: The certificate of the signer.
        history: The list of tagged revisions, which remain readable. None if there is no list.
        metainfo: The publisher's description of the repository. None if there is no description.
        collectable: Whether the publisher allows the removal of old revisions.
    """

    signed_file: SignedFile
    name: str
    revision: int
    published_at: int
    catalog: ObjectName
    certificate: ObjectName
    history: ObjectName | None
    metainfo: ObjectName | None
    collectable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Whitelist:
    """The certificates that may sign manifests.

    Attributes:
        signed_file: The file that contains the whitelist.
        name: The name of the repository.
        issued_at: Time of the signature. Unit: Unix seconds.
        expires_at: End of the validity. Unit: Unix seconds.
        fingerprints: The algorithm and the fingerprint of each certificate. A fingerprint is
            hexadecimal bytes separated by colons.
    """

    signed_file: SignedFile
    name: str
    issued_at: int
    expires_at: int
    fingerprints: frozenset[tuple[HashAlgorithm, str]]


def parse_signed_file(raw: bytes, label: str) -> SignedFile:
    """Return a signed file.

    Args:
        raw: The bytes of the file.
        label: The name of the file in error messages.

    Raises:
        RepositoryUntrusted: If there is no signature, or the hash does not match the text.
    """
    text, end, rest = raw.partition(_END)
    signed_hash, newline, signature = rest.partition(b"\n")
    is_complete = bool(end and newline and signature)
    if not is_complete or not _HASH_LINE.fullmatch(signed_hash):
        raise RepositoryUntrusted(f"{label} is not a signed file", detail=f"{len(raw)} bytes")
    expected_hash = parse_hash(signed_hash.decode(), ObjectKind.FILE)
    hasher = new_hasher(expected_hash.algorithm)
    hasher.update(text + b"\n")
    if hasher.hexdigest() != expected_hash.digest:
        raise RepositoryUntrusted(f"{label} was altered", detail="its hash does not match its text")
    try:
        lines = tuple(text.decode().split("\n"))
    except UnicodeDecodeError as error:
        raise RepositoryUntrusted(f"{label} is not text", detail=str(error)) from error
    return SignedFile(raw=raw, lines=lines, signed_hash=signed_hash, signature=signature)


def parse_manifest(raw: bytes) -> Manifest:
    """Return a manifest.

    Raises:
        RepositoryUntrusted: If the file is not a valid manifest.
    """
    signed_file = parse_signed_file(raw, "manifest")
    fields = {line[:1]: line[1:] for line in signed_file.lines}
    if len(fields) != len(signed_file.lines):
        raise RepositoryUntrusted("manifest has a duplicate field")
    missing_keys = [key for key in "CNSX" if not fields.get(key)]
    if missing_keys:
        raise RepositoryUntrusted(
            "manifest is not complete", detail=f"no {', '.join(missing_keys)}"
        )
    return Manifest(
        signed_file=signed_file,
        name=fields["N"],
        revision=_number(fields["S"], "revision"),
        published_at=_number(fields.get("T", "0"), "time"),
        catalog=parse_hash(fields["C"], ObjectKind.CATALOG),
        certificate=parse_hash(fields["X"], ObjectKind.CERTIFICATE),
        history=parse_hash(fields["H"], ObjectKind.HISTORY) if "H" in fields else None,
        metainfo=parse_hash(fields["M"], ObjectKind.METAINFO) if "M" in fields else None,
        collectable=fields.get("G") == "yes",
    )


def parse_whitelist(raw: bytes) -> Whitelist:
    """Return a whitelist.

    Raises:
        RepositoryUntrusted: If the file is not a valid whitelist, or if the whitelist uses PKCS#7
            or a chain of CAs. Neither is supported.
    """
    signed_file = parse_signed_file(raw, "whitelist")
    # The lines are: time of the signature, "E" and the expiry, "N" and the name, the fingerprints.
    if (
        len(signed_file.lines) < 3
        or signed_file.lines[1][:1] != "E"
        or signed_file.lines[2][:1] != "N"
    ):
        raise RepositoryUntrusted(
            "whitelist is not complete", detail=f"{len(signed_file.lines)} lines"
        )
    issued, expires, name, *rest = signed_file.lines
    if {"Vpkcs7", "Wcachain"} & set(rest):
        raise RepositoryUntrusted(
            "cannot check this whitelist", detail="the PKCS#7 and CA chain forms are not supported"
        )
    return Whitelist(
        signed_file=signed_file,
        name=name[1:],
        issued_at=_timestamp(issued),
        expires_at=_timestamp(expires[1:]),
        fingerprints=_fingerprints(rest),
    )


def _fingerprints(lines: list[str]) -> frozenset[tuple[HashAlgorithm, str]]:
    fingerprints = set()
    for line in lines[:MAX_FINGERPRINTS]:
        match = _FINGERPRINT.fullmatch(line)
        if match is not None:
            fingerprints.add((HashAlgorithm(match[2]), match[1]))
    return frozenset(fingerprints)


def _number(text: str, field: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise RepositoryUntrusted(f"manifest's {field} is not a number", detail=repr(text[:80]))
    return int(text)


def _timestamp(text: str) -> int:
    try:
        if _TIMESTAMP.fullmatch(text):
            return int(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        pass
    raise RepositoryUntrusted("time in the whitelist is not valid", detail=repr(text[:80]))
