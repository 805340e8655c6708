# SPDX-License-Identifier: Apache-2.0
"""Filter ``chain_below_root``: the intermediate certificates that a service sends with its own.

A client that trusts only the root needs the intermediates to verify the service. Example:
``{{ lookup('ansible.builtin.file', 'ca.crt') | gridstead.site.chain_below_root }}`` is empty if
the authority in ca.crt is a root.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


def chain_below_root(pem: str) -> str:
    """Return the certificates of a chain except the root. Their order does not change.

    Args:
        pem: The certificate of an authority, followed by those of the authorities above it.
    """
    intermediates = ""
    for certificate in x509.load_pem_x509_certificates(pem.encode()):
        is_root = certificate.issuer == certificate.subject
        if not is_root:
            intermediates += certificate.public_bytes(Encoding.PEM).decode()
    return intermediates


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"chain_below_root": chain_below_root}
