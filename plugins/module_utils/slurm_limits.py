# SPDX-License-Identifier: Apache-2.0
"""Settings of sacctmgr for QOS and accounts, and comparison of their values.

sacctmgr prints ``MaxWall=90`` as ``01:30:00`` and ``mem=2048`` as ``mem=2G``. Therefore values are
parsed before they are compared. Source: sacctmgr(1), and the output of sacctmgr 24.11.5 for each
setting. Pure: reads and writes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_CLOCK = re.compile(r"(?:(?P<days>\d+)-(?P<of_day>\d+(?::\d+){0,2})|(?P<clock>\d+(?::\d+){0,2}))")
_AMOUNT = re.compile(r"(\d+)([KMGTP]?)", re.IGNORECASE)
_TRES = re.compile(r"[a-z]+(/[^=,]+)?", re.IGNORECASE)
_IN_MB = ("mem", "bb/")  # resources that Slurm counts in MB
_UNITS = "KMGTP"


def _number(text: str) -> int:
    return int(text)


def _decimal(text: str) -> float:
    return float(text)


def _seconds(text: str) -> int:
    """Return a time in seconds. The text is ``D-H[:M[:S]]``, ``H:M:S``, ``M:S`` or minutes."""
    match = _CLOCK.fullmatch(text)
    if not match:
        raise ValueError(text)
    if match["days"]:
        hours, minutes, seconds = [*map(int, match["of_day"].split(":")), 0, 0][:3]
        return int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    parts = [*map(int, match["clock"].split(":"))]
    hours, minutes, seconds = {1: [0, *parts, 0], 2: [0, *parts], 3: parts}[len(parts)]
    return hours * 3600 + minutes * 60 + seconds


def _shares(text: str) -> int | str:
    """Return a number of shares, or ``parent``."""
    return "parent" if text.lower() == "parent" else int(text)


def _minutes(text: str) -> int:
    """Return a time in minutes, rounded up: sacctmgr reads ``30:30`` as 31."""
    return -(-_seconds(text) // 60)


def _time_limit(text: str) -> int | None:
    """Return a time limit of slurm.conf in minutes, or None if there is no limit."""
    return None if text.upper() in {"INFINITE", "UNLIMITED"} else _minutes(text)


def _grace(text: str) -> int:
    """Return a grace time in seconds. Unlike other times, a plain number is seconds."""
    return int(text) if text.isdigit() else _seconds(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split(","))


def _word(text: str) -> str:
    return text.lower()


def tres(text: str) -> tuple[tuple[str, int], ...]:
    """Return the amount of each resource, sorted by name. Memory is in MB.

    >>> tres("mem=2G,cpu=4")
    (('cpu', 4), ('mem', 2048))
    """
    amounts = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        match = _AMOUNT.fullmatch(amount)
        if not match or not _TRES.fullmatch(name):
            raise ValueError(part)
        power = _UNITS.index(match[2].upper()) + 1 if match[2] else 0
        if name.lower().startswith(_IN_MB):
            power -= 2 if power else 0
        amounts[name.lower()] = int(int(match[1]) * 1024**power)
    return tuple(sorted(amounts.items()))


Kind = Callable[[str], Any]
FORMS: dict[Kind, str] = {
    _number: "a whole number",
    _decimal: "a number",
    _shares: "a whole number, or parent",
    _minutes: "minutes, or [D-]HH:MM:SS in quotes",
    _time_limit: "minutes, [D-]HH:MM:SS in quotes, or UNLIMITED",
    _grace: "seconds, or [D-]HH:MM:SS in quotes",
    tres: "such as cpu=4,mem=2G,gres/gpu=1",
    _names: "names separated by commas",
    _word: "a name",
}
_BOTH: dict[str, Kind] = {
    "GrpJobs": _number,
    "GrpJobsAccrue": _number,
    "GrpSubmitJobs": _number,
    "GrpTRES": tres,
    "GrpTRESMins": tres,
    "GrpTRESRunMins": tres,
    "GrpWall": _minutes,
    "MaxTRESMinsPerJob": tres,
    "MaxTRESPerJob": tres,
    "MaxTRESPerNode": tres,
    "MaxWall": _minutes,
    "Priority": _number,
}
QOS: dict[str, Kind] = {
    **_BOTH,
    "Flags": _names,
    "GraceTime": _grace,
    "LimitFactor": _decimal,
    "MaxJobsAccruePerAccount": _number,
    "MaxJobsAccruePerUser": _number,
    "MaxJobsPerAccount": _number,
    "MaxJobsPerUser": _number,
    "MaxSubmitJobsPerAccount": _number,
    "MaxSubmitJobsPerUser": _number,
    "MaxTRESPerAccount": tres,
    "MaxTRESPerUser": tres,
    "MaxTRESRunMinsPerAccount": tres,
    "MaxTRESRunMinsPerUser": tres,
    "MinTRESPerJob": tres,
    "Preempt": _names,
    "PreemptExemptTime": _minutes,
    "PreemptMode": _word,
    "UsageFactor": _decimal,
    "UsageThreshold": _decimal,
}
ACCOUNT: dict[str, Kind] = {
    **_BOTH,
    "DefaultQOS": _word,
    "Fairshare": _shares,
    "MaxJobs": _number,
    "MaxJobsAccrue": _number,
    "MaxSubmitJobs": _number,
    "QOS": _names,
}
PARTITION_TIMES: dict[str, Kind] = {"DefaultTime": _time_limit, "MaxTime": _time_limit}
# YAML reads H:MM:SS without quotes as a number of base 60. The smallest such number is an hour.
_HOUR = 3600
# sacctmgr's output for settings that are not set. Other settings are empty.
UNSET = {
    "Fairshare": "1",
    "GraceTime": "0",
    "PreemptMode": "cluster",
    "Priority": "0",
    "UsageFactor": "1",
}
# Values that reset a setting. For other settings -1 is the value.
RESET = {"Preempt": "", "PreemptMode": "cluster", "QOS": ""}


def to_text(value: object) -> str:
    """Return a value of the inventory as sacctmgr reads it, or an empty text for an unset value."""
    if value is None:
        return ""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "" if text == "-1" else text


def faults(kinds: Mapping[str, Kind], values: object) -> Iterator[tuple[str, str, str]]:
    """Yield each invalid setting: its name, the error, and the allowed values.

    Args:
        kinds: ``QOS``, ``ACCOUNT`` or ``PARTITION_TIMES``.
        values: Values by setting, or None. Anything else is an error without a name.
    """
    if values is None:
        return
    if not isinstance(values, Mapping):
        yield "", f'"{values}"', "settings by name, such as {MaxWall: 90}"
        return
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is None:
            yield str(name), "there is no such setting", _suggestion(str(name), kinds)
        elif kind in (_minutes, _time_limit) and isinstance(value, int) and value >= _HOUR:
            error = f"{value}, which is how YAML reads {_clock(value)}"
            yield name, error, "[D-]HH:MM:SS in quotes, or minutes in quotes"
        elif not _is_valid(kind, to_text(value)):
            yield name, f'"{to_text(value)}"', FORMS[kind]


def _suggestion(name: str, kinds: Mapping[str, Kind]) -> str:
    """Return the known settings, after the setting that the user probably meant."""
    by_lower_case = {known.lower(): known for known in kinds}
    allowed = f"one of {', '.join(sorted(kinds))}"
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[near[0]]}? {allowed}" if near else allowed


def _is_valid(kind: Kind, text: str) -> bool:
    if not text:
        return True
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _clock(number: int) -> str:
    return f"{number // _HOUR}:{number // 60 % 60:02}:{number % 60:02}"


def settings(
    kinds: Mapping[str, Kind], requested: Mapping[str, object], present: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings to change, with their new values as sacctmgr reads them.

    Settings that are not requested are reset.

    Args:
        kinds: ``QOS`` or ``ACCOUNT``.
        requested: Values by setting.
        present: Values in the output of sacctmgr, by setting.

    >>> settings(QOS, {"MaxWall": 90}, {"MaxWall": "", "MaxTRESPerUser": "cpu=4", "Priority": "0"})
    {'MaxTRESPerUser': 'cpu=-1', 'MaxWall': '90'}
    """
    changes = {}
    for name in sorted(kinds.keys() & present.keys()):
        kind = kinds[name]
        new_text = to_text(requested.get(name))
        new = new_text or UNSET.get(name, "")
        old = present[name] or UNSET.get(name, "")
        if _is_same(kind, new, old):
            continue
        if kind is tres:
            changes[name] = ",".join(filter(None, [new, *_reset_resources(new, old)]))
        else:
            changes[name] = new_text or RESET.get(name, "-1")
    return changes


def _is_same(kind: Kind, new: str, old: str) -> bool:
    if not new or not old:
        return new == old
    value = kind(new)
    try:
        return bool(value == kind(old))
    except ValueError:  # an old value that cannot be parsed is replaced
        return False


def _reset_resources(new: str, old: str) -> list[str]:
    """Return the words that reset the resources of the old value that the new value lacks."""
    retained = dict(tres(new)) if new else {}
    words = []
    for resource in sorted(old.lower().split(",")):
        name, _, _ = resource.partition("=")
        if name and name not in retained:
            words.append(f"{name}=-1")
    return words
