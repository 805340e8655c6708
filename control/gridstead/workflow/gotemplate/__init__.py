# SPDX-License-Identifier: Apache-2.0
"""Templates in the form of Go's text/template, as modules of workflows are written in.

Values in, text out: no file, no environment, no clock, no network, and bounds on work and size.
What the form has and this has not (``define``, ``template``, ``block``, ``break``, ``continue``,
functions of the outside world) is refused by name.
"""

from __future__ import annotations

from gridstead.workflow.gotemplate.evaluate import expand
from gridstead.workflow.gotemplate.nodes import Value

__all__ = ["Value", "expand"]
