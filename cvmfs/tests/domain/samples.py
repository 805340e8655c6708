# SPDX-License-Identifier: Apache-2.0
"""Hashes, signed files and manifests that several tests of the domain use."""

from __future__ import annotations

import hashlib

from gridstead_cvmfs.domain.signed_files import parse_manifest

ZERO = "0" * 40
INVALID_HASHES = [
    "../../../etc/passwd", "/etc/passwd", "..", "00/../../../x", "0" * 39, "0" * 41, "G" * 40,
    "0" * 39 + "\x00", "A" * 40, ZERO + "-md5", ZERO + "C", ZERO + "-rmd160-rmd160", " " + ZERO,
    "\u0660" * 40,
]  # fmt: skip
# Fields of a manifest: C root catalog, B its size, D lifetime in seconds, S revision, N name of the
# repository, X certificate, T time of publication, G whether old revisions may be removed.
MANIFEST = {
    "C": ZERO,
    "B": "1",
    "D": "240",
    "S": "7",
    "N": "a.b",
    "X": "1" * 40,
    "T": "9",
    "G": "yes",
}


def signed_file(*lines):
    """Return the bytes of a signed file with these lines, a correct hash and a fake signature."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return text + b"--\n" + hashlib.sha1(text).hexdigest().encode() + b"\nsignature\n--\n\x00"


def manifest(**fields):
    """Return a parsed manifest without the fields whose value is None."""
    values = MANIFEST | fields
    lines = (f"{key}{value}" for key, value in values.items() if value is not None)
    return parse_manifest(signed_file(*lines))
