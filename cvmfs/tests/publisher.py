# SPDX-License-Identifier: Apache-2.0
"""A publisher that writes real signed CVMFS repositories in the format of a Stratum 0.

A *tree* (trees.py) describes the files of a revision. A *catalog* (databases.py) is the database
that lists the files of a directory. An *object* is a stored file, named by the hash of its content.
The last character of an object's path is the kind of the object: C for a catalog, H for a history
of tags, M for metainfo, P for a piece of a large file, X for a certificate. The path of a small
file ends with the hash, without a kind.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID
from cvmfs.tests.databases import NOW, store_catalog, store_history
from cvmfs.tests.trees import TREE

NAME = "software.example.org"
DAY_S = 86_400


def new_key() -> rsa.RSAPrivateKey:
    """Return a new RSA key. The key is small, because a large key takes long to create."""
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)


@dataclass
class Publisher:
    """A Stratum 0 in a folder.

    Attributes:
        root: The folder that a web server serves.
        name: The name of the repository.
        suffix: The suffix of the hash algorithm: empty, ``-rmd160`` or ``-shake128``.
        collectable: Whether the manifest allows the removal of old revisions.
        master: The key that signs whitelists.
        signer: The key that signs manifests.
        revision: The number of the newest revision.
        catalog: The hash of the newest root catalog.
        tags: The hashes of the root catalogs of tagged revisions, by tag.
    """

    root: Path
    name: str = NAME
    suffix: str = ""
    collectable: bool = True
    master: rsa.RSAPrivateKey = field(default_factory=new_key)
    signer: rsa.RSAPrivateKey = field(default_factory=new_key)
    revision: int = 0
    catalog: str = ""
    tags: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / ".cvmfs_master_replica").touch()
        self.pem, self.der = self._certificate()  # the certificate of the signer

    def public_key(self, file: Path) -> Path:
        """Write the public master key to a file and return the file."""
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        file.write_bytes(self.master.public_key().public_bytes(serialization.Encoding.PEM, spki))
        return file

    def publish(self, tree: Mapping[str, Any] = TREE, *, tag: str = "") -> str:
        """Publish a revision and return the hash of its root catalog."""
        self.revision += 1
        self.catalog = store_catalog(self, tree)
        if tag:
            self.tags[tag] = self.catalog
        self.write_manifest()
        self.write_whitelist()
        return self.catalog

    def write_whitelist(
        self, *, name: str = "", issued: int = NOW, days: int = 30, extra: str = ""
    ) -> None:
        """Write a signed whitelist that is valid for some days after the time ``issued``.

        The lines ``extra`` are inserted before the line with the fingerprint of the signer.
        """
        issued_at, expires_at = _timestamp(issued), _timestamp(issued + days * DAY_S)
        lines = f"{issued_at}\nE{expires_at}\nN{name or self.name}\n{extra}"
        fingerprint = bytes.fromhex(self.digest(self.der)).hex(":").upper() + self.suffix
        text = f"{lines}{fingerprint} # a signer\n".encode()
        digest = self.hash(text).encode()
        signature = sign_bare(self.master, digest)
        (self.root / ".cvmfswhitelist").write_bytes(text + b"--\n" + digest + b"\n" + signature)

    def signed_files(self) -> dict[str, bytes]:
        """Return the contents of the manifest and the whitelist by file name."""
        names = (".cvmfspublished", ".cvmfswhitelist")
        return {name: (self.root / name).read_bytes() for name in names}

    def write_manifest(self, **fields: str) -> None:
        """Write a signed manifest. Each keyword argument replaces the field with the same name."""
        values = {
            "C": self.catalog,
            "B": "1000",  # size of the catalog
            "R": hashlib.md5(b"").hexdigest(),  # hash of the path of the root directory
            "D": "240",  # lifetime in seconds
            "S": str(self.revision),
            "G": "yes" if self.collectable else "no",
            "N": self.name,
            "X": self.store(self.pem, "X"),
            "T": str(NOW + self.revision),  # time of publication
            "M": self.store(b'{"administrator": "nobody"}', "M"),
        }
        if self.tags:
            values["H"] = store_history(self)
        text = "".join(f"{key}{value}\n" for key, value in (values | fields).items()).encode()
        digest = self.hash(text).encode()
        signature = self.signer.sign(digest, padding.PKCS1v15(), hashes.SHA1())
        (self.root / ".cvmfspublished").write_bytes(text + b"--\n" + digest + b"\n" + signature)

    def store(self, content: bytes, kind: str = "", *, plain: bool = False) -> str:
        """Store an object, compressed unless ``plain`` is set, and return its hash."""
        compressed_content = content if plain else zlib.compress(content)
        digest = self.hash(compressed_content)
        path = self.path(digest, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compressed_content)
        return digest

    def path(self, digest: str, kind: str = "") -> Path:
        """Return the path of an object."""
        return self.root / "data" / digest[:2] / (digest[2:] + kind)

    def objects(self) -> set[str]:
        """Return the paths of all objects, relative to the repository."""
        return {
            str(path.relative_to(self.root))
            for path in (self.root / "data").glob("*/*")
            if path.is_file()
        }

    def hash(self, content: bytes) -> str:
        """Return the hash of content as text, with the suffix of the algorithm."""
        return self.digest(content) + self.suffix

    def digest(self, content: bytes) -> str:
        """Return the hash of content as text, without the suffix of the algorithm."""
        match self.suffix:
            case "":
                return hashlib.sha1(content).hexdigest()
            case "-rmd160":
                return hashlib.new("ripemd160", content).hexdigest()
        return hashlib.shake_128(content).hexdigest(20)

    def _certificate(self) -> tuple[bytes, bytes]:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        start = datetime.fromtimestamp(NOW, UTC) - timedelta(days=1)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
        builder = builder.public_key(self.signer.public_key()).serial_number(
            x509.random_serial_number()
        )
        builder = builder.not_valid_before(start).not_valid_after(start + timedelta(days=365))
        certificate = builder.sign(self.signer, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return pem, certificate.public_bytes(serialization.Encoding.DER)


def sign_bare(key: rsa.RSAPrivateKey, text: bytes) -> bytes:
    """Return an RSA signature of the text itself, not of a hash of the text.

    The padding is PKCS#1 type 1, without the identifier of a hash algorithm.
    """
    numbers = key.private_numbers()
    length = key.key_size // 8
    padded_text = b"\x00\x01" + b"\xff" * (length - 3 - len(text)) + b"\x00" + text
    return pow(int.from_bytes(padded_text), numbers.d, numbers.public_numbers.n).to_bytes(length)


def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")
