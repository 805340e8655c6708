# SPDX-License-Identifier: Apache-2.0
"""The page docs/reference/hosts.md, which lists the units, ports and files of each group.

``python -m tests.roles.hosts_page`` writes its tables of ports from
inventory/group_vars/all/flows.yml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from tests.roles import flows_page
from tests.roles.catalogue import ROOT

PAGE = ROOT / "docs/reference/hosts.md"
PORTS = re.compile(r"<!-- ports (\w+) -->\n.*?<!-- /ports -->\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one or several groups."""

    groups: tuple[str, ...]
    units: tuple[str, ...]
    files: tuple[tuple[str, str], ...]  # Each path, with its cell of column backup.


def page(text: str) -> str:
    """Return the page with the current tables of ports."""
    variables = yaml.safe_load(flows_page.DATA.read_text())

    def ports(match: re.Match[str]) -> str:
        return f"<!-- ports {match[1]} -->\n{_table(match[1], variables)}<!-- /ports -->\n"

    return PORTS.sub(ports, text)


def _table(group: str, variables: dict[str, Any]) -> str:
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
    """Return a port, or the variable with the port, with its default if that is a number."""
    variable = re.search(r"\{\{ (\w+)", str(port))
    if variable is None:
        return f"{port}/{protocol}"
    default = re.search(r"default\((\d+)\)", str(port))
    value = default[1] if default else variables.get(variable[1])
    return f"{value}/{protocol} (`{variable[1]}`)" if value else f"`{variable[1]}`/{protocol}"


def sections() -> list[Section]:
    """Return the sections about groups."""
    parts = re.split(r"^## Groups? (.+)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return [_section(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def _section(title: str, text: str) -> Section:
    names = title.partition(":")[0].split(" and ")
    lines = PORTS.sub("", text).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    units = [name for row in rows for name in _quoted(row[0]) if not name.startswith("/")]
    files = [(path, _backup(row)) for row in rows for path in _quoted(row[0]) if path[0] == "/"]
    return Section(tuple(names), tuple(units), tuple(files))


def _quoted(cell: str) -> Iterator[str]:
    yield from re.findall(r"`([^`]+)`", cell)


def _backup(row: list[str]) -> str:
    return row[2].strip("`") if len(row) > 2 else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
