# SPDX-License-Identifier: Apache-2.0
"""The page docs/reference/hosts.md, which lists the units, ports and files of each group.

``python -m tests.roles.hosts_page`` writes its tables of ports from
inventory/group_vars/all/flows.yml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.roles import flows_page
from tests.roles.catalogue import ROOT
from tests.yaml_files import read_yaml

PAGE = ROOT / "docs/reference/hosts.md"
PORTS = re.compile(r"<!-- ports (\w+) -->\n.*?<!-- /ports -->\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page, about one or several groups."""

    groups: tuple[str, ...]
    units: tuple[str, ...]
    files: tuple[tuple[str, str], ...]  # each path with its cell of column backup


def page(text: str) -> str:
    """Return the text of the page with the current tables of ports."""
    variables = read_yaml(flows_page.DATA)

    def current_table(match: re.Match[str]) -> str:
        group = match[1]
        return f"<!-- ports {group} -->\n{_table(group, variables)}<!-- /ports -->\n"

    return PORTS.sub(current_table, text)


def _table(group: str, variables: dict[str, Any]) -> str:
    """Return the table of the ports of a group."""
    lines = ["| ports | who connects | for | under TLS |", "|---|---|---|---|"]
    for flow in variables["gridstead_flows"]:
        if group not in flow["to"]:
            continue
        ports = [_port(port, "tcp", variables) for port in flow.get("tcp", [])]
        ports += [_port(port, "udp", variables) for port in flow.get("udp", [])]
        cells = [", ".join(ports), flows_page.names(flow["from"]), flow["what"]]
        lines.append(f"| {' | '.join([*cells, flows_page.tls(flow)])} |")
    return "\n".join(lines) + "\n"


def _port(port: int | str, protocol: str, variables: dict[str, Any]) -> str:
    """Return the cell of a port.

    The port is a number or a template. For a template, the cell names the variable, after its
    default if the default is a number, for example ``443/tcp (`gateway_port`)``.
    """
    variable = re.search(r"\{\{ (\w+)", str(port))
    if variable is None:
        return f"{port}/{protocol}"
    default = re.search(r"default\((\d+)\)", str(port))
    value = default[1] if default else variables.get(variable[1])
    return f"{value}/{protocol} (`{variable[1]}`)" if value else f"`{variable[1]}`/{protocol}"


def sections() -> list[Section]:
    """Return the sections of the page whose titles name groups."""
    parts = re.split(r"^## Groups? (.+)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return [_section(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def _section(title: str, text: str) -> Section:
    """Return the units and the files in the tables of a section, without the table of ports."""
    groups = title.partition(":")[0].split(" and ")
    units = []
    files = []
    for line in PORTS.sub("", text).splitlines():
        if not line.startswith("| `"):
            continue
        names, _, *more_cells = line.strip("| ").split(" | ")
        backup = more_cells[0].strip("`") if more_cells else ""
        for name in re.findall(r"`([^`]+)`", names):
            if name.startswith("/"):
                files.append((name, backup))
            else:
                units.append(name)
    return Section(tuple(groups), tuple(units), tuple(files))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
