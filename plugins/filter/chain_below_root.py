# SPDX-License-Identifier: Apache-2.0
"""Filter for the certificates that a service sends together with its own.

With them a client that trusts only the root can verify the certificate. Example:
``{{ lookup('ansible.builtin.file', 'ca.crt') | gridstead.site.chain_below_root }}`` is empty if
the authority is a root.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


def chain_below_root(pem: str) -> str:
    """Return the certificates of an authority and of those above it, without the root.

    The certificates are in PEM, in their order.
    """
    below = ""
    for certificate in x509.load_pem_x509_certificates(pem.encode()):
        is_root = certificate.issuer == certificate.subject
        if not is_root:
            below += certificate.public_bytes(Encoding.PEM).decode()
    return below


class FilterModule:
    """The entry point that Ansible expects."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"chain_below_root": chain_below_root}
