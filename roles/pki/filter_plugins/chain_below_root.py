# SPDX-License-Identifier: Apache-2.0
"""What a service shows with its certificate, so that whoever trusts the root alone believes it.

Example: ``{{ lookup('ansible.builtin.file', 'ca.crt') | chain_below_root }}`` is empty for an authority that is a root.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


def chain_below_root(pem: str) -> str:
    """Return the certificates, an authority's and those above it, without the root's: in PEM, in
    their order.
    """
    chain = x509.load_pem_x509_certificates(pem.encode())
    return "".join(
        one.public_bytes(Encoding.PEM).decode() for one in chain if one.issuer != one.subject
    )


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"chain_below_root": chain_below_root}
