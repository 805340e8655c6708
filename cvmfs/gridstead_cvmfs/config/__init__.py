# SPDX-License-Identifier: Apache-2.0
"""The settings of the replicas and of the client. Other packages import everything from here."""

from __future__ import annotations

from gridstead_cvmfs.config.client import CvmfsClientSettings, MountedRepository
from gridstead_cvmfs.config.replica import (
    CvmfsSettings,
    FetchSettings,
    NamedRepository,
    Repository,
)

__all__ = [
    "CvmfsClientSettings",
    "CvmfsSettings",
    "FetchSettings",
    "MountedRepository",
    "NamedRepository",
    "Repository",
]
