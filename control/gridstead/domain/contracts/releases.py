# SPDX-License-Identifier: Apache-2.0
"""The versions of contracts that this release can use.

MetaScheduler reports the version of a set. A generation is the first number of the version. The
contracts of DeepSquare 1.2 report no version and are generation 1.
"""

from __future__ import annotations

DEEPSQUARE = 1
GENERATION_2 = 2
GENERATIONS = (DEEPSQUARE, GENERATION_2, 3)
THIS_RELEASE = "3.0.0"
# The releases whose artifacts this release contains, so that their code can be recognised.
EARLIER_RELEASES = ("2.0.0",)


def generation_of(version: str) -> int | None:
    """Return the generation of contracts that report a version; None if it cannot be used.

    Args:
        version: The text that MetaScheduler reports; empty if it reports no version.
    """
    if not version:
        return DEEPSQUARE
    number, _, _ = version.partition(".")
    known = {str(generation): generation for generation in GENERATIONS if generation > DEEPSQUARE}
    return known.get(number)
