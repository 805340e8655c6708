# SPDX-License-Identifier: Apache-2.0
"""Templates in the language of Go's text/template, in which modules of workflows are written.

A template has access to its values only: no files, environment, clock or network. Its work and its
size are limited. What Go has and this package does not (``define``, ``template``, ``block``,
``break``, ``continue``, functions with side effects) is an error that names the construct.
"""

from __future__ import annotations

from gridstead.workflow.gotemplate.evaluate import expand
from gridstead.workflow.gotemplate.nodes import Value

__all__ = ["Value", "expand"]
