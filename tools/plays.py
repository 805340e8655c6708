#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate playbooks from meta/site.yml, the table of roles and groups.

The program writes the playbooks that site.yml imports, playbooks/teardown.yml and
playbooks/tasks/verify_host.yml. The generated playbooks are static, so ``--tags``, ``--limit`` and
``--list-tasks`` work as usual.
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

Node = dict[str, Any]  # a mapping of the table, such as a play


def role_name(entry: str | Node) -> str:
    """Return the role of an entry in a play: the entry is a name, or a mapping with variables."""
    return entry if isinstance(entry, str) else str(entry["role"])


def roles_of(play: Node) -> list[str]:
    """Return the roles that a play runs, in reverse order and without duplicates."""
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
    """Yield the name, comment, hosts and roles of each play that removes the site."""
    for play in reversed(plays_of(table)):
        removal = play.get("teardown")
        if isinstance(removal, list):
            yield from _group_by_group(play, removal)
        elif removal:
            roles = roles_of(play)
            groups = groups_of(table, *roles) if removal.get("everywhere") else play["hosts"]
            yield {
                "name": removal["name"],
                "comment": removal.get("comment", ""),
                "hosts": ":".join(groups),
                "roles": [*removal.get("also", []), *roles],
            }


def _group_by_group(play: Node, names: list[str]) -> Iterator[Node]:
    """Yield a play for each group of a play, last group first.

    A host that is in several of these groups is in the play of the group that is listed first, and
    in no other.
    """
    for index in reversed(range(len(names))):
        excluded_groups = "".join(f":!{group}" for group in play["hosts"][:index])
        hosts = play["hosts"][index] + excluded_groups
        yield {"name": names[index], "comment": "", "hosts": hosts, "roles": roles_of(play)}


def checks(table: Node) -> Iterator[Node]:
    """Yield the role, name, condition and groups of each check of verify.yml."""
    for role, check in table["checks"].items():
        fields = check if isinstance(check, dict) else {"name": check}
        yield {"role": role, "when": "", **fields, "groups": groups_of(table, role)}


def comment_lines(text: str, indent: str = "") -> str:
    """Return a text as a comment, with long lines wrapped. Indented lines are not wrapped."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith(" ") or len(line) <= WIDTH - 2:
            lines.append(line)
        else:
            lines += textwrap.wrap(line, WIDTH - 2 - len(indent))
    comment = ""
    for line in lines:
        comment += f"{indent}# {line}".rstrip() + "\n"
    return comment


def value_of(value: list[str] | str, indent: int) -> str:
    """Return the YAML of a variable's value: a list on one line, a text as a folded block."""
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    line_start = "\n" + " " * indent
    lines = textwrap.wrap(value, WIDTH - indent)
    return line_start.join([">-", *lines])


def check_variables(check: Node) -> str:
    """Return the YAML of a check's variables, on one line if the line is short enough."""
    role, groups = check["role"], f"[{', '.join(check['groups'])}]"
    line = f"  vars: {{__verify_role: {role}, __verify_groups: {groups}}}"
    if len(line) <= WIDTH:
        return line
    return f"  vars:\n    __verify_role: {role}\n    __verify_groups:\n      {groups}"


def generated_files(table: Node) -> dict[Path, str]:
    """Return the text of each generated file, by path."""
    environment = Environment(  # noqa: S701 - the result is YAML
        loader=FileSystemLoader(Path(__file__).with_suffix("")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    for function in (comment_lines, value_of, role_name, check_variables):
        environment.filters[function.__name__] = function

    def render(template: str, **variables: Iterable[Node] | str) -> str:
        return environment.get_template(f"{template}.yml.j2").render(**variables)

    files = {}
    for name, part in table["playbooks"].items():
        text = render("part", plays=part["plays"], comment=part.get("comment", ""))
        files[PLAYBOOKS / f"{name}.yml"] = text
    files[PLAYBOOKS / "teardown.yml"] = render("teardown", plays=teardown(table))
    files[PLAYBOOKS / "tasks/verify_host.yml"] = render("verify_host", checks=checks(table))
    return files


def main() -> None:
    """Write the generated files."""
    for path, text in generated_files(yaml.safe_load(TABLE.read_text())).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
