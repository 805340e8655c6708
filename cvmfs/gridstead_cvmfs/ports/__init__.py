# SPDX-License-Identifier: Apache-2.0
"""The interfaces of the services to the outside world. Other packages import them from here.

A port documents guarantees. Its adapters give them.
"""

from __future__ import annotations

from gridstead_cvmfs.ports.client import Content, ContentCache, TreeCatalog
from gridstead_cvmfs.ports.replica import (
    Catalog,
    Databases,
    ObjectStore,
    ReplicaFiles,
    Signatures,
    SigningCertificate,
    Upstream,
)

__all__ = [
    "Catalog",
    "Content",
    "ContentCache",
    "Databases",
    "ObjectStore",
    "ReplicaFiles",
    "Signatures",
    "SigningCertificate",
    "TreeCatalog",
    "Upstream",
]
