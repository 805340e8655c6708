# SPDX-License-Identifier: Apache-2.0
"""Settings of QOS and accounts in sacctmgr: validation and comparison of their values.

sacctmgr prints ``MaxWall=90`` as ``01:30:00`` and ``mem=2048`` as ``mem=2G``. Therefore values are
parsed before they are compared. The rules were taken from the manual page sacctmgr(1) and checked
with sacctmgr 24.11.5 for each setting. The functions do not access files and do not run sacctmgr.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_NUMBERS = r"\d+(?::\d+){0,2}"  # one to three numbers separated by colons
# ``D-H[:M[:S]]``, or one to three numbers separated by colons.
_DURATION = re.compile(rf"(?P<days>\d+)-(?P<time_of_day>{_NUMBERS})|(?P<without_days>{_NUMBERS})")
_AMOUNT = re.compile(r"(\d+)([KMGTP]?)", re.IGNORECASE)  # such as 4 or 2G
_TRES = re.compile(r"[a-z]+(/[^=,]+)?", re.IGNORECASE)  # such as cpu or gres/gpu
_PREFIXES_IN_MB = ("mem", "bb/")
_UNITS = "KMGTP"


def _parse_number(text: str) -> int:
    return int(text)


def _parse_decimal(text: str) -> float:
    return float(text)


def _parse_seconds(text: str) -> int:
    """Return a time in seconds. The text is ``D-H[:M[:S]]``, ``H:M:S``, ``M:S`` or minutes."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(text)
    if match["days"]:
        parts = list(map(int, match["time_of_day"].split(":")))
        parts += [0] * (3 - len(parts))  # minutes and seconds are optional
        hours, minutes, seconds = parts
        return int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    parts = list(map(int, match["without_days"].split(":")))
    if len(parts) == 1:
        return parts[0] * 60
    if len(parts) == 2:
        minutes, seconds = parts
        return minutes * 60 + seconds
    hours, minutes, seconds = parts
    return hours * 3600 + minutes * 60 + seconds


def _parse_shares(text: str) -> int | str:
    """Return a number of shares, or ``parent``."""
    return "parent" if text.lower() == "parent" else int(text)


def _parse_minutes(text: str) -> int:
    """Return a time in minutes, rounded up: sacctmgr reads ``30:30`` as 31."""
    return math.ceil(_parse_seconds(text) / 60)


def _parse_time_limit(text: str) -> int | None:
    """Return a time limit of slurm.conf in minutes, or None if there is no limit."""
    return None if text.upper() in {"INFINITE", "UNLIMITED"} else _parse_minutes(text)


def _parse_grace_time(text: str) -> int:
    """Return a grace time in seconds. Unlike other times, a plain number is seconds."""
    return int(text) if text.isdigit() else _parse_seconds(text)


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split(","))


def _parse_word(text: str) -> str:
    return text.lower()


def parse_tres(text: str) -> tuple[tuple[str, int], ...]:
    """Return the amount of each resource, sorted by name. Memory is in MB.

    >>> parse_tres("mem=2G,cpu=4")
    (('cpu', 4), ('mem', 2048))
    """
    amounts = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        match = _AMOUNT.fullmatch(amount)
        if not match or not _TRES.fullmatch(name):
            raise ValueError(part)
        power = 0
        if match[2]:
            # K is 1024, and M is 1024**2. For resources in MB, M is 1, and K is 1/1024.
            power = _UNITS.index(match[2].upper()) + 1
            if name.lower().startswith(_PREFIXES_IN_MB):
                power -= 2
        amounts[name.lower()] = int(int(match[1]) * 1024**power)
    return tuple(sorted(amounts.items()))


# A function that parses the text of a setting. Settings of one type have the same parser.
Parser = Callable[[str], Any]
ALLOWED_VALUES: dict[Parser, str] = {
    _parse_number: "a whole number",
    _parse_decimal: "a number",
    _parse_shares: "a whole number, or parent",
    _parse_minutes: "minutes, or [D-]HH:MM:SS in quotes",
    _parse_time_limit: "minutes, [D-]HH:MM:SS in quotes, or UNLIMITED",
    _parse_grace_time: "seconds, or [D-]HH:MM:SS in quotes",
    parse_tres: "such as cpu=4,mem=2G,gres/gpu=1",
    _parse_names: "names separated by commas",
    _parse_word: "a name",
}
_QOS_AND_ACCOUNT: dict[str, Parser] = {
    "GrpJobs": _parse_number,
    "GrpJobsAccrue": _parse_number,
    "GrpSubmitJobs": _parse_number,
    "GrpTRES": parse_tres,
    "GrpTRESMins": parse_tres,
    "GrpTRESRunMins": parse_tres,
    "GrpWall": _parse_minutes,
    "MaxTRESMinsPerJob": parse_tres,
    "MaxTRESPerJob": parse_tres,
    "MaxTRESPerNode": parse_tres,
    "MaxWall": _parse_minutes,
    "Priority": _parse_number,
}
QOS: dict[str, Parser] = {
    **_QOS_AND_ACCOUNT,
    "Flags": _parse_names,
    "GraceTime": _parse_grace_time,
    "LimitFactor": _parse_decimal,
    "MaxJobsAccruePerAccount": _parse_number,
    "MaxJobsAccruePerUser": _parse_number,
    "MaxJobsPerAccount": _parse_number,
    "MaxJobsPerUser": _parse_number,
    "MaxSubmitJobsPerAccount": _parse_number,
    "MaxSubmitJobsPerUser": _parse_number,
    "MaxTRESPerAccount": parse_tres,
    "MaxTRESPerUser": parse_tres,
    "MaxTRESRunMinsPerAccount": parse_tres,
    "MaxTRESRunMinsPerUser": parse_tres,
    "MinTRESPerJob": parse_tres,
    "Preempt": _parse_names,
    "PreemptExemptTime": _parse_minutes,
    "PreemptMode": _parse_word,
    "UsageFactor": _parse_decimal,
    "UsageThreshold": _parse_decimal,
}
ACCOUNT: dict[str, Parser] = {
    **_QOS_AND_ACCOUNT,
    "DefaultQOS": _parse_word,
    "Fairshare": _parse_shares,
    "MaxJobs": _parse_number,
    "MaxJobsAccrue": _parse_number,
    "MaxSubmitJobs": _parse_number,
    "QOS": _parse_names,
}
PARTITION_TIMES: dict[str, Parser] = {
    "DefaultTime": _parse_time_limit,
    "MaxTime": _parse_time_limit,
}
# YAML reads the time 1:00:00 without quotes as the number 3600. Every longer time gives a larger
# number. Therefore a number from 3600 on is refused, because it may be such a time.
_HOUR_S = 3600
# The values that sacctmgr prints for these settings if they are unset. sacctmgr may format a value
# differently, such as 1.000000. For every other unset setting sacctmgr prints nothing.
UNSET_VALUES = {
    "Fairshare": "1",
    "GraceTime": "0",
    "PreemptMode": "cluster",
    "Priority": "0",
    "UsageFactor": "1",
}
# The values that reset these settings. The value -1 resets each setting that is not in this table.
RESET_VALUES = {"Preempt": "", "PreemptMode": "cluster", "QOS": ""}


