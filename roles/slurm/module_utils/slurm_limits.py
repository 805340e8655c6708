# SPDX-License-Identifier: Apache-2.0
"""What sacctmgr can set of a QOS and of an account, and whether two ways to write a value mean the
same.

sacctmgr shows ``MaxWall=90`` as ``01:30:00`` and ``mem=2048`` as ``mem=2G``; both are compared as
what they mean. Source: sacctmgr(1), and what sacctmgr 24.11.5 showed of each setting here. Pure:
reads and writes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_CLOCK = re.compile(r"(?:(?P<days>\d+)-(?P<of_day>\d+(?::\d+){0,2})|(?P<clock>\d+(?::\d+){0,2}))")
_AMOUNT = re.compile(r"(\d+)([KMGTP]?)", re.IGNORECASE)
_TRES = re.compile(r"[a-z]+(/[^=,]+)?", re.IGNORECASE)
_IN_MB = ("mem", "bb/")  # what sacctmgr counts in MB, as Slurm does
_UNITS = "KMGTP"


def _number(text: str) -> int:
    return int(text)


def _decimal(text: str) -> float:
    return float(text)


def _seconds(text: str) -> int:
    """Return ``[D-]H[:M[:S]]``, ``M:S``, ``H:M:S`` or minutes, in seconds."""
    match = _CLOCK.fullmatch(text)
    if not match:
        raise ValueError(text)
    if match["days"]:
        hours, minutes, seconds = [*map(int, match["of_day"].split(":")), 0, 0][:3]
        return int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    parts = [int(part) for part in match["clock"].split(":")]
    hours, minutes, seconds = {1: [0, *parts, 0], 2: [0, *parts], 3: parts}[len(parts)]
    return hours * 3600 + minutes * 60 + seconds


def _shares(text: str) -> int | str:
    """Return a share, or that it has its parent's."""
    return "parent" if text.lower() == "parent" else int(text)


def _minutes(text: str) -> int:
    """Return a time in minutes, begun ones as whole: ``30:30`` is 31 for sacctmgr."""
    return -(-_seconds(text) // 60)


def _time_limit(text: str) -> int | None:
    """Return a time in minutes, or nothing where there is no limit; as slurm.conf has it."""
    return None if text.upper() in {"INFINITE", "UNLIMITED"} else _minutes(text)


def _grace(text: str) -> int:
    """Return a time whose bare number is seconds, unlike all others."""
    return int(text) if text.isdigit() else _seconds(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split(","))


def _word(text: str) -> str:
    return text.lower()


def tres(text: str) -> tuple[tuple[str, int], ...]:
    """Return amounts by resource, sorted; memory in MB.

    >>> tres("mem=2G,cpu=4")
    (('cpu', 4), ('mem', 2048))
    """
    found = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        match = _AMOUNT.fullmatch(amount)
        if not match or not _TRES.fullmatch(name):
            raise ValueError(part)
        power = _UNITS.index(match[2].upper()) + 1 if match[2] else 0
        if name.lower().startswith(_IN_MB):
            power -= 2 if power else 0
        found[name.lower()] = int(int(match[1]) * 1024**power)
    return tuple(sorted(found.items()))


Kind = Callable[[str], Any]
FORMS: dict[Kind, str] = {
    _number: "a whole number",
    _decimal: "a number",
    _shares: "a whole number, or parent",
    _minutes: "minutes, or [D-]HH:MM:SS in quotes",
    _time_limit: "minutes, [D-]HH:MM:SS in quotes, or UNLIMITED",
    _grace: "seconds, or [D-]HH:MM:SS in quotes",
    tres: "such as cpu=4,mem=2G,gres/gpu=1",
    _names: "names with commas between",
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
# The least that YAML, which counts by sixty, makes of H:MM:SS without quotes.
_HOUR = 3600
# What Slurm shows of a setting that nobody made; nothing of all others.
UNSET = {
    "Fairshare": "1",
    "GraceTime": "0",
    "PreemptMode": "cluster",
    "Priority": "0",
    "UsageFactor": "1",
}
# What takes a setting back; -1 does for all others.
TAKEN_BACK = {"Preempt": "", "PreemptMode": "cluster", "QOS": ""}


def written(value: object) -> str:
    """Return a value of the inventory as sacctmgr reads it; nothing for one that is to be as if
    nobody made it.
    """
    text = (
        ",".join(map(str, value))
        if isinstance(value, list)
        else ""
        if value is None
        else str(value)
    )
    return "" if text == "-1" else text


def faults(known: Mapping[str, Kind], asked: object) -> Iterator[tuple[str, str, str]]:
    """Find settings that sacctmgr does not know or cannot read: the name, what is wrong, and what
    may be there.

    Args:
        known: ``QOS``, ``ACCOUNT`` or ``PARTITION_TIMES``.
        asked: Values by setting, or nothing. What is neither is found without a name.
    """
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        yield "", f'"{asked}"', "settings by name, such as {MaxWall: 90}"
        return
    for name, value in asked.items():
        text = written(value)
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), [one.lower() for one in known], n=1)
            meant = "".join(f"did you mean {one}? " for one in known if one.lower() in near)
            yield str(name), "there is no such setting", f"{meant}one of {', '.join(sorted(known))}"
        elif known[name] in (_minutes, _time_limit) and isinstance(value, int) and value >= _HOUR:
            yield (
                name,
                f"{value}, as YAML reads {_clock(value)} too",
                "[D-]HH:MM:SS in quotes, or minutes in quotes",
            )
        elif text:
            try:
                known[name](text)
            except ValueError:
                yield name, f'"{text}"', FORMS[known[name]]


def _clock(number: int) -> str:
    return f"{number // _HOUR}:{number // 60 % 60:02}:{number % 60:02}"


def settings(
    known: Mapping[str, Kind], asked: Mapping[str, object], shown: Mapping[str, str]
) -> dict[str, str]:
    """Return what sacctmgr has to be told for all known settings to be as asked; what is not asked
    is taken back.

    Args:
        known: ``QOS`` or ``ACCOUNT``.
        asked: Values by setting.
        shown: What sacctmgr shows, by setting.

    >>> settings(QOS, {"MaxWall": 90}, {"MaxWall": "", "MaxTRESPerUser": "cpu=4", "Priority": "0"})
    {'MaxTRESPerUser': 'cpu=-1', 'MaxWall': '90'}
    """
    told = {}
    for name in sorted(known.keys() & shown.keys()):
        kind = known[name]
        want, have = (
            text or UNSET.get(name, "") for text in (written(asked.get(name)), shown[name])
        )
        if _is_same(kind, want, have):
            continue
        if kind is tres:
            told[name] = ",".join(filter(None, [want, *_without(want, have)]))
        else:
            told[name] = written(asked.get(name)) or TAKEN_BACK.get(name, "-1")
    return told


def _is_same(kind: Kind, want: str, have: str) -> bool:
    if not want or not have:
        return want == have
    asked = kind(want)
    try:
        return bool(asked == kind(have))
    except ValueError:  # sacctmgr shows what nobody here knows: it is told again
        return False


def _without(want: str, have: str) -> list[str]:
    kept = {name for name, _ in tres(want)} if want else set()
    shown = [part.partition("=")[0].lower() for part in have.split(",") if part]
    return [f"{name}=-1" for name in sorted(shown) if name not in kept]
