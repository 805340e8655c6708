# SPDX-License-Identifier: Apache-2.0
"""Fetches workflow modules from public git repositories over HTTPS.

The repository and the customer who names it are untrusted. Rule 1: only hosts on a list are
contacted, and redirects are not followed. Rule 2: no files are checked out, so hooks, filters,
links and submodules have no effect. One file is read from one tree. Rule 3: git receives no
configuration, no password and no environment variables of the service. The time, memory, file size
and CPU time of git are limited.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from gridstead.errors import InvalidInput, LimitExceeded, ModuleUnavailable
from gridstead.ports import Clock
from gridstead.workflow.schema import ModuleSource

MODULE_FILE = "module.yaml"
MAX_TEXT_BYTES = 256 * 1024
MAX_CACHED_MODULES = 512
MAX_SIMULTANEOUS_FETCHES = 4
MAX_CALLERS = 8  # calls that fetch or wait for a slot; each occupies a thread
FAILURE_TTL_S = 30
MAX_MEMORY_BYTES = 1 << 30
FULL_COMMIT_DIGITS = 40  # hexadecimal digits of a full commit id

_GIT_OPTIONS = {
    "core.bigFileThreshold": "1m",  # git does not load larger files into memory
    "core.hooksPath": os.devnull, "credential.helper": "", "fetch.unpackLimit": "1",
    "gc.auto": "0", "http.followRedirects": "false", "maintenance.auto": "false",
    "pack.threads": "1", "protocol.version": "2", "submodule.recurse": "false",
}  # fmt: skip
# Fragments of git's error messages. Signal 25 is SIGXFSZ.
_NOT_FOUND = re.compile(
    r"not found|could not read Username|not our ref|unadvertised object"
    r"|returned error: (?:30\d|401|403|404|410)|redirect"
)
_TOO_LARGE = re.compile(r"invalid index-pack output|signal 25|File too large|[Oo]ut of memory")
_NO_MATCHING_REFS = 2  # exit code of git ls-remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits for one module.

    Attributes:
        timeout_s: Time for all requests to the host.
        max_pack_bytes: Maximum size of the data from the host.
        cache_ttl_s: How long a module is cached. A module with a full commit id never expires.
    """

    timeout_s: float = 20.0
    max_pack_bytes: int = 16 * 1024 * 1024
    cache_ttl_s: int = 300


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """A fetched module or its error. ``expires_at`` is in Unix seconds, or None for never."""

    result: str | InvalidInput = field(repr=False)
    expires_at: int | None


