# SPDX-License-Identifier: Apache-2.0
"""The interfaces between the services and the adapters. Other packages import them from here.

A port documents guarantees, and its adapters implement them.
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
