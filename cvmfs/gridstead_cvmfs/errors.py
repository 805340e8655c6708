# SPDX-License-Identifier: Apache-2.0
"""The errors of CVMFS. Their base classes determine the exit code and who must act."""

from __future__ import annotations

from gridstead.errors import Rejected, Transient


class RepositoryUntrusted(Rejected):
    """Data from a CVMFS server does not match the signature or the hash, and is discarded."""

    code = "repository-untrusted"


class RepositoryIncomplete(Rejected):
    """A CVMFS server does not have an object that its repository references.

    The publisher of the repository or the operator of the replica must act.
    """

    code = "repository-incomplete"


class RepositoryUnavailable(Transient):
    """A CVMFS server did not answer in time, or its answer was incomplete."""

    code = "repository-unavailable"


class ReplicaBusy(Transient):
    """Another process has locked the replica, the local copy of a CVMFS repository."""

    code = "replica-busy"


class StorageFull(Transient):
    """The disk is full. The operation continues after the operator has freed some space."""

    code = "storage-full"
