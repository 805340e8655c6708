# SPDX-License-Identifier: Apache-2.0
"""A workflow as a batch script, one module per theme."""

from __future__ import annotations

from gridstead.workflow.render.script import Site, render
from gridstead.workflow.render.secrets import secrets_of
from gridstead.workflow.render.words import quote

__all__ = ["Site", "quote", "render", "secrets_of"]
