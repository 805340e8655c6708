# SPDX-License-Identifier: Apache-2.0
"""The outbox of a wallet, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gridstead.domain.calls import Call


class SendState(Enum):
    """Where a call is on its way to the chain."""

    QUEUED = "queued"  # stored, in no transaction yet
    SENT = "sent"  # in a signed transaction that is stored and was given to the node
    MINED = "mined"  # in a block that may still be reorganised away
    FINAL = "final"  # in a block with enough confirmations
    REJECTED = "rejected"  # the contract refused it, in simulation or in a final block


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A call that must be made.

    Attributes:
        id: Grows with every entry.
        key: What it is about; at most one open entry has it.
        call: The call.
        state: Where it is. Open means QUEUED, SENT or MINED.
        created_at: Unix seconds.
        reason: Why it was rejected; empty otherwise.
    """

    id: int
    key: str
    call: Call
    state: SendState
    created_at: int
    reason: str = ""
