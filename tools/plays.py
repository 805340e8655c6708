#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates playbooks from meta/site.yml, the table of roles and groups.

Writes the parts of site.yml, playbooks/teardown.yml and playbooks/tasks/verify_host.yml. They are
static files, so ``--tags``, ``--limit`` and ``--list-tasks`` work as in any playbook.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

CHECKOUT = Path(__file__).resolve().parents[1]
TABLE = CHECKOUT / "meta" / "site.yml"
PLAYBOOKS = CHECKOUT / "playbooks"
WIDTH = 100

Node = dict[str, Any]


def role_name(entry: str | Node) -> str:
    """Return the name of a role that a play lists with or without variables."""
    return entry if isinstance(entry, str) else str(entry["role"])


def roles_of(play: Node) -> list[str]:
    """Return the roles that a play runs, last one first and without duplicates."""
    entries = [*play.get("before", []), *play.get("roles", []), *play.get("steps", [])]
    return list(dict.fromkeys(map(role_name, reversed(entries))))


def plays_of(table: Node) -> list[Node]:
    """Return the plays of site.yml in order."""
    plays = []
    for part in table["playbooks"].values():
        plays += part["plays"]
    return plays


def groups_of(table: Node, *roles: str) -> list[str]:
    """Return the groups on which roles run, in the order of the plays and without duplicates."""
    groups: dict[str, None] = {}
    for play in plays_of(table):
        if set(roles) & set(roles_of(play)):
            groups |= dict.fromkeys(play["hosts"])
    return list(groups)


def teardown(table: Node) -> Iterator[Node]:
    """Yield the plays that remove the site: name, comment, hosts and roles."""
    for play in reversed(plays_of(table)):
        removal = play.get("teardown")
        if isinstance(removal, list):
            yield from _group_by_group(play, removal)
        elif removal:
            own = roles_of(play)
            everywhere = removal.get("everywhere")
            yield {
                "name": removal["name"],
                "comment": removal.get("comment", ""),
                "hosts": ":".join(groups_of(table, *own) if everywhere else play["hosts"]),
                "roles": [*removal.get("also", []), *own],
            }


def _group_by_group(play: Node, names: list[str]) -> Iterator[Node]:
    for number in reversed(range(len(names))):
        later = "".join(f":!{group}" for group in play["hosts"][:number])
        hosts = play["hosts"][number] + later
        yield {"name": names[number], "comment": "", "hosts": hosts, "roles": roles_of(play)}


def checks(table: Node) -> Iterator[Node]:
    """Yield the checks of verify.yml: role, name, condition and groups."""
    for role, check in table["checks"].items():
        given = check if isinstance(check, dict) else {"name": check}
        yield {"role": role, "when": "", **given, "groups": groups_of(table, role)}


def commented(text: str, indent: str = "") -> str:
    """Return a text as lines of a comment; paragraphs and indented lines stay apart."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        wide = line.startswith(" ") or len(line) <= WIDTH - 2
        lines += [line] if wide else textwrap.wrap(line, WIDTH - 2 - len(indent))
    comment = ""
    for line in lines:
        comment += f"{indent}# {line}".rstrip() + "\n"
    return comment


def value_of(value: list[str] | str, indent: int) -> str:
    """Return a variable's value: a list in one line, a text in folded lines."""
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    start = "\n" + " " * indent
    return ">-" + start + start.join(textwrap.wrap(value, WIDTH - indent))


def check_variables(check: Node) -> str:
    """Return the variables of a check: in one line if they fit, otherwise as a block."""
    role, groups = check["role"], f"[{', '.join(check['groups'])}]"
    line = f"  vars: {{__verify_role: {role}, __verify_groups: {groups}}}"
    if len(line) <= WIDTH:
        return line
    return f"  vars:\n    __verify_role: {role}\n    __verify_groups:\n      {groups}"


def generated(table: Node) -> dict[Path, str]:
    """Return the text of each generated file. Pure."""
    environment = Environment(  # noqa: S701 - the result is YAML
        loader=FileSystemLoader(Path(__file__).with_suffix("")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    for function in (commented, value_of, role_name, check_variables):
        environment.filters[function.__name__] = function

    def rendered(template: str, **variables: Iterable[Node] | str) -> str:
        return environment.get_template(f"{template}.yml.j2").render(**variables)

    files = {}
    for name, part in table["playbooks"].items():
        text = rendered("part", plays=part["plays"], comment=part.get("comment", ""))
        files[PLAYBOOKS / f"{name}.yml"] = text
    files[PLAYBOOKS / "teardown.yml"] = rendered("teardown", plays=teardown(table))
    files[PLAYBOOKS / "tasks/verify_host.yml"] = rendered("verify_host", checks=checks(table))
    return files


def main() -> None:
    """Write the generated files."""
    for path, text in generated(yaml.safe_load(TABLE.read_text())).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
