# SPDX-License-Identifier: Apache-2.0
"""Decodes MUNGE credentials of other hosts of the cluster, with libmunge."""

from __future__ import annotations

import ctypes

from gridstead.domain.slurm.hint import MungeCredential
from gridstead.errors import ConfigError, NotAllowed, SchedulerUnavailable

_LIBRARY = "libmunge.so.2"
# Constants of munge.h.
_SUCCESS = 0
_SOCKET_ERROR = 6
_OPTION_TTL = 4
_CREDENTIAL_MAX_BYTES = 4096


class Munge:
    """Implements port ``MungeOpener``. The class is thread-safe.

    Raises:
        ConfigError: If libmunge is not installed.
    """

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL(_LIBRARY)
            self._free = ctypes.CDLL(None).free
        except OSError as err:
            raise ConfigError(
                "could not load MUNGE", detail=str(err), hint="Install libmunge2."
            ) from err
        self._free.argtypes, self._free.restype = [ctypes.c_void_p], None
        library.munge_ctx_create.restype = ctypes.c_void_p
        library.munge_strerror.restype = ctypes.c_char_p
        library.munge_ctx_destroy.argtypes = [ctypes.c_void_p]
        library.munge_ctx_get.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        library.munge_decode.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 5
        self._library = library

    def open(self, credential: bytes) -> MungeCredential:
        """Return the payload and the uid of a credential. A credential can be opened once."""
        if len(credential) > _CREDENTIAL_MAX_BYTES or b"\0" in credential:
            raise NotAllowed("not a MUNGE credential")
        context = self._library.munge_ctx_create()
        if not context:
            raise SchedulerUnavailable(
                "could not decode a MUNGE credential", detail="out of memory"
            )
        try:
            return self._decode(credential, context)
        finally:
            self._library.munge_ctx_destroy(context)

    def _decode(self, credential: bytes, context: int) -> MungeCredential:
        payload, length = ctypes.c_void_p(), ctypes.c_int()
        uid, gid, ttl_s = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int()
        status = self._library.munge_decode(
            credential,
            context,
            ctypes.byref(payload),
            ctypes.byref(length),
            ctypes.byref(uid),
            ctypes.byref(gid),
        )
        try:
            content = ctypes.string_at(payload.value, length.value) if payload.value else b""
        finally:
            self._free(payload)
        if status != _SUCCESS:
            raise self._failure(status)
        status = self._library.munge_ctx_get(context, _OPTION_TTL, ctypes.byref(ttl_s))
        if status != _SUCCESS:
            raise self._failure(status)
        return MungeCredential(payload=content, uid=uid.value, ttl_s=ttl_s.value)

    def _failure(self, status: int) -> NotAllowed | SchedulerUnavailable:
        reason = self._library.munge_strerror(status).decode(errors="replace")
        if status == _SOCKET_ERROR:
            return SchedulerUnavailable("could not reach munged", detail=reason)
        return NotAllowed("refused a MUNGE credential", detail=reason)
