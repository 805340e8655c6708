# SPDX-License-Identifier: Apache-2.0
"""The table of network flows in docs/reference/flows.md.

``python -m tests.roles.flows_page`` writes the table from inventory/group_vars/all/flows.yml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tests.roles.catalogue import ROOT
from tests.yaml_files import read_yaml

PAGE = ROOT / "docs/reference/flows.md"
DATA = ROOT / "inventory/group_vars/all/flows.yml"
START, END = "<!-- flows -->\n", "<!-- /flows -->\n"
_VARIABLE = re.compile(r"\{\{ (\w+)")


def table(flows: Iterable[dict[str, Any]]) -> str:
    """Return the flows as a Markdown table. The order of the flows does not change."""
    lines = ["| flow | to | from | ports | under TLS |", "|---|---|---|---|---|"]
    for flow in flows:
        ports = [f"{_value(port)}/tcp" for port in flow.get("tcp", [])]
        ports += [f"{_value(port)}/udp" for port in flow.get("udp", [])]
        columns = (
            flow["what"],
            names(flow["to"]),
            names(flow["from"]),
            ", ".join(ports),
            tls(flow),
        )
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the text of the page, in which the table is replaced by the current table."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    flows = read_yaml(DATA)["gridstead_flows"]
    return f"{before}{START}{table(flows)}{END}{after}"


def names(value: list[str] | str) -> str:
    """Return the targets or the sources of a flow as the text of a cell."""
    return _value(value) if isinstance(value, str) else ", ".join(value)


def tls(flow: dict[str, Any]) -> str:
    """Return the cell that says whether a flow uses TLS: "yes", or "no" with the reason."""
    return f"no: {flow['plain']}" if "plain" in flow else "yes"


def _value(value: object) -> str:
    """Return a value, or the name of its variable if the value is a template."""
    match = _VARIABLE.search(str(value))
    return f"`{match[1]}`" if match else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
