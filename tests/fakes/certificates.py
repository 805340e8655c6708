# SPDX-License-Identifier: Apache-2.0
"""A certificate authority for tests, with a new key for each test run."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gridstead.rpc.tls import TlsFiles

_DAY = dt.timedelta(days=1)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@dataclass
class Authority:
    """A certificate authority that writes its certificates and keys to a folder."""

    folder: Path
    name: str = "ca"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        builder = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = self.folder / f"{self.name}.crt"
        self._write(self.certificate, builder)

    def issue(self, common_name: str, *hosts: str) -> TlsFiles:
        """Issue a certificate with this common name for localhost and ``hosts``."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names += map(x509.DNSName, ("localhost", *hosts))
        builder = self._builder(common_name, key).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        files = TlsFiles(
            certificate=self.folder / f"{common_name}.crt", key=self.folder / f"{common_name}.key"
        )
        self._write(files.certificate, builder)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _builder(
        self, common_name: str, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(common_name))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )

    def _write(self, path: Path, builder: x509.CertificateBuilder) -> None:
        path.write_bytes(
            builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
