# SPDX-License-Identifier: Apache-2.0
"""Takes the output of jobs from whoever holds a job's write token, and gives it to the job's owner alone."""

from __future__ import annotations

from gridstead.domain.ids import is_address
from gridstead.domain.job_definition import Recover
from gridstead.domain.log_access import (
    check_key,
    is_fresh,
    is_log_name,
    is_write_token,
    read_text,
    watch_text,
)
from gridstead.errors import InvalidInput, NotAllowed
from gridstead.ports import Clock, LogSink

MAX_LINE_BYTES = 256 * 1024


class Logger:
    """The service; safe to call from many threads.

    Args:
        sink: Where logs lie.
        key: What write tokens are made with; shared with the Job Definition service.
        clock: Wall time.
        recover: Finds who signed.
    """

    def __init__(self, *, sink: LogSink, key: bytes, clock: Clock, recover: Recover) -> None:
        check_key(key)
        self._sink = sink
        self._key = key
        self._clock = clock
        self._recover = recover

    def authorize_write(self, token: str, owner: str, log_name: str) -> None:
        """Return if the token lets its holder write this log.

        Raises:
            InvalidInput: The owner or the name is malformed.
            NotAllowed: It is not the log's token.
        """
        _check_names(owner, log_name)
        if not is_write_token(self._key, token, owner, log_name):
            raise NotAllowed("cannot write this log", detail="the token is not the one of this log")

    def write(self, owner: str, log_name: str, data: bytes, timestamp_ns: int) -> None:
        """Store what one message holds, line by line. The caller has authorized the log before.

        Raises:
            LogFull: The log has reached its limit.
        """
        lines = (line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n"))
        self._sink.append(owner, log_name, [part for line in lines for part in _parts(line)], timestamp_ns)

    def finish(self, owner: str, log_name: str) -> None:
        """Make durable what was written."""
        self._sink.sync(owner, log_name)

    def authorize_read(self, address: str, log_name: str, timestamp: int, signature: bytes) -> tuple[str, str]:
        """Return (owner, log name) of the log that a signed request may read.

        Raises:
            InvalidInput: The address or the name is malformed.
            NotAllowed: The signature is not the owner's over this request, or is too old.
        """
        owner = address.lower()
        _check_names(owner, log_name)
        self._check_signature(owner, read_text(owner, log_name, timestamp), timestamp, signature)
        return owner, log_name

    def authorize_watch(self, address: str, timestamp: int, signature: bytes) -> str:
        """Return the owner whose logs a signed request may list.

        Raises:
            InvalidInput: The address is malformed.
            NotAllowed: The signature is not the owner's over this request, or is too old.
        """
        owner = address.lower()
        _check_names(owner, "none")
        self._check_signature(owner, watch_text(owner, timestamp), timestamp, signature)
        return owner

    def read(self, owner: str, log_name: str, after: int) -> tuple[tuple[int, bytes, int], ...]:
        """Return (position, line, timestamp ns) after that position; empty when there is no more yet."""
        return self._sink.read(owner, log_name, after=after)

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of the owner's logs, sorted."""
        return self._sink.names(owner)

    def _check_signature(self, owner: str, text: str, timestamp: int, signature: bytes) -> None:
        if not is_fresh(timestamp, now=self._clock.now()):
            raise NotAllowed("the signature is not of the last minutes", hint="Check the clock, then sign again.")
        try:
            signer = self._recover(text.encode(), signature)
        except InvalidInput as err:
            raise NotAllowed("cannot tell who signed the request", detail=str(err)) from err
        if signer != owner:
            raise NotAllowed("the request is not signed by the owner of the log")


def _parts(line: bytes) -> list[bytes]:
    """Cut a line that is too long to be kept as one."""
    return [line[start : start + MAX_LINE_BYTES] for start in range(0, max(len(line), 1), MAX_LINE_BYTES)]


def _check_names(owner: str, log_name: str) -> None:
    if not is_address(owner):
        raise InvalidInput(f"invalid owner {owner[:80]!r}", hint="An owner is a wallet address.")
    if not is_log_name(log_name):
        raise InvalidInput(f"invalid log name {log_name[:80]!r}", hint="A log has the name of its Slurm job.")
