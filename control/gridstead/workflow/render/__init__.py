# SPDX-License-Identifier: Apache-2.0
"""Renders a workflow as a batch script."""

from __future__ import annotations

from gridstead.workflow.render.script import ScriptPaths, render
from gridstead.workflow.render.secrets import secrets_of
from gridstead.workflow.render.shell_text import quote

__all__ = ["ScriptPaths", "quote", "render", "secrets_of"]
