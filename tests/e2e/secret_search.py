# SPDX-License-Identifier: Apache-2.0
"""A hunt for secrets on a lab's hosts: in their processes while it goes on, in files and in what
commands print.

A secret is looked for as it is, in base64 at each of its three places, URL-escaped and in hex. The
hosts' processes are the machine's own, so that one look at /proc sees all of them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

LABS = Path("/var/lib/gridstead-lab/labs")
PROC = Path("/proc")
EVERY_S = 0.05
STEP = re.compile(r"/job_(\d+)/step_(\w+)")
# Of each host: what it has changed of its disk, and its memory's own file systems.
ON_DISK, IN_MEMORY = "upper", ("run", "tmp", "dev/shm")


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A secret at a place.

    Attributes:
        secret: Its name.
        kind: ``environ``, ``cmdline``, ``file``, or the name of a command.
        host: Where.
        place: Slurm's ``job/step`` of a process, empty outside of jobs; the path of a file.
        what: The program.
    """

    secret: str
    kind: str
    host: str
    place: str = ""
    what: str = ""


def forms(secret: str) -> Iterator[bytes]:
    """Yield the ways in which a secret may stand somewhere."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield quote(secret, safe="").encode()
    for lead, start in (
        (0, 0),
        (1, 2),
        (2, 3),
    ):  # characters before `start` depend on what stands before
        text = base64.b64encode(bytes(lead) + raw)[start : (len(raw) + lead) * 8 // 6]
        yield text
        yield text.translate(bytes.maketrans(b"+/", b"-_"))


class Hunt:
    """The secrets and where they were seen.

    Args:
        lab: The standing lab.
        secrets: Each one's name and text.
    """

    def __init__(self, lab, secrets: dict[str, str]) -> None:
        self._lab = lab
        self._prefix = json.loads((lab.folder / "state.json").read_text())["prefix"]
        self._host = re.compile(rf"/{self._prefix}(?:\.slice)?/([a-z0-9]+)")
        self._names: dict[bytes, str] = {}
        self.sightings: set[Sighting] = set()
        for name, text in secrets.items():
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        """Look for one more."""
        self._names |= dict.fromkeys(forms(text), name)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look at the environment and the words of all processes, again and again."""
        enough = threading.Event()
        thread = threading.Thread(target=self._watch, args=(enough,))
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def look_at(self, kind: str, host: str, script: str) -> None:
        """Look at what a shell script prints on a host. The secrets go there by its input alone."""
        search = '| { grep -aohF -f <(printf %s "$needles") || (($? == 1)); } | sort -u'
        found = self._lab.sh(
            host, f"needles=$(cat); {{ {script}; }} {search}", input=self._needles().decode()
        )
        self._note(found.encode().splitlines(), kind, host)

    def look_at_files(self) -> None:
        """Look at all files that the hosts have written."""
        for host, init in self._inits().items():
            places = [
                LABS / self._prefix / "hosts" / host / ON_DISK,
                *(PROC / init / "root" / name for name in IN_MEMORY),
            ]
            for place in places:
                search = ["grep", "-raoF", "--null", "-f", "-", "--devices=skip", str(place)]
                done = subprocess.run(
                    search,
                    input=self._needles(),
                    check=False,
                    capture_output=True,
                    env={"LC_ALL": "C"},
                )
                for line in done.stdout.splitlines():
                    path, _, form = line.partition(b"\0")
                    self._note(
                        [form], "file", host, path.decode(errors="replace").removeprefix(str(place))
                    )

    def _needles(self) -> bytes:
        return b"\n".join(self._names)

    def _note(self, found, kind: str, host: str, place: str = "", what: str = "") -> None:
        self.sightings |= {Sighting(self._names[form], kind, host, place, what) for form in found}

    def _inits(self) -> dict[str, str]:
        """Return each host's first process."""
        hosts = {}
        for process in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                host = self._host.search((process / "cgroup").read_text())
                if (
                    host
                    and (process / "status")
                    .read_text()
                    .partition("NSpid:")[2]
                    .split("\n")[0]
                    .split()[-1]
                    == "1"
                ):
                    hosts[host[1]] = process.name
        return hosts

    def _watch(self, enough: threading.Event) -> None:
        known: dict[tuple[str, str], bytes] = {}
        strangers: set[str] = set()
        while not enough.wait(EVERY_S):
            for process in PROC.glob("[0-9]*"):
                if process.name in strangers:
                    continue
                with contextlib.suppress(OSError):  # it has ended
                    if not self._look_at_process(process, known):
                        strangers.add(process.name)

    def _look_at_process(self, process: Path, known: dict[tuple[str, str], bytes]) -> bool:
        """Look at a process if it is a host's, and return whether it is; what has not changed is
        left out.
        """
        cgroup = ""
        for kind in ("environ", "cmdline"):
            text = (process / kind).read_bytes()
            if known.get((process.name, kind)) == text:
                continue
            cgroup = cgroup or (process / "cgroup").read_text()
            host, step = self._host.search(cgroup), STEP.search(cgroup)
            if not host:
                return False
            known[process.name, kind] = text
            found = [form for form in self._names if form in text]
            what = (process / "comm").read_text().strip() if found else ""
            self._note(found, kind, host[1], "/".join(step.groups()) if step else "", what)
        return True
