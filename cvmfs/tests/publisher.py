# SPDX-License-Identifier: Apache-2.0
"""A publisher that writes real signed CVMFS repositories in the format of a Stratum 0.

A *tree* describes the files of a revision. A tree is a dictionary from names to bytes (a file),
dictionaries (directories) or instances of the classes below. A *catalog* is the database that lists
the files of a directory. An *object* is a stored file, named by the hash of its content. The last
character of an object's path is the kind of the object: C for a catalog, H for a history of tags, M
for metainfo, P for a piece of a large file, X for a certificate. The path of a small file ends with
the hash, without a kind.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
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

NAME = "software.example.org"
NOW = 1_800_000_000
DAY_S = 86_400
CHUNK_BYTES = 16 * 1024

# Flags of a row in a catalog. TRANSITION: the content of the directory is in a nested catalog.
DIRECTORY, TRANSITION, FILE, LINK, NESTED_ROOT, CHUNKED = 1, 2, 4, 8, 32, 64
PLAIN = 1 << 11  # not compressed

SCHEMA = """
CREATE TABLE catalog (md5path_1 INTEGER, md5path_2 INTEGER, parent_1 INTEGER, parent_2 INTEGER,
    hardlinks INTEGER, hash BLOB, size INTEGER, mode INTEGER, mtime INTEGER, flags INTEGER,
    name TEXT, symlink TEXT, uid INTEGER, gid INTEGER, xattr BLOB,
    CONSTRAINT pk_catalog PRIMARY KEY (md5path_1, md5path_2));
CREATE INDEX idx_catalog_parent ON catalog (parent_1, parent_2);
CREATE TABLE chunks (md5path_1 INTEGER, md5path_2 INTEGER, offset INTEGER, size INTEGER, hash BLOB,
    CONSTRAINT pk_chunks PRIMARY KEY (md5path_1, md5path_2, offset, size));
CREATE TABLE nested_catalogs (path TEXT, sha1 TEXT, size INTEGER,
    CONSTRAINT pk_nested PRIMARY KEY (path));
CREATE TABLE bind_mountpoints (path TEXT, sha1 TEXT, size INTEGER,
    CONSTRAINT pk_bind PRIMARY KEY (path));
CREATE TABLE statistics (counter TEXT, value INTEGER,
    CONSTRAINT pk_statistics PRIMARY KEY (counter));
