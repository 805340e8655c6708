# SPDX-License-Identifier: Apache-2.0
"""Reads the labels and conditions of a job, and checks that the grid understands them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from gridstead.cli.output import print_note
from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.labels.reserved import DEADLINE, RESERVED_KEYS
from gridstead.domain.labels.values import looks_like_number, number_or_none
from gridstead.domain.matching.conditions import problem_of
from gridstead.errors import InvalidInput

if TYPE_CHECKING:
    from gridstead.cli.client import GridClient

# key=value, such as os=linux
_LABEL_PATTERN = re.compile(r"([^=<>!]+)=(.*)")
# key, operator and value, such as memory>=64 or zone:in:eu
_AFFINITY_PATTERN = re.compile(r"([^=<>!:]+)(<=|>=|==|!=|<|>|=|:in:)(.*)")
# The operators that the grid spells in another way than the option.
_OPERATORS = {"=": "==", ":in:": "in"}
_ORDER_OPERATORS = frozenset({"<", "<=", ">", ">="})


def check_reserved_keys(client: GridClient, affinity: Iterable[Affinity]) -> None:
    """Check that the grid's meta-scheduler understands the conditions with reserved keys.

    With a condition that it does not understand, the job would wait for ever. If the settings name
    no queue view, only a note is printed.

    Raises:
        InvalidInput: If the meta-scheduler does not understand a condition.
        QueueViewUnavailable: If the queue view does not answer.
    """
    conditions = [condition for condition in affinity if condition.key in RESERVED_KEYS]
    if not conditions:
        return
    keys = ", ".join(sorted({condition.key for condition in conditions}))
    settings = client.settings
    if settings.queue_url is None:
        print_note(
            f"note: it is not checked whether the grid understands {keys}; if it does not, the job"
            " waits until you cancel it. Set queue_url to have this checked."
        )
        return
    # The import is slow.
    from gridstead.adapters.matching.queue_view import understood_keys  # noqa: PLC0415

    understood = understood_keys(settings.queue_url, ca=settings.ca_file)
    for condition in conditions:
        if condition.operator not in understood.get(condition.key, ()):
            raise InvalidInput(
                f"the grid does not understand --affinity {condition.key}{condition.operator}",
                detail=f"understood keys: {', '.join(sorted(understood)) or 'none'}",
                hint="Remove the condition. With it, the job would wait for ever.",
            )


def parse_label(text: str) -> Label:
    """Return the label that ``--uses`` requires.

    Raises:
        InvalidInput: If the text is not key=value, or the key is reserved.
    """
    match = _LABEL_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidInput(f"invalid --uses {text[:80]!r}", hint="Write key=value.")
    if match[1] in RESERVED_KEYS:
        raise InvalidInput(
            f"invalid --uses {text[:80]!r}",
            detail=f"{match[1]} is not a label of a provider",
            hint="Use --affinity for this key.",
        )
    return Label(key=match[1], value=match[2])


def parse_affinity(text: str) -> Affinity:
    """Return the condition of ``--affinity``.

    Raises:
        InvalidInput: If the text is not a condition, or its operator or value is not permitted.
    """
    match = _AFFINITY_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"invalid --affinity {text[:80]!r}",
            hint="Write key>=value (or <, <=, ==, >, !=), or key:in:text.",
        )
    key, typed_operator, value = match.groups()
    operator = _OPERATORS.get(typed_operator, typed_operator)
    if operator in _ORDER_OPERATORS and number_or_none(value) is None and looks_like_number(value):
        raise InvalidInput(
            f"invalid --affinity {text[:80]!r}",
            detail=f"{value[:80]!r} would be compared as text",
            hint="Write a number such as 1000 or -2.5: at most 18 digits before and after the "
            "decimal point, without an exponent, a plus sign or spaces.",
        )
    condition = Affinity(key=key, operator=operator, value=value)
    problem = problem_of(condition) if key in RESERVED_KEYS else None
    if problem is None and key == DEADLINE and Fraction(value) < time.time():
        problem = "the time is in the past"
    if problem is not None:
        raise InvalidInput(f"invalid --affinity {text[:80]!r}", detail=problem)
    return condition
