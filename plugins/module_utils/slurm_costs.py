# SPDX-License-Identifier: Apache-2.0
"""The cost of a changed configuration of Slurm: nothing, a reconfigure or a restart of slurmctld.

Since 23.11 ``scontrol reconfigure`` starts a new process of every daemon. The old process continues
if the new process fails. Therefore a reconfigure loads all settings except those that a daemon
reads only at its start: ports, user and type of authentication. ``RULES`` lists the exceptions.
Some changes end jobs even without a restart. Source: slurm.conf(5), job_container.conf(5) and
scontrol(1) of 24.11.5, and the lab (tests/e2e/test_day2.py). Pure: reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
COSTS = (NOTHING, RECONFIGURE, RESTART)  # in ascending order
MAIN = "slurm.conf"
NAMED = {"nodename": "NodeName", "partitionname": "PartitionName"}
# slurmctld ends the jobs of a node if the number of its sockets or cores has changed.
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
    """A setting that differs between the old and the new configuration.

    Attributes:
        file: Name of the file.
        key: Name of the setting as in Slurm's manual. Empty for files whose lines have no keys.
        name: Name of the node or of the partition. Empty for other settings.
        parameters: Parameters that differ, in lower case. Empty if the setting is new or removed.
        gone: Whether the setting was removed.
    """

    file: str
    key: str = ""
    name: str = ""
    parameters: frozenset[str] = frozenset()
    gone: bool = False

    def __str__(self) -> str:
        kinds = {"NodeName": f"node {self.name}", "PartitionName": f"partition {self.name}"}
        text = kinds.get(self.key, self.key) or self.file
        return f"{text} is removed" if self.gone and self.name else text


@dataclass(frozen=True)
class Rule:
    """The cost of a kind of change.

    Attributes:
        what: Description of the changes.
        file: Name of the file. Empty for every file.
        keys: Keys of the settings. Empty for all settings that no other rule lists.
        parameters: Parameters of existing nodes or partitions. Empty for all parameters that no
            other rule lists.
        gone: Whether the rule is for removed nodes or partitions.
        cost: One of ``COSTS``.
        ends: Description of the jobs that the change would end. Empty for none.
        why: Source of the rule.
    """

    what: str
    file: str
    keys: tuple[str, ...]
    cost: str
    why: str
    parameters: tuple[str, ...] = ()
    gone: bool = False
    ends: str = ""

    def covers(self, difference: Difference) -> bool:
        """Return whether the rule applies to a difference."""
        is_removal = difference.gone and bool(difference.name)
        return (
            self.file in {"", difference.file}
            and self.gone == is_removal
            and _includes(self.keys, {difference.key.lower()})
            and _includes(self.parameters, difference.parameters)
        )


def _includes(listed: tuple[str, ...], names: frozenset[str] | set[str]) -> bool:
    """Return whether the list includes one of the lower-case names. An empty list includes all."""
    return not listed or not names.isdisjoint(name.lower() for name in listed)


# The first rule that covers a difference applies.
RULES = (
    Rule(
        "a node is removed",
        MAIN,
        ("NodeName",),
        RECONFIGURE,
        "measured",
        gone=True,
        ends="jobs on the node",
    ),
    Rule(
        "a partition is removed",
        MAIN,
        ("PartitionName",),
        RECONFIGURE,
        "slurm.conf(5)",
        gone=True,
        ends="jobs in the partition",
    ),
    Rule(
        "the sockets or cores of a node change",
        MAIN,
        ("NodeName",),
        RECONFIGURE,
        "measured: slurmctld ends the jobs",
        parameters=CORES,
        ends="jobs on the node",
    ),
    Rule(
        "a node is added, or its other parameters change",
        MAIN,
        ("NodeName",),
        RECONFIGURE,
        "measured",
    ),
    Rule(
        "a partition is added, or its parameters change",
        MAIN,
        ("PartitionName",),
        RECONFIGURE,
        "measured",
    ),
    Rule(
        "authentication between the daemons",
        MAIN,
        ("AuthInfo", "AuthType", "CredType", "SlurmUser", "SlurmdPort"),
        RESTART,
        "slurm.conf(5); slurmd and sackd of the nodes must be restarted manually",
        ends="all jobs",
    ),
    Rule(
        "format of slurmctld's state",
        MAIN,
        ("ClusterName", "SelectType", "SwitchType"),
        RESTART,
        "slurm.conf(5); slurmctld refuses another ClusterName than in its state",
        ends="all jobs",
    ),
    Rule(
        "host and state directory of slurmctld; the jobs move with the state",
        MAIN,
        ("SlurmctldHost", "StateSaveLocation"),
        RESTART,
        "slurm.conf(5)",
    ),
    Rule(
        "port of slurmctld, and tokens",
        MAIN,
        ("AuthAltParameters", "AuthAltTypes", "CommunicationParameters", "SlurmctldPort"),
        RESTART,
        "scontrol(1): a reconfigure changes neither ports nor authentication",
    ),
    Rule("every other setting", MAIN, (), RECONFIGURE, "slurm.conf(5)"),
    Rule(
        "private directories of jobs",
        "job_container.conf",
        (),
        RECONFIGURE,
        "job_container.conf(5); slurmd of the nodes must be restarted manually",
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
class ChangeCost:
    """The cost of a change of the configuration.

    Attributes:
        cost: The highest cost of the differences.
        differences: The settings that differ, sorted.
        ends: Jobs that the change would end, as lists of options of squeue, sorted. A list without
            options means all jobs.
    """

    cost: str
    differences: tuple[str, ...]
    ends: tuple[tuple[str, ...], ...]


def compute_cost(old: Mapping[str, str], new: Mapping[str, str]) -> ChangeCost:
    r"""Return the cost of the change from the old to the new files, which are given by name.

    Without old files the cost is a restart, because slurmctld must start.

    >>> compute_cost({"slurm.conf": "KillWait=5"}, {"slurm.conf": "# calm\nKillWait=30"}).cost
    'reconfigure'
    """
    if not old:
        return ChangeCost(cost=RESTART, differences=(), ends=())
    cost = NOTHING
    texts: list[str] = []
    ended_jobs: set[tuple[str, ...]] = set()
    for difference in sorted(differences(old, new), key=str):
        rule = _rule_of(difference)
        cost = max(cost, rule.cost, key=COSTS.index)
        texts.append(str(difference))
        if rule.ends:
            ended_jobs.add(_squeue_options(difference))
    return ChangeCost(
        cost=cost, differences=tuple(dict.fromkeys(texts)), ends=tuple(sorted(ended_jobs))
    )


def _rule_of(difference: Difference) -> Rule:
    return next(rule for rule in RULES if rule.covers(difference))


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[Difference]:
    """Yield the settings that differ. Comments, spaces and the order of lines are ignored."""
    for file in sorted({*old, *new}):
        before, after = settings(file, old.get(file, "")), settings(file, new.get(file, ""))
        for key, name in before.keys() | after.keys():
            old_value, new_value = before.get((key, name)), after.get((key, name))
            if old_value != new_value:
                yield Difference(
                    file=file,
                    key=key,
                    name=name,
                    parameters=_changed_parameters(old_value, new_value),
                    gone=new_value is None,
                )


def _changed_parameters(old: object, new: object) -> frozenset[str]:
    """Return the names, in lower case, of the parameters of a node or partition that differ."""
    if not isinstance(old, frozenset) or not isinstance(new, frozenset):
        return frozenset()
    return frozenset(parameter.partition("=")[0].lower() for parameter in old ^ new)


def settings(file: str, text: str) -> dict[tuple[str, str], object]:
    """Return the settings of a file by key and, for nodes and partitions, by name.

    A script and a file whose lines have no keys (gres.conf) are a single setting without a key.
    """
    if not file.endswith(".conf"):
        return {("", ""): _code(text)}
    statements = _statements(text)
    if file == "gres.conf":
        return {("", ""): tuple(sorted(statements))} if statements else {}
    values: dict[tuple[str, str], object] = {}
    for statement in statements:
        first, *parameters = statement.split()
        key, _, value = first.partition("=")
        kind = NAMED.get(key.lower()) if file == MAIN else None
        if kind:
            values[kind, value] = frozenset(parameters)
            continue
        value = " ".join([value, *parameters])
        if (key, "") in values:
            # SlurmctldHost occurs once for each controller. The order of the controllers matters.
            value = f"{values[key, '']}\n{value}"
        values[key, ""] = value
    return values


def _code(script: str) -> tuple[str, ...]:
    """Return the lines of a script: its first line, and the others without comments."""
    lines = []
    for number, line in enumerate(script.splitlines()):
        code = line.strip()
        if number == 0 or (code and not code.startswith("#")):
            lines.append(code)
    return tuple(lines)


def _statements(text: str) -> list[str]:
    """Return the lines of a configuration file without comments, their words one space apart."""
    statements = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            statements.append(" ".join(words))
    return statements


def _squeue_options(difference: Difference) -> tuple[str, ...]:
    """Return the options of squeue that select the jobs of a node or of a partition."""
    if difference.key == "NodeName":
        return (f"--nodelist={difference.name}",)
    if difference.key == "PartitionName":
        return (f"--partition={difference.name}",)
    return ()


def table() -> str:
    """Return the rules as a Markdown table."""
    rows = ["| change | keys | cost | ends | source |", "|---|---|---|---|---|"]
    rows.append(f"| comments, spaces and the order of lines | | {NOTHING} | | |")
    for rule in RULES:
        keys = ", ".join(f"`{key}`" for key in rule.parameters or rule.keys)
        file = "" if rule.file in {"", MAIN} else f"`{rule.file}`"
        rows.append(f"| {rule.what} | {keys or file} | {rule.cost} | {rule.ends} | {rule.why} |")
    return "\n".join(rows)
