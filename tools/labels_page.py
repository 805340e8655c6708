# SPDX-License-Identifier: Apache-2.0
"""The text of docs/reference/labels.md, from the table of standard keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridstead.domain.labels.keys import (
    BENCHMARK_KEYS,
    DEEPSQUARE_KEYS,
    Form,
    StandardKey,
)
from gridstead.domain.labels.reserved import RESERVED_MEANINGS
from gridstead.domain.labels.values import MAX_LABEL_BYTES, MAX_LABELS

PAGE = """\
# Labels

A provider publishes labels on the chain: a key and a value each. A job can require labels of its
provider ([`--uses` and `--affinity`](../howto/use-the-grid.md)). The labels of a site are the
variable `gridstead_labels`, or the table `labels` of the [supervisor's
settings](settings.md#supervisor). The supervisor checks only their form. If the
[benchmarks](../howto/benchmarks.md) have measured the site, the supervisor also publishes the
labels of their report, in place of labels of the site with the same keys.

## Keys and values

- There are at most {labels} labels, of the site and of the benchmarks together. A key and a value
  have at most {size} bytes each.
- In keys and values, other characters than `a` to `z`, `A` to `Z`, `0` to `9`, `.`, `_` and `-` are
  removed or replaced by `-`, and upper case becomes lower case: `AMD EPYC (tm)` becomes
  `amd-epyc-tm`. Two keys that become the same are an error.
- A number is a plain decimal: an optional `-`, 1 to 18 digits, and optionally a `.` and 1 to 18
  digits, such as `1000` or `-2.5`. Clients compare such values as numbers, and all other values as
  text.
- A number in another form is an error, because it cannot be published unchanged: `1e+06`, `1,000`,
  `+5`, `50%`, `inf`.

## Keys with a fixed meaning

These are the {deepsquare} keys of DeepSquare. A value with a unit must be a number of at least 0.
The bandwidths in labels of DeepSquare's own software have other units than their keys say.

{deepsquare_table}

## Keys about benchmarks

{benchmark_table}

The report is a file that the provider has signed. Clients use it to tell [which values are
self-measured](../howto/benchmark-report.md#when-clients-trust-a-value) and which are only claimed.
Without `benchmark.suite`, clients show the units of all numbers as unknown. Jobs can require that
the benchmarks are not older than some hours: see `benchmark.age.h` below.

## Reserved keys

A label with such a key is an error. In a [condition of a
job](../explanation/matching.md#conditions-with-reserved-keys), these keys mean something else than
a label.

| key | what a condition compares |
|---|---|
{reserved_rows}
"""


def page() -> str:
    """Return the text of the page."""
    reserved_rows = [f"| `{key}` | {meaning} |" for key, meaning in RESERVED_MEANINGS.items()]
    return PAGE.format(
        labels=MAX_LABELS,
        size=MAX_LABEL_BYTES,
        deepsquare=len(DEEPSQUARE_KEYS),
        deepsquare_table="\n".join(_table(DEEPSQUARE_KEYS)),
        benchmark_table="\n".join(_table(BENCHMARK_KEYS)),
        reserved_rows="\n".join(reserved_rows),
    )


def _table(keys: Iterable[StandardKey]) -> Iterator[str]:
    yield "| key | value | meaning |"
    yield "|---|---|---|"
    for standard in keys:
        value = standard.unit if standard.form is Form.NUMBER else standard.form.value
        yield f"| `{standard.key}` | {value} | {standard.meaning} |"
