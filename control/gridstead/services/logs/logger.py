# SPDX-License-Identifier: Apache-2.0
"""The logger service, which stores the output of jobs and returns it to the jobs' owners.

A writer needs the job's write token. A reader needs the owner's signature. Several logs of an owner
can have the same name. The log identity distinguishes these logs.
"""

from __future__ import annotations

import structlog

from gridstead.domain.definitions.job_definition import Recover
from gridstead.domain.jobs.ids import is_address
from gridstead.domain.logs.access import (
    WritePermit,
    check_key_length,
    is_fresh,
    parse_token,
    read_request_text,
    watch_request_text,
)
from gridstead.domain.logs.log import Chunk, LogId, StoredChunk, is_log_identity, is_log_name
from gridstead.errors import InvalidInput, NotAllowed
from gridstead.ports import Clock, LogStore

log = structlog.get_logger()


class Logger:
    """The logger service. Its methods may be called from many threads.

    Args:
        store: The store of the logs.
        key: The key that signs write tokens. The Job Definition service has the same key.
        clock: Wall time.
        recover: Returns the address that signed a message.
    """

    def __init__(self, *, store: LogStore, key: bytes, clock: Clock, recover: Recover) -> None:
        check_key_length(key)
        self._store = store
        self._key = key
        self._clock = clock
        self._recover = recover

    def authorize_write(self, token: str, owner: str, log_name: str) -> WritePermit:
        """Return the permit that a token grants for this log.

        Raises:
            InvalidInput: If the owner or the name is malformed.
            NotAllowed: If the token is not valid for this log, or has expired.
        """
        _check_names(owner, log_name)
        permit = parse_token(self._key, token, owner=owner, log_name=log_name)
        if permit is None:
            raise NotAllowed("cannot write this log", detail="the token is not valid for this log")
        self._check_time(permit)
        return permit

    def write(self, permit: WritePermit, chunk: Chunk) -> None:
        """Store one chunk of output.

        Raises:
            NotAllowed: If the permit has expired.
            LogFull: If the log has reached its size limit.
        """
        self._check_time(permit)
        self._store.append(permit.log, chunk)

    def finish(self, permit: WritePermit) -> None:
        """Make the written output durable."""
        self._store.sync(permit.log)

    def authorize_read(
        self, address: str, log_name: str, timestamp: int, signature: bytes
    ) -> tuple[str, str]:
        """Return (owner, log name) of the log that a signed request may read.

        Raises:
            InvalidInput: If the address or the name is malformed.
            NotAllowed: If the owner did not sign this request, or the signature is too old.
        """
        owner = address.lower()
        _check_names(owner, log_name)
        self._check_signature(
            owner, read_request_text(owner, log_name, timestamp), timestamp, signature
        )
        return owner, log_name

    def authorize_watch(self, address: str, timestamp: int, signature: bytes) -> str:
        """Return the owner whose list of logs a signed request may watch.

        Raises:
            InvalidInput: If the address is malformed.
            NotAllowed: If the owner did not sign this request, or the signature is too old.
        """
        owner = address.lower()
        _check_owner(owner)
        self._check_signature(owner, watch_request_text(owner, timestamp), timestamp, signature)
        return owner

    def find(self, owner: str, log_name: str, log_identity: str) -> LogId | None:
        """Return the id of the owner's log with this name and identity. The log may not exist.

        If the identity is empty, return the id of the newest log with this name, or None if there
        is no such log.

        Raises:
            InvalidInput: If the log identity is malformed.
        """
        if not log_identity:
            return self._store.newest(owner, log_name)
        if not is_log_identity(log_identity):
            raise InvalidInput(
                f"invalid log identity {log_identity[:80]!r}",
                hint="A log identity is 32 hexadecimal digits.",
            )
        return LogId(owner=owner, name=log_name, log_identity=log_identity)

    def read(self, log_id: LogId, after: int) -> tuple[StoredChunk, ...]:
        """Return the chunks after a position. Empty if the log has no later chunks yet."""
        return self._store.read(log_id, after=after)

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of the owner's logs, sorted."""
        return self._store.names(owner)

    def sweep(self) -> None:
        """Delete logs that are too old or exceed the space limit."""
        removed_count = self._store.sweep(self._clock.now())
        if removed_count:
            log.info("logs_removed", count=removed_count)

    def _check_time(self, permit: WritePermit) -> None:
        if self._clock.now() > permit.expires_at:
            raise NotAllowed("cannot write this log", detail="the token has expired")

    def _check_signature(self, owner: str, text: str, timestamp: int, signature: bytes) -> None:
        if not is_fresh(timestamp, now=self._clock.now()):
            raise NotAllowed(
                "the signature is too old or in the future",
                hint="Check the clock, then sign again.",
            )
        try:
            signer = self._recover(text.encode(), signature)
        except InvalidInput as err:
            raise NotAllowed("invalid signature of the request", detail=str(err)) from err
        if signer != owner:
            raise NotAllowed("the request was not signed by the owner of the log")


def _check_owner(owner: str) -> None:
    if not is_address(owner):
        raise InvalidInput(f"invalid owner {owner[:80]!r}", hint="The owner is a wallet address.")


def _check_names(owner: str, log_name: str) -> None:
    _check_owner(owner)
    if not is_log_name(log_name):
        raise InvalidInput(
            f"invalid log name {log_name[:80]!r}", hint="The log name is the name of the Slurm job."
        )
