# SPDX-License-Identifier: Apache-2.0
"""The two signed letters of a repository: the manifest names all content, the whitelist names
signers.

A letter is lines of text, a line `--`, the hash of the text, and a signature of that hash in raw
bytes. What is parsed here is not yet believed: trust.py says what must hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gridstead.domain.cvmfs.objects import Algorithm, ObjectKind, ObjectName, new_hasher, parse_hash
from gridstead.errors import RepositoryUntrusted

MANIFEST = ".cvmfspublished"
WHITELIST = ".cvmfswhitelist"
MAX_SIGNED_FILE_BYTES = 256 * 1024
MAX_FINGERPRINTS = 1000

_END = b"\n--\n"
_HASH_LINE = re.compile(rb"[0-9a-f]{40}(?:-rmd160|-shake128)?")
_NUMBER = re.compile(r"[0-9]{1,18}")
_STAMP = re.compile(r"[0-9]{14}")
_FINGERPRINT = re.compile(r"((?:[0-9A-F]{2}:){19}[0-9A-F]{2})(|-rmd160|-shake128)(?:[ \t#].*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFile:
    """A letter whose hash is right.

    Attributes:
        raw: All of it, as it is served.
        lines: The text.
        signed: What the signature is of: the hash, as text.
        signature: Raw bytes.
    """

    raw: bytes
    lines: tuple[str, ...]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One revision of a repository.

    Attributes:
        letter: Where it stands.
        name: Of the repository.
        revision: Counts up.
        published_at: Unix seconds; 0 when it does not say.
        catalog: The root of all content.
        certificate: Of its signer.
        history: Names of revisions that stay readable; None when there are none.
        metainfo: What its publisher says of the repository; None for nothing.
        collectable: Whether its publisher lets go of old revisions.
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
    """Who may sign manifests.

    Attributes:
        letter: Where it stands.
        name: Of the repository.
        issued_at: Unix seconds.
        expires_at: Unix seconds.
        fingerprints: Of certificates: algorithm, and bytes in hexadecimal, colons between.
    """

    signed_file: SignedFile
    name: str
    issued_at: int
    expires_at: int
    fingerprints: frozenset[tuple[Algorithm, str]]


def parse_signed_file(raw: bytes, what: str) -> SignedFile:
    """Return a letter.

    Raises:
        RepositoryUntrusted: It has no signature, or its hash is not of its text.
    """
    text, end, rest = raw.partition(_END)
    signed, newline, signature = rest.partition(b"\n")
    if not (end and newline and signature and _HASH_LINE.fullmatch(signed)):
        raise RepositoryUntrusted(f"{what} is not a signed letter", detail=f"{len(raw)} bytes")
    named = parse_hash(signed.decode(), ObjectKind.FILE)
    hasher = new_hasher(named.algorithm)
    hasher.update(text + b"\n")
    if hasher.hexdigest() != named.digest:
        raise RepositoryUntrusted(f"{what} was altered", detail="its hash is not of its text")
    try:
        lines = tuple(text.decode().split("\n"))
    except UnicodeDecodeError as error:
        raise RepositoryUntrusted(f"{what} is not text", detail=str(error)) from error
    return SignedFile(raw=raw, lines=lines, signed=signed, signature=signature)


def parse_manifest(raw: bytes) -> Manifest:
    """Return a manifest.

    Raises:
        RepositoryUntrusted: It is none.
    """
    signed_file = parse_signed_file(raw, "manifest")
    fields = {line[:1]: line[1:] for line in signed_file.lines}
    if len(fields) != len(signed_file.lines):
        raise RepositoryUntrusted("manifest says one thing twice")
    missing = [key for key in "CNSX" if not fields.get(key)]
    if missing:
        raise RepositoryUntrusted("manifest is not complete", detail=f"no {', '.join(missing)}")
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
        RepositoryUntrusted: It is none, or wants what we do not do: PKCS#7 or a chain of CAs.
    """
    signed_file = parse_signed_file(raw, "whitelist")
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
            "cannot check this whitelist", detail="it is of the PKCS#7 or CA chain form"
        )
    found = [match for line in rest[:MAX_FINGERPRINTS] if (match := _FINGERPRINT.fullmatch(line))]
    return Whitelist(
        signed_file=signed_file,
        name=name[1:],
        issued_at=_stamp(issued),
        expires_at=_stamp(expires[1:]),
        fingerprints=frozenset((Algorithm(match[2]), match[1]) for match in found),
    )


def _number(text: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise RepositoryUntrusted(f"manifest's {what} is not a number", detail=repr(text[:80]))
    return int(text)


def _stamp(text: str) -> int:
    try:
        if _STAMP.fullmatch(text):
            return int(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        pass
    raise RepositoryUntrusted("whitelist's time is none", detail=repr(text[:80]))
