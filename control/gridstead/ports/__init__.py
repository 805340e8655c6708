# SPDX-License-Identifier: Apache-2.0
"""What services need of the outside world, in their own words.

A port tells guarantees; adapters keep them, and one contract test per port holds fake and real to
them. Every method may raise the Transient error of its system; then nothing is known of the effect
unless said otherwise.

One module per room of the outside world; importers take all of them from here.
"""

from __future__ import annotations

from gridstead.ports.agent import Accounts, CompletionSpool, ReportSeal, ReportStore, Slurm
from gridstead.ports.chain import Account, Ledger
from gridstead.ports.clock import Clock
from gridstead.ports.cluster import Reports, Scheduler
from gridstead.ports.cvmfs import (
    Catalog,
    Databases,
    ObjectStore,
    ReplicaFiles,
    Signatures,
    SigningCertificate,
    Upstream,
)
from gridstead.ports.cvmfs_client import Content, ContentCache, TreeCatalog
from gridstead.ports.journal import Cursor, Journal, Outbox, Transactions
from gridstead.ports.logs import LogSink
from gridstead.ports.scripts import Modules, ScriptSource, ScriptStore, TakenNonces
from gridstead.ports.users import Directory, UserDirectories

__all__ = [
    "Account",
    "Accounts",
    "Catalog",
    "Clock",
    "CompletionSpool",
    "Content",
    "ContentCache",
    "Cursor",
    "Databases",
    "Directory",
    "Journal",
    "Ledger",
    "LogSink",
    "Modules",
    "ObjectStore",
    "Outbox",
    "ReplicaFiles",
    "ReportSeal",
    "ReportStore",
    "Reports",
    "Scheduler",
    "ScriptSource",
    "ScriptStore",
    "Signatures",
    "SigningCertificate",
    "Slurm",
    "TakenNonces",
    "Transactions",
    "TreeCatalog",
    "Upstream",
    "UserDirectories",
]
