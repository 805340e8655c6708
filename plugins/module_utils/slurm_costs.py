# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of a changed Slurm configuration: nothing, a reconfigure or a restart.

Since Slurm 23.11, ``scontrol reconfigure`` starts a new process of every daemon. If the new process
fails, the old process continues. A reconfigure loads most settings. Others, for example the ports
and the type of authentication, need a restart of slurmctld. Some changes end jobs even without a
restart. The rules of a release are in ``slurm_releases/<release>/costs.toml``. The functions read
and write no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
COSTS = (NOTHING, RECONFIGURE, RESTART)  # in ascending order
SLURM_CONF = "slurm.conf"
NAMED_KEYS = {"nodename": "NodeName", "partitionname": "PartitionName"}


@dataclass(frozen=True)
class Difference:
    """A setting that differs between the old and the new configuration.

    Attributes:
        file: Name of the file.
        key: Name of the setting as in Slurm's manual. Empty for files whose lines have no keys.
        name: Name of the node or of the partition. Empty for other settings.
        parameters: Parameters that differ, in lower case. Empty if the setting is new or removed.
        is_removed: Whether the setting was removed.
    """

    file: str
    key: str = ""
    name: str = ""
    parameters: frozenset[str] = frozenset()
    is_removed: bool = False

    def __str__(self) -> str:
        if self.key == "NodeName":
            text = f"node {self.name}"
        elif self.key == "PartitionName":
            text = f"partition {self.name}"
        else:
            text = self.key or self.file
        return f"{text} is removed" if self.is_removed and self.name else text


@dataclass(frozen=True)
class Rule:
    """The cost of the changes that a rule describes.

    Attributes:
        what: Description of the changes.
        file: Name of the file. Empty for every file.
        keys: Keys of the settings. Empty for all settings that no earlier rule lists.
        parameters: Parameters of existing nodes or partitions. Empty for all parameters that no
            earlier rule lists.
        is_removed: Whether the rule is for removed nodes or partitions.
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
    is_removed: bool = False
    ends: str = ""

    def covers(self, difference: Difference) -> bool:
        """Return whether the rule applies to a difference."""
        is_removal = difference.is_removed and bool(difference.name)
        return (
            self.file in {"", difference.file}
            and self.is_removed == is_removal
            and _includes(self.keys, {difference.key.lower()})
            and _includes(self.parameters, difference.parameters)
        )


def _includes(allowed: tuple[str, ...], names: frozenset[str] | set[str]) -> bool:
    """Return whether a rule's list contains one of the names. An empty list contains all names.

    Args:
        allowed: The list, in lower or upper case.
        names: The names in lower case.
    """
    return not allowed or not names.isdisjoint(map(str.lower, allowed))


def parse_rules(release: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Return the rules of a release in order. The first rule that covers a difference applies.

    Args:
        release: The content of ``costs.toml``.
    """
    return tuple(map(_parse_rule, release["rule"]))


def _parse_rule(entry: Mapping[str, Any]) -> Rule:
    fields = dict(entry)
    for key, value in entry.items():
        if isinstance(value, list):
            fields[key] = tuple(value)
    return Rule(**fields)


@dataclass(frozen=True)
class ChangeCost:
    """The cost of a change of the configuration.

    Attributes:
        cost: The highest cost of the differences.
        differences: The settings that differ, sorted.
        ends: Jobs that the change would end, sorted. Each entry is a list of squeue options that
            selects some of these jobs. An empty list selects all jobs.
    """

    cost: str
    differences: tuple[str, ...]
    ends: tuple[tuple[str, ...], ...]


def compute_cost(
    old: Mapping[str, str], new: Mapping[str, str], rules: Sequence[Rule]
) -> ChangeCost:
    """Return the cost of a change of the configuration.

    Args:
        old: The old texts by file name. If there are none, the cost is a restart, because
            slurmctld must start.
        new: The new texts by file name.
        rules: The rules of the release, in order.
    """
    if not old:
        return ChangeCost(cost=RESTART, differences=(), ends=())
    cost = NOTHING
    texts: list[str] = []
    ended_jobs: set[tuple[str, ...]] = set()
    for difference in sorted(differences(old, new), key=str):
        rule = next(rule for rule in rules if rule.covers(difference))
        cost = max(cost, rule.cost, key=COSTS.index)
        texts.append(str(difference))
        if rule.ends:
            ended_jobs.add(_squeue_options(difference))
    return ChangeCost(
        cost=cost, differences=tuple(dict.fromkeys(texts)), ends=tuple(sorted(ended_jobs))
    )


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[Difference]:
    """Yield the settings that differ. Comments, spaces and the order of lines are ignored."""
    for file in sorted({*old, *new}):
        before = parse_settings(file, old.get(file, ""))
        after = parse_settings(file, new.get(file, ""))
        for key, name in before.keys() | after.keys():
            old_value, new_value = before.get((key, name)), after.get((key, name))
            if old_value != new_value:
                yield Difference(
                    file=file,
                    key=key,
                    name=name,
                    parameters=_changed_parameters(old_value, new_value),
                    is_removed=new_value is None,
                )


def _changed_parameters(old: object, new: object) -> frozenset[str]:
    """Return the lower-case names of the parameters that differ between two settings."""
    if not isinstance(old, frozenset) or not isinstance(new, frozenset):
        return frozenset()
    names = set()
    for parameter in old ^ new:
        name, _, _ = parameter.partition("=")
        names.add(name.lower())
    return frozenset(names)


def parse_settings(file: str, text: str) -> dict[tuple[str, str], object]:
    """Return the settings of a file by key and name. Only nodes and partitions have a name.

    A script, and a file whose lines have no keys (gres.conf), is a single setting without a key.
    """
    if not file.endswith(".conf"):
        return {("", ""): _code_lines(text)}
    statements = _statements(text)
    if file == "gres.conf":
        return {("", ""): tuple(sorted(statements))} if statements else {}
    values: dict[tuple[str, str], object] = {}
    for statement in statements:
        first_word, *parameters = statement.split()
        key, _, value = first_word.partition("=")
        named_key = NAMED_KEYS.get(key.lower()) if file == SLURM_CONF else None
        if named_key:
            values[named_key, value] = frozenset(parameters)
            continue
        value = " ".join([value, *parameters])
        if (key, "") in values:
            # SlurmctldHost occurs once for each controller. The order of the controllers matters.
            value = f"{values[key, '']}\n{value}"
        values[key, ""] = value
    return values


def _code_lines(script: str) -> tuple[str, ...]:
    """Return the first line of a script, and all later lines that are code."""
    lines = []
    for number, line in enumerate(script.splitlines()):
        code = line.strip()
        is_first = number == 0  # such as ``#!/bin/bash``, which is not a comment
        is_code = code != "" and not code.startswith("#")
        if is_first or is_code:
            lines.append(code)
    return tuple(lines)


def _statements(text: str) -> list[str]:
    """Return the lines of a configuration file without comments, with single spaces."""
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


def rules_table(rules: Iterable[Rule]) -> str:
    """Return the rules as a Markdown table."""
    rows = ["| change | keys | action | ends | source |", "|---|---|---|---|---|"]
    rows.append(f"| comments, spaces and the order of lines | | {NOTHING} | | |")
    for rule in rules:
        keys = ", ".join(f"`{key}`" for key in rule.parameters or rule.keys)
        file = "" if rule.file in {"", SLURM_CONF} else f"`{rule.file}`"
        rows.append(f"| {rule.what} | {keys or file} | {rule.cost} | {rule.ends} | {rule.why} |")
    return "\n".join(rows)