CREATE TABLE properties (key TEXT, value TEXT, CONSTRAINT pk_properties PRIMARY KEY (key));
INSERT INTO properties VALUES ('schema', '2.5'), ('schema_revision', '7');
"""


@dataclass(frozen=True)
class Symlink:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Chunks:
    """A file that is stored in several pieces."""

    content: bytes


@dataclass(frozen=True)
class Plain:
    """A file that is stored without compression."""

    content: bytes


@dataclass(frozen=True)
class Mode:
    """A file or directory with permissions and an owner."""

    node: Any
    mode: int
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class HardLink:
    """One of the ``count`` names of a file. All names with the same ``group`` are the same file."""

    content: bytes
    group: int
    count: int


@dataclass(frozen=True)
class WithAttributes:
    """A file with extended attributes."""

    content: bytes
    attributes: bytes = b"\x01\x01\x09\x03user.licensefree"


@dataclass(frozen=True)
class Nested:
    """A directory with its own catalog."""

    tree: Mapping[str, Any]


TREE: Mapping[str, Any] = {
    "README": b"what this is\n",
    "empty": b"",
    "bin": {
        "tool": b"\x7fELF" * 400,
        "alias": Symlink("tool"),
        "marked": WithAttributes(b"marked\n"),
    },
    "data": {
        "large": Chunks(bytes(range(256)) * 200),
        "one": HardLink(b"same\n", 1, 2),
        "two": HardLink(b"same\n", 1, 2),
    },
    "v1": Nested(
        {
            "lib": {"libm.so": b"m" * 5000},
            "deep": Nested({"er": b"deeper\n", "est": Nested({"x": b"deepest\n"})}),
        }
    ),
}


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
        self.catalog = self._catalog(tree, "")
        if tag:
            self.tags[tag] = self.catalog
        self.write_manifest()
        self.write_whitelist()
        return self.catalog

    def write_whitelist(
        self, *, name: str = "", issued: int = NOW, days: int = 30, extra: str = ""
    ) -> None:
        """Write a signed whitelist."""
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
            values["H"] = self._history()
        text = "".join(f"{key}{value}\n" for key, value in (values | fields).items()).encode()
        digest = self.hash(text).encode()
        signature = self.signer.sign(digest, padding.PKCS1v15(), hashes.SHA1())
        (self.root / ".cvmfspublished").write_bytes(text + b"--\n" + digest + b"\n" + signature)

    def store(self, content: bytes, kind: str = "", *, plain: bool = False) -> str:
        """Store an object, compressed unless ``plain`` is set, and return its hash."""
        packed = content if plain else zlib.compress(content)
        digest = self.hash(packed)
        path = self.path(digest, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed)
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

    def _catalog(self, tree: Mapping[str, Any], prefix: str) -> str:
        """Store the catalog and the files of directory ``prefix``. Return the catalog's hash."""
        database = sqlite3.connect(":memory:")
        database.executescript(SCHEMA)
        values = (("revision", str(self.revision)), ("root_prefix", prefix))
        database.executemany("INSERT INTO properties VALUES (?, ?)", values)
        flags = DIRECTORY | (NESTED_ROOT if prefix else 0)
        self._row(database, prefix, flags, mode=0o40755, links=_links(tree))
        self._fill(database, tree, prefix)
        database.commit()
        raw = database.serialize()
        database.close()
        return self.store(raw, "C")

    def _fill(self, database: sqlite3.Connection, tree: Mapping[str, Any], folder: str) -> None:
        """Store the files of a directory and add their rows to a catalog."""
        for name, node in tree.items():
            path = f"{folder}/{name}"
            match node:
                case Mode():
                    self._fill(database, {name: node.node}, folder)
                    self._change_mode(database, path, node)
                case Symlink():
                    self._row(database, path, FILE | LINK, mode=0o120777, symlink=node.target)
                case Nested():
                    self._nested(database, path, node.tree)
                case Mapping():
                    self._row(database, path, DIRECTORY, mode=0o40755, links=_links(node))
                    self._fill(database, node, path)
                case _:
                    self._any_file(database, path, node)

    def _any_file(self, database, path: str, node: Any) -> None:
        """Store a file, described by any of the classes above, and add its row to the catalog."""
        match node:
            case bytes():
                self._file(database, path, node)
            case WithAttributes():
                self._file(database, path, node.content, xattr=node.attributes)
            case HardLink():
                # Column hardlinks: the upper 32 bits are the group, the lower 32 bits the count.
                self._file(database, path, node.content, links=node.group << 32 | node.count)
            case Chunks():
                self._chunks(database, path, node.content)
            case Plain():
                digest = bytes.fromhex(self.store(node.content, plain=True)[:40])
                size = len(node.content)
                self._row(database, path, FILE | PLAIN, mode=0o100644, size=size, digest=digest)
            case _:
                raise TypeError(f"{path}: {node!r} is not a node of a tree")

    def _change_mode(self, database, path: str, node: Mode) -> None:
        # The lowest 12 bits of a mode are the permissions, the others are the file type.
        values = (node.mode, node.uid, node.gid, *_md5(path))
        database.execute(
            "UPDATE catalog SET mode = mode & ~4095 | ?, uid = ?, gid = ?"
            " WHERE md5path_1 = ? AND md5path_2 = ?",
            values,
        )

    def _nested(self, database, path: str, tree: Mapping[str, Any]) -> None:
        digest = self._catalog(tree, path)
        size = self.path(digest, "C").stat().st_size
        row = (path, digest, size)
        database.execute("INSERT INTO nested_catalogs VALUES (?, ?, ?)", row)
        flags = DIRECTORY | TRANSITION
        self._row(database, path, flags, mode=0o40755, links=_links(tree))

    def _file(
        self, database, path: str, content: bytes, *, links: int = 1, xattr: bytes | None = None
    ) -> None:
        digest = bytes.fromhex(self.store(content)[:40])
        self._row(
            database,
            path,
            FILE,
            mode=0o100644,
            size=len(content),
            digest=digest,
            links=links,
            xattr=xattr,
        )

    def _chunks(self, database, path: str, content: bytes) -> None:
        self._row(database, path, FILE | CHUNKED, mode=0o100644, size=len(content))
        for offset in range(0, len(content), CHUNK_BYTES):
            piece = content[offset : offset + CHUNK_BYTES]
            digest = bytes.fromhex(self.store(piece, "P")[:40])
            row = (*_md5(path), offset, len(piece), digest)
            database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", row)

    def _row(
        self,
        database,
        path,
        flags,
        *,
        mode,
        size=4096,
        links=1,
        symlink="",
        digest=None,
        xattr=None,
    ):
        # Bits 8 to 10 of the flags are the hash algorithm.
        algorithm = ("", "-rmd160", "-shake128").index(self.suffix) << 8
        parent = _md5(path.rpartition("/")[0]) if path else (0, 0)
        name = path.rpartition("/")[2]
        row = (
            *_md5(path),
            *parent,
            links,
            digest,
            size,
            mode,
            NOW,
            flags | algorithm,
            name,
            symlink,
            0,
            0,
            xattr,
        )
        database.execute(f"INSERT INTO catalog VALUES ({', '.join('?' * len(row))})", row)

    def _history(self) -> str:
        database = sqlite3.connect(":memory:")
        database.executescript(
            "CREATE TABLE tags (name TEXT PRIMARY KEY, hash TEXT, revision INTEGER,"
            " timestamp INTEGER, channel INTEGER, description TEXT, size INTEGER, branch TEXT);"
            "CREATE TABLE properties (key TEXT PRIMARY KEY, value TEXT);"
        )
        rows = [(tag, digest, 1, NOW, 0, "", 0, "") for tag, digest in self.tags.items()]
        database.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        database.commit()
        raw = database.serialize()
        database.close()
        return self.store(raw, "H")


def sign_bare(key: rsa.RSAPrivateKey, text: bytes) -> bytes:
    """Return an RSA signature of the text itself, not of a hash of the text.

    The padding is PKCS#1 type 1, without the identifier of a hash algorithm.
    """
    numbers = key.private_numbers()
    length = key.key_size // 8
    padded_text = b"\x00\x01" + b"\xff" * (length - 3 - len(text)) + b"\x00" + text
    return pow(int.from_bytes(padded_text), numbers.d, numbers.public_numbers.n).to_bytes(length)


def _links(tree: Mapping[str, Any]) -> int:
    return 2 + sum(isinstance(node, (Mapping, Nested)) for node in tree.values())


def _md5(path: str) -> tuple[int, int]:
    first, second = struct.unpack("<qq", hashlib.md5(path.encode()).digest())
    return first, second


def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")
