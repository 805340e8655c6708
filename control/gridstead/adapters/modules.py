# SPDX-License-Identifier: Apache-2.0
"""Modules of workflows out of public git repositories, over HTTPS.

A repository is a stranger's, and so is what asks for it. Rule 1: only hosts of a list are spoken
to, and none of them can send us elsewhere. Rule 2: nothing is checked out, so there are no hooks,
filters, links or submodules: one file is read out of one tree. Rule 3: git gets no configuration,
no password and no environment of ours, and bounds on time, memory, file sizes and processors.
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

from gridstead.errors import InvalidInput, ModuleUnavailable, TooMuch
from gridstead.ports import Clock
from gridstead.workflow.schema import ModuleSource

FILE = "module.yaml"
MAX_TEXT_BYTES = 256 * 1024
MAX_KEPT = 512
MAX_AT_ONCE = 4
MAX_CALLERS = 8  # those that fetch and those that wait for a place; each keeps a thread from others
WRONG_LIFE_S = 30
MEMORY_BYTES = 1 << 30
WHOLE = 40  # hexadecimal digits of a commit

_OPTIONS = {
    "core.bigFileThreshold": "1m",  # larger files pass through without being held
    "core.hooksPath": os.devnull, "credential.helper": "", "fetch.unpackLimit": "1", "gc.auto": "0",
    "http.followRedirects": "false", "maintenance.auto": "false", "pack.threads": "1", "protocol.version": "2",
    "submodule.recurse": "false",
}  # fmt: skip
_NO_SUCH = re.compile(
    r"not found|could not read Username|not our ref|unadvertised object|returned error: (?:30\d|401|403|404|410)"
    r"|redirect"
)
_TOO_LARGE = re.compile(r"invalid index-pack output|signal 25|File too large|[Oo]ut of memory")
_NO_REFS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one module may take.

    Attributes:
        time_s: For all that is asked of its host.
        pack_bytes: Of what comes from there.
        life_s: How long it counts as known; what a whole commit names does not change.
    """

    time_s: float = 20.0
    pack_bytes: int = 16 * 1024 * 1024
    life_s: int = 300


@dataclass(frozen=True, slots=True)
class _Kept:
    """What became of a module, until a time of the clock; None: for ever."""

    found: str | InvalidInput = field(repr=False)
    until: int | None


class GitModules:
    """Fetches modules; safe to call from many threads.

    Args:
        hosts: Hosts that may be asked, with their ports where a source names one.
        clock: Wall time.
        ca_file: Who vouches for the hosts; those of the system if not given.
        bounds: What one module may take.
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
        self._kept: OrderedDict[ModuleSource, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._callers = threading.BoundedSemaphore(MAX_CALLERS)

    def text(self, source: ModuleSource) -> str:
        """Return the module's text; see ``ports.Modules``."""
        if source.host not in self._hosts:
            known = ", ".join(self._hosts) or "none"
            raise InvalidInput(
                f"no module comes from {source.host} here", detail=f"allowed hosts: {known}"
            )
        kept = self._known(source)
        if kept is None:
            with self._place(source):
                kept = self._known(source) or self._fetch(source)
        if isinstance(kept.found, InvalidInput):
            raise InvalidInput(kept.found.message, detail=kept.found.detail)
        return kept.found

    @contextmanager
    def _place(self, source: ModuleSource) -> Iterator[None]:
        """Wait for a place among those that fetch, unless too many wait already."""
        busy = TooMuch(
            f"could not fetch {source}",
            detail="too many modules are being fetched",
            hint="Try again in a minute.",
        )
        if not self._callers.acquire(blocking=False):
            raise busy
        try:
            if not self._places.acquire(timeout=self._bounds.time_s):
                raise busy
            try:
                yield
            finally:
                self._places.release()
        finally:
            self._callers.release()

    def _known(self, source: ModuleSource) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(source)
            if kept is None or (kept.until is not None and kept.until <= self._clock.now()):
                return None
            self._kept.move_to_end(source)
            return kept

    def _fetch(self, source: ModuleSource) -> _Kept:
        now = self._clock.now()
        with tempfile.TemporaryDirectory(prefix="gridstead-module-") as place:
            repository = _Repository(Path(place), source, self._ca_file, self._bounds)
            try:
                whole = len(source.commit) == WHOLE
                kept = _Kept(repository.module(), None if whole else now + self._bounds.life_s)
            except InvalidInput as err:
                kept = _Kept(err, now + WRONG_LIFE_S)
        with self._lock:
            self._kept[source] = kept
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept


