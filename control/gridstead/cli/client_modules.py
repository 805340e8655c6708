# SPDX-License-Identifier: Apache-2.0
"""Fetches the modules of workflows for the commands that check and render workflows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from gridstead.errors import InvalidInput, ModuleUnavailable
from gridstead.workflow.schema import ModuleSource

# Hosts from which modules may be fetched without option --module-host.
PUBLIC_HOSTS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
_PROGRAMS = ("git", "prlimit")


class ClientModules:
    """The modules that a command may fetch.

    Args:
        hosts: Hosts that the user allows, in addition to the public hosts.
        ca_file: PEM file of the CA of these hosts. None for the system's CAs.
        must_fetch: Whether a module that cannot be fetched is an error. Otherwise it is left out
            and recorded in ``unchecked``, except if the user named its host.

    Attributes:
        unchecked: The source of each module that was left out, and the reason.
    """

    def __init__(self, hosts: Iterable[str], ca_file: Path | None, *, must_fetch: bool) -> None:
        self.unchecked: dict[str, str] = {}
        self._hosts = tuple(host.lower() for host in hosts)
        self._ca_file = ca_file
        self._must_fetch = must_fetch
        # The fetchers by whether they fetch from the user's hosts, not from the public hosts.
        self._fetchers: dict[bool, Callable[[ModuleSource], str]] = {}
        self._failures: dict[str, str] = {}  # the reason by host

    def text(self, source: ModuleSource) -> str | None:
        """Return the text of a module. None if the module is left out.

        Raises:
            InvalidInput: If the module cannot be used, or its host is not allowed.
            ModuleUnavailable: If a later attempt may succeed.
        """
        is_user_host = source.host in self._hosts
        if not is_user_host and source.host not in PUBLIC_HOSTS:
            self._refuse(source)
            return None
        if source.host in self._failures:
            self.unchecked[str(source)] = self._failures[source.host]
            return None
        try:
            return self._fetcher(source, is_user_host=is_user_host)(source)
        except ModuleUnavailable as err:
            if self._must_fetch or is_user_host:
                raise
            reason = err.detail or err.message
            self._failures[source.host] = reason
            self.unchecked[str(source)] = reason
            return None

    def _refuse(self, source: ModuleSource) -> None:
        """Leave out a module whose host is not allowed, or raise an error."""
        advice = f"to allow it, add --module-host {source.host}"
        if not self._must_fetch:
            self.unchecked[str(source)] = f"its host is not allowed; {advice}"
            return
        allowed_hosts = ", ".join((*self._hosts, *PUBLIC_HOSTS))
        raise InvalidInput(
            f"host {source.host} is not allowed for modules",
            detail=f"allowed hosts: {allowed_hosts}; {advice}",
        )

    def _fetcher(
        self, source: ModuleSource, *, is_user_host: bool
    ) -> Callable[[ModuleSource], str]:
        """Return the function that fetches from public hosts, or from the user's hosts."""
        if missing_programs := [name for name in _PROGRAMS if not shutil.which(name)]:
            detail = f"{' and '.join(missing_programs)} must be installed"
            raise ModuleUnavailable(f"could not fetch {source}", detail=detail)
        if is_user_host not in self._fetchers:
            # The import is slow, and most workflows have no modules.
            from gridstead.wiring.definitions.modules import open_modules  # noqa: PLC0415

            hosts, ca_file = (self._hosts, self._ca_file) if is_user_host else (PUBLIC_HOSTS, None)
            self._fetchers[is_user_host] = open_modules(hosts, ca_file)
        return self._fetchers[is_user_host]