def to_sacctmgr_text(value: object) -> str:
    """Return a value of the inventory as text for sacctmgr; empty if the value is None or -1."""
    if value is None:
        return ""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "" if text == "-1" else text


def invalid_settings(
    parsers: Mapping[str, Parser], values: object
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the error and the allowed values of each invalid setting.

    Args:
        parsers: ``QOS``, ``ACCOUNT`` or ``PARTITION_TIMES``.
        values: Values by setting, or None. Another type yields one error with an empty name.
    """
    if values is None:
        return
    if not isinstance(values, Mapping):
        yield "", f'"{values}"', "settings by name, such as {MaxWall: 90}"
        return
    for name, value in values.items():
        parse = parsers.get(name)
        if parse is None:
            suggestion = _suggestion(str(name), parsers)
            yield str(name), f"there is no such setting{suggestion}", _allowed_names(parsers)
        elif (
            parse in (_parse_minutes, _parse_time_limit)
            and isinstance(value, int)
            and value >= _HOUR_S
        ):
            error = f"{value}, which is how YAML reads {_format_seconds(value)}"
            yield name, error, "[D-]HH:MM:SS in quotes, or minutes in quotes"
        elif not _is_valid(parse, to_sacctmgr_text(value)):
            yield name, f'"{to_sacctmgr_text(value)}"', ALLOWED_VALUES[parse]


def _suggestion(name: str, parsers: Mapping[str, Parser]) -> str:
    """Return a question that names the most similar setting; empty if there is none."""
    by_lower_case = {setting.lower(): setting for setting in parsers}
    similar_names = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[similar_names[0]]}?" if similar_names else ""


def _allowed_names(parsers: Mapping[str, Parser]) -> str:
    return f"one of {', '.join(sorted(parsers))}"


def _is_valid(parse: Parser, text: str) -> bool:
    if not text:
        return True
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _format_seconds(seconds: int) -> str:
    return f"{seconds // _HOUR_S}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def changed_settings(
    parsers: Mapping[str, Parser], requested: Mapping[str, object], current: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings to change, with their new values as sacctmgr reads them.

    Settings that are not requested are reset.

    Args:
        parsers: ``QOS`` or ``ACCOUNT``.
        requested: Values of the inventory by setting.
        current: Values in the output of sacctmgr by setting.

    >>> current = {"MaxWall": "", "MaxTRESPerUser": "cpu=4", "Priority": "0"}
    >>> changed_settings(QOS, {"MaxWall": 90}, current)
    {'MaxTRESPerUser': 'cpu=-1', 'MaxWall': '90'}
    """
    changes = {}
    for name in sorted(parsers.keys() & current.keys()):
        parse = parsers[name]
        new_text = to_sacctmgr_text(requested.get(name))
        new_value = new_text or UNSET_VALUES.get(name, "")
        old_value = current[name] or UNSET_VALUES.get(name, "")
        if _is_equal(parse, new_value, old_value):
            continue
        if parse is parse_tres:
            assignments = [new_value] if new_value else []
            assignments += _resource_resets(new_value, old_value)
            changes[name] = ",".join(assignments)
        else:
            changes[name] = new_text or RESET_VALUES.get(name, "-1")
    return changes


def _is_equal(parse: Parser, new: str, old: str) -> bool:
    if not new or not old:
        return new == old
    value = parse(new)
    try:
        return bool(value == parse(old))
    except ValueError:  # replace an old value that cannot be parsed
        return False


def _resource_resets(new: str, old: str) -> list[str]:
    """Return assignments such as ``cpu=-1``, one for each resource that only ``old`` contains."""
    retained_resources = dict(parse_tres(new)) if new else {}
    resets = []
    for resource in sorted(old.lower().split(",")):
        name, _, _ = resource.partition("=")
        if name and name not in retained_resources:
            resets.append(f"{name}=-1")
    return resets