class _Repository:
    """One state of a repository, in a directory that goes afterwards."""

    def __init__(
        self, place: Path, source: ModuleSource, ca_file: Path | None, bounds: Bounds
    ) -> None:
        self._place = place
        self._source = source
        self._bounds = bounds
        self._end = monotonic() + bounds.time_s
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(place), "LC_ALL": "C", "GIT_DIR": str(place / "git"),
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false", "GIT_ATTR_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "https",
            **({"GIT_SSL_CAINFO": str(ca_file)} if ca_file else {}),
        }  # fmt: skip

    def module(self) -> str:
        """Return the module's text."""
        self._git("init", "--quiet", "--bare", "--template=", str(self._place / "git"))
        self._git(
            "config", "remote.origin.url", f"https://{self._source.host}/{self._source.repository}"
        )
        commit = self._fetched()
        path = "/".join(filter(None, (self._source.directory, FILE)))
        entry = (
            self._git("ls-tree", "--full-tree", commit, "--", path)
            .decode("utf-8", "replace")
            .split()
        )
        if len(entry) != 4 or entry[0] not in ("100644", "100755"):  # mode, kind, object, path
            raise self._wrong(
                f"there is no file {path} in it" if not entry else f"{path} is not a plain file"
            )
        text = self._git("cat-file", "blob", entry[2], offline=True, limit=MAX_TEXT_BYTES)
        try:
            return text.decode()
        except UnicodeDecodeError as err:
            raise self._wrong(f"{path} is not text") from err

    def _fetched(self) -> str:
        """Fetch what is needed and return the commit."""
        commit = self._source.commit
        small = f"--filter=blob:limit={MAX_TEXT_BYTES + 1}"
        fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", small)
        if commit and len(commit) < WHOLE:
            self._git(*fetch, "origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            words = ("--quiet", "--verify", "--end-of-options", f"{commit}^{{commit}}")
            return self._git("rev-parse", *words, offline=True).decode().strip()
        if not commit:
            name = f"refs/tags/{self._source.tag}" if self._source.tag else "HEAD"
            listed = self._git("ls-remote", "--exit-code", "origin", name, f"{name}^{{}}").decode(
                "utf-8", "replace"
            )
            states = {
                ref: state
                for state, _, ref in (line.partition("\t") for line in listed.splitlines())
            }
            commit = states.get(f"{name}^{{}}") or states.get(name, "")
            if not re.fullmatch("[0-9a-f]{40}", commit):
                raise ModuleUnavailable(
                    f"could not fetch {self._source}", detail="its host does not speak git"
                )
        self._git(*fetch, "--depth=1", "origin", commit)
        return commit

    def _git(self, *words: str, offline: bool = False, limit: int | None = None) -> bytes:
        """Return what git says.

        Raises:
            InvalidInput: What is asked for is not there, or too large.
            ModuleUnavailable: Time may help.
        """
        options = [word for name, value in _OPTIONS.items() for word in ("-c", f"{name}={value}")]
        seconds = int(self._bounds.time_s) + 1
        said, told = self._place / "said", self._place / "told"
        with said.open("wb") as output, told.open("wb") as errors:
            process = subprocess.Popen(
                ["prlimit", f"--fsize={self._bounds.pack_bytes}", f"--cpu={seconds}", f"--as={MEMORY_BYTES}",
                 "--core=0", "--", "git", *options, *words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=self._place, start_new_session=True,
                env=self._environment | ({"GIT_ALLOW_PROTOCOL": "none"} if offline else {}),
            )  # fmt: skip
            try:
                code = process.wait(timeout=max(self._end - monotonic(), 0.01))
            except subprocess.TimeoutExpired as err:
                raise ModuleUnavailable(
                    f"could not fetch {self._source}", detail="it took too long"
                ) from err
            finally:
                _end_all(process)
        if code:
            raise self._failure(
                words[0], code, told.read_bytes()[:MAX_TEXT_BYTES].decode("utf-8", "replace")
            )
        if limit is not None and said.stat().st_size > limit:
            raise self._wrong(f"{FILE} is larger than {limit // 1024} KiB")
        return said.read_bytes()

    def _failure(self, asked: str, code: int, told: str) -> InvalidInput | ModuleUnavailable:
        if _TOO_LARGE.search(told) or code == -signal.SIGXFSZ:
            return self._wrong(
                f"its repository is larger than {self._bounds.pack_bytes // 1024} KiB, or broken"
            )
        if asked == "cat-file":
            return self._wrong(f"{FILE} is larger than {MAX_TEXT_BYTES // 1024} KiB")
        if asked == "rev-parse" or (asked == "ls-remote" and code == _NO_REFS):
            return self._wrong("there is no such tag or commit")
        if _NO_SUCH.search(told):
            return self._wrong("there is no such public repository, or commit in it")
        return ModuleUnavailable(
            f"could not fetch {self._source}", detail="its host did not answer as git does"
        )

    def _wrong(self, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot use {self._source}", detail=reason)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End git and what it has started, if any of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
