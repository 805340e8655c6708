# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: joins the commands of contracts.py and administration.py in one group."""

from __future__ import annotations

from gridstead.cli import administration, contracts

app = contracts.app
app.add_typer(administration.app)
