# SPDX-License-Identifier: Apache-2.0
"""A search for secrets on the hosts of a lab: in processes, in files and in the output of commands.

The search finds a secret as plain text, in base64 at each of the three alignments, URL-escaped and
in hexadecimal digits. /proc shows the hosts' processes, because the hosts are containers on this
machine. The search fails if it cannot inspect every host of the lab.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import subprocess
import threading
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

LABS = Path("/var/lib/gridstead-lab/labs")
PROC = Path("/proc")
POLL_S = 0.05
JOB_AND_STEP = re.compile(r"/job_(\d+)/step_(\w+)")
# The changed files of a host's disk (upper directory of the overlay), and its tmpfs mounts.
DISK_FOLDER, MEMORY_FOLDERS = "upper", ("run", "tmp", "dev/shm")


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A place where a secret was found.

    Attributes:
        secret: The name of the secret.
        kind: ``environ``, ``cmdline``, ``file``, or the name of a command.
        host: The name of the host.
        place: The path of a file, or Slurm's ``job/step`` of a process. It is empty for a process
            that does not belong to a job.
        program: The name of the program that the process runs.
    """

    secret: str
    kind: str
    host: str
    place: str = ""
    program: str = ""


def encodings_of(secret: str) -> Iterator[bytes]:
    """Yield the encodings of a secret for which the search looks."""
    secret_bytes = secret.encode()
    yield secret_bytes
    yield secret_bytes.hex().encode()
    yield secret_bytes.hex().upper().encode()
    yield quote(secret, safe="").encode()
    for preceding_bytes in range(3):
        # A base64 character encodes 6 bits. The characters before ``start`` and after ``end`` also
        # encode bits of the text around the secret.
        start = math.ceil(preceding_bytes * 8 / 6)
        end = (len(secret_bytes) + preceding_bytes) * 8 // 6
        text = base64.b64encode(bytes(preceding_bytes) + secret_bytes)[start:end]
        yield text
        yield text.translate(bytes.maketrans(b"+/", b"-_"))


def host_of_cgroup(text: str, prefix: str) -> str:
    """Return the host of a lab to which a process belongs, or an empty text.

    Args:
        text: The text of the process's /proc/PID/cgroup. A line ends with a path such as
            ``/gs12ab/login/payload`` in cgroup v1, or ``/gs12ab.slice/gs12ab-login.scope/payload``
            in cgroup v2.
        prefix: The prefix of the lab.
    """
    path = rf":/{prefix}/([a-z0-9-]+)|:/{prefix}\.slice/{prefix}-([a-z0-9-]+)\.scope"
    match = re.search(path, text)
    return (match[1] or match[2]) if match else ""


