# SPDX-License-Identifier: Apache-2.0
"""What it costs to put a changed configuration of Slurm in force: nothing, a reconfigure, a restart
of slurmctld.

Since 23.11 ``scontrol reconfigure`` starts every daemon anew beside the old one, which goes on if
that fails. So it is enough for all but what a daemon gets only once: its ports, its account, its
kind of authentication. ``RULES`` has the exceptions, and some changes end jobs, whatever is
restarted. Source: slurm.conf(5), job_container.conf(5) and scontrol(1) of 24.11.5, and the lab
(tests/e2e/test_day2.py). Pure: reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
COSTS = (NOTHING, RECONFIGURE, RESTART)  # the cheapest first
MAIN = "slurm.conf"
NAMED = {"nodename": "NodeName", "partitionname": "PartitionName"}
# slurmctld aborts the jobs of a node whose sockets or cores are others than when it gave them.
CORES = (
    "Boards",
    "CoresPerSocket",
    "CPUs",
    "Procs",
    "Sockets",
    "SocketsPerBoard",
    "ThreadsPerCore",
)


@dataclass(frozen=True)
class Difference:
    """One setting that is not as it was.

    Attributes:
        file: Name of its file.
        key: Its name as Slurm's manual has it; empty in files whose lines have no names of their
            own.
        name: Which node or partition; empty for others.
        parameters: Which of its parameters differ, in lower case; none of what is new or gone.
        gone: Whether it is not there any more.
    """

    file: str
    key: str = ""
    name: str = ""
    parameters: frozenset[str] = frozenset()
    gone: bool = False

    def __str__(self) -> str:
        what = {"NodeName": f"node {self.name}", "PartitionName": f"partition {self.name}"}.get(
            self.key, self.key
        )
        return (what or self.file) + (" goes" if self.gone and self.name else "")


@dataclass(frozen=True)
class Rule:
    """What some changes cost.

    Attributes:
        what: The changes, in words.
        file: Their file; empty for every file.
        keys: Keys of it; empty for all that no other rule names.
        parameters: Parameters of nodes or partitions that were there and stay; empty for all that
            no other rule names.
        gone: Whether it is for nodes or partitions that go.
        cost: One of ``COSTS``.
        ends: Whose jobs it would end, in words; empty for nobody's.
        why: Where that is from.
    """

    what: str
    file: str
    keys: tuple[str, ...]
    cost: str
    why: str
    parameters: tuple[str, ...] = ()
    gone: bool = False
    ends: str = ""

    def covers(self, one: Difference) -> bool:
        """Return whether it is for this difference."""
        here = self.file in {"", one.file} and self.gone == (one.gone and bool(one.name))
        return (
            here
            and _names(self.keys, {one.key.lower()})
            and _names(self.parameters, one.parameters)
        )


def _names(listed: tuple[str, ...], found: frozenset[str] | set[str]) -> bool:
    return not listed or not found.isdisjoint(one.lower() for one in listed)


# The first that covers a difference counts.
RULES = (
    Rule("a node goes", MAIN, ("NodeName",), RECONFIGURE, "measured", gone=True, ends="jobs on it"),
    Rule(
        "a partition goes",
        MAIN,
        ("PartitionName",),
        RECONFIGURE,
        "slurm.conf(5)",
        gone=True,
        ends="jobs in it",
    ),
    Rule(
        "a node has other cores",
        MAIN,
        ("NodeName",),
        RECONFIGURE,
        "measured: slurmctld aborts them",
        parameters=CORES,
        ends="jobs on it",
    ),
    Rule("a node is new or otherwise another", MAIN, ("NodeName",), RECONFIGURE, "measured"),
    Rule(
        "a partition is new or another, such as its limits",
        MAIN,
        ("PartitionName",),
        RECONFIGURE,
        "measured",
    ),
    Rule(
        "how daemons know each other, which no job outlives",
        MAIN,
        ("AuthInfo", "AuthType", "CredType", "SlurmUser", "SlurmdPort"),
        RESTART,
        "slurm.conf(5); the nodes' slurmd and sackd are restarted by hand",
        ends="all jobs",
    ),
    Rule(
        "how slurmctld keeps its jobs",
        MAIN,
        ("ClusterName", "SelectType", "SwitchType"),
        RESTART,
        "slurm.conf(5); slurmctld refuses another ClusterName than its state's",
        ends="all jobs",
    ),
    Rule(
        "where slurmctld runs and keeps its jobs, which move with it",
        MAIN,
        ("SlurmctldHost", "StateSaveLocation"),
        RESTART,
        "slurm.conf(5)",
    ),
    Rule(
        "where slurmctld listens, and tokens",
        MAIN,
        ("AuthAltParameters", "AuthAltTypes", "CommunicationParameters", "SlurmctldPort"),
        RESTART,
        "scontrol(1): a reconfigure changes neither ports nor authentication",
    ),
    Rule("every other setting", MAIN, (), RECONFIGURE, "slurm.conf(5)"),
    Rule(
        "folders of jobs",
        "job_container.conf",
        (),
        RECONFIGURE,
        "job_container.conf(5); the nodes' slurmd is restarted by hand",
        ends="all jobs",
    ),
    Rule(
        "every setting of other files",
        "",
        (),
        RECONFIGURE,
        "cgroup.conf(5), gres.conf(5), mpi.conf(5)",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """What a change costs.

    Attributes:
        cost: The dearest of its differences'.
        differences: What is not as it was, sorted.
        ends: Whose jobs it would end, as options of squeue; sorted. An empty list is for all jobs.
    """

    cost: str
    differences: tuple[str, ...]
    ends: tuple[tuple[str, ...], ...]


def judge(old: Mapping[str, str], new: Mapping[str, str]) -> Verdict:
    r"""Return what it costs to go from the old files to the new ones, by file name. Without old
    files slurmctld starts.

    >>> judge({"slurm.conf": "KillWait=5"}, {"slurm.conf": "# calm\nKillWait=30"}).cost
    'reconfigure'
    """
    if not old:
        return Verdict(cost=RESTART, differences=(), ends=())
    found = sorted(differences(old, new), key=str)
    ruled = [(one, next(rule for rule in RULES if rule.covers(one))) for one in found]
    return Verdict(
        cost=max((rule.cost for _, rule in ruled), key=COSTS.index, default=NOTHING),
        differences=tuple(dict.fromkeys(str(one) for one in found)),
        ends=tuple(sorted({_jobs(one) for one, rule in ruled if rule.ends})),
    )


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[Difference]:
    """Return what differs between the files, without comments, spaces, and the order of lines."""
    for file in sorted({*old, *new}):
        before, after = (settings(file, files.get(file, "")) for files in (old, new))
        for key, name in before.keys() | after.keys():
            was, is_ = before.get((key, name)), after.get((key, name))
            if was != is_:
                changed = (
                    was ^ is_
                    if isinstance(was, frozenset) and isinstance(is_, frozenset)
                    else frozenset()
                )
                parameters = frozenset(one.partition("=")[0].lower() for one in changed)
                yield Difference(
                    file=file, key=key, name=name, parameters=parameters, gone=is_ is None
                )


def settings(file: str, text: str) -> dict[tuple[str, str], object]:
    """Return a file as settings by key and, for nodes and partitions, by name.

    A script, and a file whose lines have no names of their own (gres.conf), is one setting without
    a key.
    """
    lines = [line.strip() for line in text.splitlines()]
    if not file.endswith(".conf"):
        return {
            ("", ""): tuple(
                line for at, line in enumerate(lines) if at == 0 or (line and line[0] != "#")
            )
        }
    bare = [line for line in (line.partition("#")[0].strip() for line in lines) if line]
    if file == "gres.conf":
        return {("", ""): tuple(sorted(" ".join(line.split()) for line in bare))} if bare else {}
    found: dict[tuple[str, str], object] = {}
    for line in bare:
        first, *parameters = line.split()
        key, _, value = first.partition("=")
        kind = NAMED.get(key.lower()) if file == MAIN else None
        if kind:
            found[kind, value] = frozenset(parameters)
        else:
            said = " ".join([value, *parameters])
            # SlurmctldHost comes once for each controller, and the first is in charge.
            found[key, ""] = f"{found[key, '']}\n{said}" if (key, "") in found else said
    return found


def _jobs(one: Difference) -> tuple[str, ...]:
    return {
        "NodeName": (f"--nodelist={one.name}",),
        "PartitionName": (f"--partition={one.name}",),
    }.get(one.key, ())


def table() -> str:
    """Return the rules as a table of Markdown."""
    rows = ["| change | keys | cost | ends | from |", "|---|---|---|---|---|"]
    rows.append(f"| comments, spaces, order of lines | | {NOTHING} | | |")
    for rule in RULES:
        keys = ", ".join(f"`{key}`" for key in rule.parameters or rule.keys)
        file = "" if rule.file in {"", MAIN} else f"`{rule.file}`"
        rows.append(f"| {rule.what} | {keys or file} | {rule.cost} | {rule.ends} | {rule.why} |")
    return "\n".join(rows)
