# SPDX-License-Identifier: Apache-2.0
"""An interpreter for Go's text/template, the language in which modules of workflows are written.

A template can access only its values: no files, environment, clock or network. Its work and its
size are limited. The result follows only from the template and its values, so functions of time and
chance are not available.
"""

from __future__ import annotations

from gridstead.workflow.gotemplate.evaluate import expand
from gridstead.workflow.gotemplate.nodes import Value

__all__ = ["Value", "expand"]
