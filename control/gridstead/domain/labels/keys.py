# SPDX-License-Identifier: Apache-2.0
"""The keys of labels that have a fixed meaning on all grids, and the labels of a provider.

The first 31 keys are those of DeepSquare, with the units that their names promise. In
DeepSquare's own labels some values have another unit than the name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.reserved import RESERVED_KEYS
from gridstead.domain.labels.values import (
    MAX_LABELS,
    check_size,
    label_key,
    label_value,
    number_or_none,
)
from gridstead.errors import InvalidInput


class Form(Enum):
    """What the value of a key must be."""

    TEXT = "a text"
    NUMBER = "a number of at least 0"
    UNIX_SECONDS = "an integer of at least 0"
    DIGEST = "64 hexadecimal digits in lower case"
    URL = "a URL that starts with https://"


_PATTERNS = {
    Form.UNIX_SECONDS: re.compile(r"[0-9]{1,18}"),
    Form.DIGEST: re.compile(r"[0-9a-f]{64}"),
    Form.URL: re.compile(r"https://[!-~]+"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardKey:
    """A key with a fixed meaning.

    Attributes:
        key: The key.
        form: What the value must be.
        unit: The unit of a number. Empty for a number without a unit and for text.
        meaning: What the value is, as a phrase.
    """

    key: str
    meaning: str
    form: Form = Form.NUMBER
    unit: str = ""


# The directories of a site whose speed has labels, by their names in the keys.
STORAGE = {
    "scratch": "`/mnt/scratch`, shared by all nodes",
    "shared-tmp": "`/opt/cache/shared`, shared by all nodes",
    "shared-world-tmp": "`/opt/cache/world-tmp`, shared by all nodes",
    "disk-tmp": "`/opt/cache/disk/tmp`, on the disk of a node",
    "disk-world-tmp": "`/opt/cache/disk/world-tmp`, on the disk of a node",
}


def _storage_keys() -> Iterator[StandardKey]:
    for directory, description in STORAGE.items():
        for access in ("read", "write"):
            name = f"storage.{directory}.{access}"
            yield StandardKey(
                key=f"{name}.bw.mibps",
                unit="MiB/s (2^20 bytes per second)",
                meaning=f"{access} bandwidth of {description}",
            )
            yield StandardKey(
                key=f"{name}.iops",
                unit="operations per second",
                meaning=f"{access} operations of 2 MiB on {description}",
            )


DEEPSQUARE_KEYS = (
    StandardKey(key="os", form=Form.TEXT, meaning="operating system of the nodes"),
    StandardKey(key="arch", form=Form.TEXT, meaning="architecture of the CPUs"),
    StandardKey(key="cpu", form=Form.TEXT, meaning="model of the CPUs"),
    StandardKey(key="cpu.microarch", form=Form.TEXT, meaning="microarchitecture of the CPUs"),
    StandardKey(key="gpu", form=Form.TEXT, meaning="model of the GPUs"),
    StandardKey(
        key="compute.gflops",
        unit="Gflop/s (10^9 floating-point operations per second)",
        meaning="median speed of a node in solving linear equations, times the number of nodes",
    ),
    StandardKey(
        key="network.upload.bw.mbps",
        unit="Mbit/s (10^6 bits per second)",
        meaning="bandwidth from the site to the Internet",
    ),
    StandardKey(
        key="network.download.bw.mbps",
        unit="Mbit/s (10^6 bits per second)",
        meaning="bandwidth from the Internet to the site",
    ),
    StandardKey(
        key="network.p2p.bw.mbps",
        unit="Mbit/s (10^6 bits per second)",
        meaning="bandwidth from one node to another for large messages",
    ),
    StandardKey(
        key="network.p2p.latency.us",
        unit="microseconds",
        meaning="time of a message of 8 bytes from one node to another",
    ),
    StandardKey(
        key="network.all-to-all.latency.us",
        unit="microseconds",
        meaning="time in which each node sends 8 bytes to each other node",
    ),
    *_storage_keys(),
)
BENCHMARK_TIME = "benchmark.time"
BENCHMARK_SUITE = "benchmark.suite"
BENCHMARK_REPORT = "benchmark.report"
BENCHMARK_REPORT_URL = "benchmark.report.url"
BENCHMARK_KEYS = (
    StandardKey(
        key=BENCHMARK_TIME,
        form=Form.UNIX_SECONDS,
        unit="Unix seconds",
        meaning="when the values were measured",
    ),
    StandardKey(
        key=BENCHMARK_SUITE,
        form=Form.TEXT,
        meaning="name and version of the programs that measured the values",
    ),
    StandardKey(
        key=BENCHMARK_REPORT,
        form=Form.DIGEST,
        meaning="SHA-256 of the signed report with all measurements",
    ),
    StandardKey(key=BENCHMARK_REPORT_URL, form=Form.URL, meaning="where the report is"),
)
STANDARD_KEYS = {standard.key: standard for standard in (*DEEPSQUARE_KEYS, *BENCHMARK_KEYS)}


def unit_of(key: str) -> str:
    """Return the short unit of the values of a key. Empty if they have none.

    DeepSquare's own software publishes some values in other units. Its labels have no
    ``benchmark.suite``.
    """
    standard = STANDARD_KEYS.get(key)
    return standard.unit.partition(" (")[0] if standard else ""


def provider_labels(labels: Mapping[str, str]) -> tuple[Label, ...]:
    """Return the labels of a provider in the form of the grid, sorted by key.

    Args:
        labels: The value of each label by its key.

    Raises:
        InvalidInput: If a key is reserved, if two keys are the same in the form of the grid, if a
            key or a value is not permitted, or if there are more than 64 labels.
    """
    if len(labels) > MAX_LABELS:
        raise InvalidInput(f"invalid labels: there are {len(labels)}, at most {MAX_LABELS}")
    values: dict[str, str] = {}
    for original_key, text in labels.items():
        key = label_key(original_key)
        if key in RESERVED_KEYS:
            raise InvalidInput(
                f"must not have the key {original_key!r}, which has a meaning of its own in the"
                f" conditions of jobs. Reserved keys: {', '.join(sorted(RESERVED_KEYS))}"
            )
        if key in values:
            raise InvalidInput(f"invalid labels: two labels have the key {key}")
        values[key] = _value(key, text)
    return tuple(Label(key=key, value=value) for key, value in sorted(values.items()))


def _value(key: str, text: str) -> str:
    """Return the value of a label. Raises InvalidInput if it does not have the form of its key."""
    standard = STANDARD_KEYS.get(key)
    if standard is None or standard.form is Form.TEXT:
        return label_value(text, key=key)
    if not is_in_form(key, text):
        unit = f" in {standard.unit}" if standard.unit else ""
        raise InvalidInput(
            f"invalid value {text[:80]!r} of label {key}: it must be {standard.form.value}{unit}"
        )
    check_size(text, f"value {text[:80]!r} of label {key}")
    return text


def is_in_form(key: str, text: str) -> bool:
    """Return whether a value has the form of its key. The size is not checked.

    Args:
        key: A standard key whose form is not ``TEXT``.
        text: The value.
    """
    form = STANDARD_KEYS[key].form
    if form is Form.NUMBER:
        number = number_or_none(text)
        return number is not None and number >= 0
    return _PATTERNS[form].fullmatch(text) is not None
