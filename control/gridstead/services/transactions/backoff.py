# SPDX-License-Identifier: Apache-2.0
"""Delays calls that the node has refused.

Services put a refused call into the outbox again at once. After each refusal, the sender must send
an empty transaction to use the nonce of the refused transaction. The backoff limits this cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from gridstead.domain.transactions.calls import call_name, job_key_of
from gridstead.domain.transactions.outbox import OutboxEntry, SendState

FIRST_BACKOFF_S = 60
MAX_BACKOFF_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backoff:
    """How long a refused call waits before it is sent again.

    Attributes:
        until: End of the backoff, Unix seconds.
        length_s: Length of the backoff.
    """

    until: int
    length_s: int


class Backoffs:
    """The backoffs of refused calls. They are not stored: after a restart, no call is delayed."""

    def __init__(self) -> None:
        self._backoffs: dict[str, _Backoff] = {}

    def start(self, entry: OutboxEntry, now: int) -> None:
        """Start a backoff of an entry's call, which is twice as long as the call's last backoff.

        Args:
            entry: The refused entry.
            now: The current time, Unix seconds.
        """
        key = _key(entry)
        length_s = FIRST_BACKOFF_S
        if key in self._backoffs:
            length_s = min(2 * self._backoffs[key].length_s, MAX_BACKOFF_S)
        self._backoffs[key] = _Backoff(until=now + length_s, length_s=length_s)

    def without_delayed(self, entries: Iterable[OutboxEntry], now: int) -> tuple[OutboxEntry, ...]:
        """Return the entries, except queued ones whose calls back off.

        Args:
            entries: The open entries of the outbox.
            now: The current time, Unix seconds.
        """
        active_keys: set[str] = set()
        for key, backoff in list(self._backoffs.items()):
            # Setting the clock back must not extend a backoff.
            until = min(backoff.until, now + backoff.length_s)
            # An ended backoff is remembered for its own length, so that a further refusal in this
            # time doubles the length.
            if now >= until + backoff.length_s:
                del self._backoffs[key]
                continue
            self._backoffs[key] = replace(backoff, until=until)
            if now < until:
                active_keys.add(key)
        return tuple(entry for entry in entries if not _is_delayed(entry, active_keys))


def _is_delayed(entry: OutboxEntry, active_keys: Collection[str]) -> bool:
    return entry.state is SendState.QUEUED and _key(entry) in active_keys


def _key(entry: OutboxEntry) -> str:
    """Return the key under which a refused call backs off.

    A call about a job backs off under the key of its entry. Any other call backs off under its
    name, because the key of a claim contains the block and differs each time.
    """
    return entry.key if job_key_of(entry.call) else call_name(entry.call)
