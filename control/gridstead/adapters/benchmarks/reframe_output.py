# SPDX-License-Identifier: Apache-2.0
"""Reads from the output of a running ReFrame which steps have started and ended.

The results are in ReFrame's report. So a line in another format only makes the progress incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gridstead.ports.benchmarks import StepWatch

_LINE = re.compile(r"\[ +(RUN|OK|FAIL) +\] (?:\( *\d+/\d+\) )?\S+ %step=(\S+) .*")


def watch_output(lines: Iterable[bytes], watch: StepWatch) -> bytes:
    """Report the start and the end of each step, and return the whole output at its end."""
    output = []
    for line in lines:
        output.append(line)
        match = _LINE.fullmatch(line.decode(errors="replace").rstrip())
        if match is None:
            continue
        result, step = match.groups()
        if result == "RUN":
            watch.started(step)
        else:
            watch.ended(step, has_failed=result == "FAIL")
    return b"".join(output)