class GitModules:
    """Fetches modules. Safe to call from many threads.

    Args:
        hosts: Allowed hosts. A host with a port must be listed with the same port.
        clock: The wall clock.
        ca_file: PEM file of the hosts' CA. None for the system's CAs.
        bounds: Limits for one module.
    """

    def __init__(
        self,
        hosts: tuple[str, ...],
        *,
        clock: Clock,
        ca_file: Path | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._hosts = tuple(host.lower() for host in hosts)
        self._clock = clock
        self._ca_file = ca_file
        self._bounds = bounds or Bounds()
        self._cache: OrderedDict[ModuleSource, _CacheEntry] = OrderedDict()
        self._lock = threading.Lock()
        self._fetch_slots = threading.BoundedSemaphore(MAX_SIMULTANEOUS_FETCHES)
        self._caller_slots = threading.BoundedSemaphore(MAX_CALLERS)

    def text(self, source: ModuleSource) -> str:
        """Return the module's text, as ``ports.Modules`` describes."""
        if source.host not in self._hosts:
            allowed_hosts = ", ".join(self._hosts) or "none"
            raise InvalidInput(
                f"host {source.host} is not allowed for modules",
                detail=f"allowed hosts: {allowed_hosts}",
            )
        entry = self._cached(source)
        if entry is None:
            with self._fetch_slot(source):
                entry = self._cached(source) or self._fetch(source)
        if isinstance(entry.result, InvalidInput):
            raise InvalidInput(entry.result.message, detail=entry.result.detail)
        return entry.result

    @contextmanager
    def _fetch_slot(self, source: ModuleSource) -> Iterator[None]:
        """Wait for a slot to fetch in, unless too many callers wait already."""
        busy_error = LimitExceeded(
            f"could not fetch {source}",
            detail="too many modules are being fetched",
            hint="Try again in a minute.",
        )
        if not self._caller_slots.acquire(blocking=False):
            raise busy_error
        try:
            if not self._fetch_slots.acquire(timeout=self._bounds.timeout_s):
                raise busy_error
            try:
                yield
            finally:
                self._fetch_slots.release()
        finally:
            self._caller_slots.release()

    def _cached(self, source: ModuleSource) -> _CacheEntry | None:
        with self._lock:
            entry = self._cache.get(source)
            if entry is None:
                return None
            if entry.expires_at is not None and entry.expires_at <= self._clock.now():
                return None
            self._cache.move_to_end(source)
            return entry

    def _fetch(self, source: ModuleSource) -> _CacheEntry:
        now = self._clock.now()
        with tempfile.TemporaryDirectory(prefix="gridstead-module-") as folder:
            repository = _Repository(Path(folder), source, self._ca_file, self._bounds)
            try:
                is_full_commit = len(source.commit) == FULL_COMMIT_DIGITS
                expires_at = None if is_full_commit else now + self._bounds.cache_ttl_s
                entry = _CacheEntry(repository.module(), expires_at)
            except InvalidInput as err:
                entry = _CacheEntry(err, now + FAILURE_TTL_S)
        with self._lock:
            self._cache[source] = entry
            while len(self._cache) > MAX_CACHED_MODULES:
                self._cache.popitem(last=False)
        return entry


class _Repository:
    """A temporary clone of one commit of a repository."""

    def __init__(
        self, folder: Path, source: ModuleSource, ca_file: Path | None, bounds: Bounds
    ) -> None:
        self._folder = folder
        self._source = source
        self._bounds = bounds
        self._deadline = monotonic() + bounds.timeout_s
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C",
            "GIT_DIR": str(folder / "git"),
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false", "GIT_ATTR_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "https",
            **({"GIT_SSL_CAINFO": str(ca_file)} if ca_file else {}),
        }  # fmt: skip

    def module(self) -> str:
        """Return the module's text."""
        self._git("init", "--quiet", "--bare", "--template=", str(self._folder / "git"))
        self._git(
            "config", "remote.origin.url", f"https://{self._source.host}/{self._source.repository}"
        )
        commit = self._fetch_commit()
        path = MODULE_FILE
        if self._source.directory:
            path = f"{self._source.directory}/{MODULE_FILE}"
        listing = self._git("ls-tree", "--full-tree", commit, "--", path)
        entry = listing.decode("utf-8", "replace").split()
        if not entry:
            raise self._module_error(f"there is no file {path} in it")
        if len(entry) != 4 or entry[0] not in ("100644", "100755"):  # mode, type, object, path
            raise self._module_error(f"{path} is not a plain file")
        text = self._git("cat-file", "blob", entry[2], offline=True, limit=MAX_TEXT_BYTES)
        try:
            return text.decode()
        except UnicodeDecodeError as err:
            raise self._module_error(f"{path} is not text") from err

    def _fetch_commit(self) -> str:
        """Fetch the commit of the source and return its id."""
        commit = self._source.commit
        without_large_files = f"--filter=blob:limit={MAX_TEXT_BYTES + 1}"
        fetch_command = (
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", without_large_files,
        )  # fmt: skip
        if commit and len(commit) < FULL_COMMIT_DIGITS:
            self._git(
                *fetch_command, "origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"
            )
            # git's syntax id^{commit} names the commit that an abbreviated id refers to.
            arguments = ("--quiet", "--verify", "--end-of-options", f"{commit}^{{commit}}")
            return self._git("rev-parse", *arguments, offline=True).decode().strip()
        if not commit:
            commit = self._resolve()
        self._git(*fetch_command, "--depth=1", "origin", commit)
        return commit

    def _resolve(self) -> str:
        """Return the commit id of the source's tag, or of the default branch."""
        name = f"refs/tags/{self._source.tag}" if self._source.tag else "HEAD"
        peeled_name = f"{name}^{{}}"  # git's syntax for the commit of an annotated tag
        listing = self._git("ls-remote", "--exit-code", "origin", name, peeled_name)
        commits: dict[str, str] = {}
        for line in listing.decode("utf-8", "replace").splitlines():
            commit, _, ref = line.partition("\t")
            commits[ref] = commit
        commit = commits.get(peeled_name) or commits.get(name, "")
        if not re.fullmatch("[0-9a-f]{40}", commit):
            raise ModuleUnavailable(
                f"could not fetch {self._source}", detail="the host is not a git server"
            )
        return commit

    def _git(self, *arguments: str, offline: bool = False, limit: int | None = None) -> bytes:
        """Run a git command and return its output.

        Raises:
            InvalidInput: If the repository, commit or file does not exist, or is too large.
            ModuleUnavailable: If a later attempt may succeed.
        """
        environment = dict(self._environment)
        if offline:
            environment["GIT_ALLOW_PROTOCOL"] = "none"
        stdout, stderr = self._folder / "stdout", self._folder / "stderr"
        with stdout.open("wb") as output, stderr.open("wb") as errors:
            process = subprocess.Popen(
                [*self._git_command(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self._folder,
                start_new_session=True,
                env=environment,
            )
            try:
                code = process.wait(timeout=max(self._deadline - monotonic(), 0.01))
            except subprocess.TimeoutExpired as err:
                raise ModuleUnavailable(
                    f"could not fetch {self._source}", detail="it took too long"
                ) from err
            finally:
                _kill_group(process)
        if code:
            message = stderr.read_bytes()[:MAX_TEXT_BYTES].decode("utf-8", "replace")
            raise self._git_error(arguments[0], code, message)
        if limit is not None and stdout.stat().st_size > limit:
            raise self._module_error(f"{MODULE_FILE} is larger than {limit // 1024} KiB")
        return stdout.read_bytes()

    def _git_command(self) -> list[str]:
        """Return the command line of git, with its limits and options."""
        cpu_s = int(self._bounds.timeout_s) + 1
        command_line = [
            "prlimit", f"--fsize={self._bounds.max_pack_bytes}", f"--cpu={cpu_s}",
            f"--as={MAX_MEMORY_BYTES}", "--core=0", "--", "git",
        ]  # fmt: skip
        for name, value in _GIT_OPTIONS.items():
            command_line += ["-c", f"{name}={value}"]
        return command_line

    def _git_error(self, command: str, code: int, message: str) -> InvalidInput | ModuleUnavailable:
        if _TOO_LARGE.search(message) or code == -signal.SIGXFSZ:
            max_kib = self._bounds.max_pack_bytes // 1024
            return self._module_error(f"the repository is larger than {max_kib} KiB, or damaged")
        # git did not fetch files over the limit, so cat-file fails for such a file.
        if command == "cat-file":
            return self._module_error(f"{MODULE_FILE} is larger than {MAX_TEXT_BYTES // 1024} KiB")
        if command == "rev-parse" or (command == "ls-remote" and code == _NO_MATCHING_REFS):
            return self._module_error("there is no such tag or commit")
        if _NOT_FOUND.search(message):
            return self._module_error("there is no such public repository, or commit in it")
        return ModuleUnavailable(
            f"could not fetch {self._source}", detail="the host did not answer like a git server"
        )

    def _module_error(self, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot use {self._source}", detail=reason)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill git and its child processes, if any still run."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
