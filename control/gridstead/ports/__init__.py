# SPDX-License-Identifier: Apache-2.0
"""The interfaces of the services to the outside world.

A port documents guarantees. Its adapters and its fake fulfil them, and the same tests check both.
Every method may raise the Transient error of its system. After such an error it is not known
whether the operation took effect, unless the method documents it.

Each module has the ports of one part of the outside world. Other packages import the ports from
here, except the ports of ``site.py`` and ``benchmarks.py``.
"""

from __future__ import annotations

from gridstead.ports.chain import Account, AccountState, Chain, Ledger
from gridstead.ports.clock import Clock
from gridstead.ports.definitions import Modules, ScriptSource, ScriptStore, UsedNonces
from gridstead.ports.logs import LogStore
from gridstead.ports.slurm import (
    Accounting,
    Accounts,
    CompletionSpool,
    MungeOpener,
    Reports,
    ReportStore,
    Scheduler,
    Slurm,
)
from gridstead.ports.store import (
    Cursor,
    DecisionStore,
    Journal,
    Outbox,
    SnapshotStore,
    Transactions,
)
from gridstead.ports.users import Directory, UserDirectories

__all__ = [
    "Account",
    "AccountState",
    "Accounting",
    "Accounts",
    "Chain",
    "Clock",
    "CompletionSpool",
    "Cursor",
    "DecisionStore",
    "Directory",
    "Journal",
    "Ledger",
    "LogStore",
    "Modules",
    "MungeOpener",
    "Outbox",
    "ReportStore",
    "Reports",
    "Scheduler",
    "ScriptSource",
    "ScriptStore",
    "Slurm",
    "SnapshotStore",
    "Transactions",
    "UsedNonces",
    "UserDirectories",
]
