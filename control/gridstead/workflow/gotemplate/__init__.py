# SPDX-License-Identifier: Apache-2.0
"""An interpreter for Go's text/template, the language in which modules of workflows are written.

A template can access only its values: no files, environment, clock or network. Its work and its
size are limited. ``define``, ``template``, ``block``, ``break``, ``continue`` and functions with
side effects are not supported. Each use of them is an error.
"""

from __future__ import annotations

from gridstead.workflow.gotemplate.evaluate import expand
from gridstead.workflow.gotemplate.nodes import Value

__all__ = ["Value", "expand"]