class SecretSearch:
    """A search for a set of secrets. It collects the places where it finds a secret.

    Args:
        lab: The running lab.
        secrets: The texts of the secrets, by name.
    """

    def __init__(self, lab, secrets: dict[str, str]) -> None:
        self._lab = lab
        state = json.loads((lab.folder / "state.json").read_text())
        self._prefix, self._hosts = state["prefix"], state["hosts"].keys()
        self._searched_hosts: set[str] = set()  # the hosts that have had a process
        self._names: dict[bytes, str] = {}  # the name of the secret, by encoding
        self.sightings: set[Sighting] = set()
        for name, text in secrets.items():
            self.add(name, text)

    def add(self, name: str, text: str) -> None:
        """Add a secret to the search."""
        # A new dictionary, because the thread of ``watching`` iterates over the present one.
        self._names = self._names | dict.fromkeys(encodings_of(text), name)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Search the environments and command lines of all processes until the block ends.

        Fails at the end of the block if the search found no process of a host.
        """
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        self._check_complete(self._searched_hosts)

    def search_output(self, kind: str, host: str, script: str) -> None:
        """Search the output of a shell script on a host. The script gets the secrets on stdin."""
        # grep prints only the encodings that it finds. Exit code 1 means that it finds none.
        search = '| { grep -aohF -f <(printf %s "$needles") || (($? == 1)); } | sort -u'
        matches = self._lab.sh(
            host, f"needles=$(cat); {{ {script}; }} {search}", input=self._encodings().decode()
        )
        self._add_sightings(matches.encode().splitlines(), kind, host)

    def search_files(self) -> None:
        """Search all files that the hosts have written to their disks and tmpfs mounts.

        Fails before the search if a host does not run.
        """
        init_pids = self._inits()
        self._check_complete(init_pids.keys())
        for host, init_pid in init_pids.items():
            self._search_folder(host, LABS / self._prefix / "hosts" / host / DISK_FOLDER)
            for name in MEMORY_FOLDERS:
                self._search_folder(host, PROC / init_pid / "root" / name)

    def _check_complete(self, searched_hosts: AbstractSet[str]) -> None:
        missing_hosts = self._hosts - searched_hosts
        assert not missing_hosts, f"could not inspect {' '.join(sorted(missing_hosts))}"

    def _search_folder(self, host: str, folder: Path) -> None:
        assert folder.is_dir(), f"could not inspect {folder} of {host}"
        search = ["grep", "-raoF", "--null", "-f", "-", "--devices=skip", str(folder)]
        result = subprocess.run(
            search, input=self._encodings(), check=False, capture_output=True, env={"LC_ALL": "C"}
        )
        for line in result.stdout.splitlines():
            path, _, encoding = line.partition(b"\0")
            place = path.decode(errors="replace").removeprefix(str(folder))
            self._add_sightings([encoding], "file", host, place)

    def _encodings(self) -> bytes:
        return b"\n".join(self._names)

    def _add_sightings(
        self, encodings, kind: str, host: str, place: str = "", program: str = ""
    ) -> None:
        for encoding in encodings:
            sighting = Sighting(self._names[encoding], kind, host, place, program)
            self.sightings.add(sighting)

    def _inits(self) -> dict[str, str]:
        """Return the process id of each host's init, by host."""
        init_pids = {}
        for process in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                host = host_of_cgroup((process / "cgroup").read_text(), self._prefix)
                # The line "NSpid: 4711 1" ends with the process id in the host's namespace.
                _, _, after_label = (process / "status").read_text().partition("NSpid:")
                pids = after_label.partition("\n")[0].split()
                if host and pids[-1] == "1":
                    init_pids[host] = process.name
        return init_pids

    def _watch(self, stop: threading.Event) -> None:
        searched_files: dict[tuple[str, str], bytes] = {}
        other_processes: set[str] = set()
        while not stop.wait(POLL_S):
            for process in PROC.glob("[0-9]*"):
                if process.name in other_processes:
                    continue
                with contextlib.suppress(OSError):  # the process has ended
                    if not self._search_process(process, searched_files):
                        other_processes.add(process.name)

    def _search_process(self, process: Path, searched: dict[tuple[str, str], bytes]) -> bool:
        """Search a process and return whether it belongs to a host.

        ``searched`` contains the environments and command lines of earlier searches. An environment
        or command line that has not changed is not searched again.
        """
        cgroup = ""
        for kind in ("environ", "cmdline"):
            text = (process / kind).read_bytes()
            if searched.get((process.name, kind)) == text:
                continue
            # Read the cgroup at most once, and only if the environment or command line is new.
            cgroup = cgroup or (process / "cgroup").read_text()
            host, step = host_of_cgroup(cgroup, self._prefix), JOB_AND_STEP.search(cgroup)
            if not host:
                return False
            self._searched_hosts.add(host)
            searched[process.name, kind] = text
            matches = [encoding for encoding in self._names if encoding in text]
            program = (process / "comm").read_text().strip() if matches else ""
            place = "/".join(step.groups()) if step else ""
            self._add_sightings(matches, kind, host, place, program)
        return True
