# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: the commands that read a set of contracts and those that change it."""

from __future__ import annotations

from gridstead.cli import administration, contracts

app = contracts.app
app.add_typer(administration.app)
