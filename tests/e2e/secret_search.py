# SPDX-License-Identifier: Apache-2.0
"""Search for secrets on the hosts of a lab: in running processes, in files and in command output.

The search finds a secret as plain text, in base64 at each of the three alignments, URL-escaped and
in hex. The hosts' processes are processes of this machine, so that /proc shows all of them.
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
# The changed files of a host's disk (upper directory of the overlay), and its tmpfs mounts.
ON_DISK, IN_MEMORY = "upper", ("run", "tmp", "dev/shm")


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A place where a secret was found.

    Attributes:
        secret: The secret's name.
        kind: ``environ``, ``cmdline``, ``file``, or the name of a command.
        host: The host's name.
        place: Slurm's ``job/step`` of a process (empty outside of jobs), or the path of a file.
        what: The program's name.
    """

    secret: str
    kind: str
    host: str
    place: str = ""
    what: str = ""


def forms(secret: str) -> Iterator[bytes]:
    """Yield the encodings of a secret that the search finds."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield quote(secret, safe="").encode()
    # The first `start` characters also encode the bytes before the secret.
    for lead, start in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(bytes(lead) + raw)[start : (len(raw) + lead) * 8 // 6]
        yield text
        yield text.translate(bytes.maketrans(b"+/", b"-_"))


class SecretSearch:
    """A set of secrets and the places where they were found.

    Args:
        lab: The running lab.
        secrets: The texts of the secrets, by name.
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
        """Add a secret to the search."""
        self._names |= dict.fromkeys(forms(text), name)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Search the environments and command lines of all processes until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def search_output(self, kind: str, host: str, script: str) -> None:
        """Search the output of a shell script on a host. The secrets are passed by stdin."""
        search = '| { grep -aohF -f <(printf %s "$needles") || (($? == 1)); } | sort -u'
        matches = self._lab.sh(
            host, f"needles=$(cat); {{ {script}; }} {search}", input=self._needles().decode()
        )
        self._note(matches.encode().splitlines(), kind, host)

    def search_files(self) -> None:
        """Search all files that the hosts have written."""
        for host, init in self._inits().items():
            self._search_folder(host, LABS / self._prefix / "hosts" / host / ON_DISK)
            for name in IN_MEMORY:
                self._search_folder(host, PROC / init / "root" / name)

    def _search_folder(self, host: str, folder: Path) -> None:
        search = ["grep", "-raoF", "--null", "-f", "-", "--devices=skip", str(folder)]
        result = subprocess.run(
            search, input=self._needles(), check=False, capture_output=True, env={"LC_ALL": "C"}
        )
        for line in result.stdout.splitlines():
            path, _, form = line.partition(b"\0")
            place = path.decode(errors="replace").removeprefix(str(folder))
            self._note([form], "file", host, place)

    def _needles(self) -> bytes:
        return b"\n".join(self._names)

    def _note(self, encodings, kind: str, host: str, place: str = "", what: str = "") -> None:
        self.sightings |= {
            Sighting(self._names[form], kind, host, place, what) for form in encodings
        }

    def _inits(self) -> dict[str, str]:
        """Return the process id of each host's init, by host."""
        hosts = {}
        for process in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                host = self._host.search((process / "cgroup").read_text())
                status = (process / "status").read_text()
                pids = status.partition("NSpid:")[2].split("\n")[0].split()
                if host and pids[-1] == "1":
                    hosts[host[1]] = process.name
        return hosts

    def _watch(self, stop: threading.Event) -> None:
        known: dict[tuple[str, str], bytes] = {}
        other_processes: set[str] = set()
        while not stop.wait(EVERY_S):
            for process in PROC.glob("[0-9]*"):
                if process.name in other_processes:
                    continue
                with contextlib.suppress(OSError):  # the process has ended
                    if not self._search_process(process, known):
                        other_processes.add(process.name)

    def _search_process(self, process: Path, known: dict[tuple[str, str], bytes]) -> bool:
        """Search a process and return whether it belongs to a host.

        An environment or command line that has not changed is not searched again.
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
            matches = [form for form in self._names if form in text]
            what = (process / "comm").read_text().strip() if matches else ""
            self._note(matches, kind, host[1], "/".join(step.groups()) if step else "", what)
        return True
