# SPDX-License-Identifier: Apache-2.0
"""The specification, the defaults and the README table of every role.

``python -m tests.roles.catalogue`` writes the variables table of each README from the role's
specification. It also writes the table of what each change of Slurm's configuration costs, such as
a restart.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig
from tests.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
TABLE_START, TABLE_END = "<!-- variables -->", "<!-- /variables -->"
# Longer defaults are not shown in a table.
INLINE_DEFAULT_MAX = 70
COSTS_START, COSTS_END = "<!-- costs -->", "<!-- /costs -->"
COLLECTION = "gridstead.site."
COSTS_PAGE = ROOT / "docs/reference/slurm-changes.md"

# Without Ansible's finder, Python cannot import the collection's files by their full names. A
# process may install the finder once.
if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(ROOT / ".collections")])


@dataclass(frozen=True, slots=True)
class Role:
    """A role of the repository."""

    name: str

    @property
    def path(self) -> Path:
        """The role's folder."""
        return ROOT / "roles" / self.name

    @property
    def entry_points(self) -> dict[str, dict[str, Any]]:
        """The specifications of the role's entry points by name, in the order of the file."""
        return read_yaml(self.path / "meta/argument_specs.yml")["argument_specs"]

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """The public variables of all entry points, in the order of the specification, without
        duplicates.
        """
        options = {}
        for entry_point in self.entry_points.values():
            options |= entry_point.get("options", {})
        return options

    @property
    def defaults_text(self) -> str:
        """The text of the role's defaults; empty if the role has no variables."""
        path = self.path / "defaults/main.yml"
        return path.read_text() if path.exists() else ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The role's defaults."""
        return yaml.safe_load(self.defaults_text) or {}

    @property
    def vars(self) -> dict[str, Any]:
        """The role's internal constants."""
        path = self.path / "vars/main.yml"
        return (read_yaml(path) or {}) if path.exists() else {}

    @property
    def templates(self) -> list[Path]:
        """The role's templates, sorted."""
        return sorted(path for path in (self.path / "templates").rglob("*") if path.is_file())

    def comments(self) -> dict[str, str]:
        """Return the comment above each variable of the defaults as one line, in the order of the
        file.
        """
        texts: dict[str, str] = {}
        lines: list[str] = []  # the lines of the current comment
        # A variable without a default is commented out, for example "# slurm_nodes: []".
        for line in self.defaults_text.splitlines():
            variable = re.match(r"(?:# )?([a-z_0-9]+):(?: |$)", line)
            if variable and lines and variable[1].startswith(self.name):
                texts[variable[1]] = " ".join(lines)
            lines = [*lines, line[2:]] if line.startswith("# ") else []
        return texts


def playbook_plays(name: str) -> list[dict[str, Any]]:
    """Return the plays of a playbook, in order.

    The parts of playbooks/NAME.yml are in playbooks/NAME/. The import of a part is replaced by the
    plays of the part. Imports of other playbooks are returned as they are.
    """
    plays = []
    for play in read_yaml(ROOT / "playbooks" / f"{name}.yml"):
        part = play.get("ansible.builtin.import_playbook", "")
        if part.startswith(f"{name}/"):
            plays += playbook_plays(part.removesuffix(".yml"))
        else:
            plays.append(play)
    return plays


def roles() -> list[Role]:
    """Return all roles, sorted by name."""
    return [
        Role(path.parent.parent.name)
        for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))
    ]


def one_line(text: str | list[str]) -> str:
    """Return a description, which may be a list of paragraphs, as one line."""
    if isinstance(text, list):
        text = " ".join(text)
    return " ".join(text.split())


def table(role: Role) -> str:
    """Return the variables table of a role's README; empty if the role has no variables."""
    if not role.options:
        return ""
    rows = ["| variable | type | default | description |", "|---|---|---|---|"]
    for name, option in role.options.items():
        cells = [f"`{name}`", _type(option), _default(option), one_line(option["description"])]
        row = " | ".join(cell.replace("|", "\\|") for cell in cells)
        rows.append(f"| {row} |")
    return "\n".join(rows)


def _type(option: dict[str, Any]) -> str:
    """Return the type of an option for its table."""
    if "elements" in option:
        return f"{option['type']} of {option['elements']}"
    return str(option["type"])


def _default(option: dict[str, Any]) -> str:
    """Return the default of an option for its table."""
    if option.get("required"):
        return "**required**"
    if "default" not in option:
        return ""
    value = option["default"]
    text = value if isinstance(value, str) and value else json.dumps(value)
    if len(text) > INLINE_DEFAULT_MAX:
        return "[see there](defaults/main.yml)"
    return f"`{text}`"


def other_entry_points(role: Role) -> str:
    """Return the README's text about all entry points except `main`, one line each."""
    text = ""
    for name, entry_point in role.entry_points.items():
        if name == "main":
            continue
        text += f"\nEntry point `{name}`: {one_line(entry_point['description'])}"
        options = ", ".join(f"`{option}`" for option in entry_point.get("options", {}))
        if options:
            text += f" Reads {options}."
        text += "\n"
    return text


def with_table(text: str, role: Role) -> str:
    """Return a README with the role's table and its other entry points between the markers.

    Raises:
        ValueError: If the markers are missing.
    """
    return _between(text, TABLE_START, f"{table(role)}\n{other_entry_points(role)}", TABLE_END)


def slurm_costs() -> ModuleType:
    """Return the module that computes the cost of a change of Slurm's configuration."""
    return importlib.import_module(
        "ansible_collections.gridstead.site.plugins.module_utils.slurm_costs"
    )


def slurm_rules() -> tuple[object, ...]:
    """Return the cost rules of the newest known release of Slurm."""
    releases = importlib.import_module(
        "ansible_collections.gridstead.site.plugins.module_utils.slurm_releases"
    )
    release = releases.read_release(releases.known_releases()[-1], "costs")
    return slurm_costs().parse_rules(release)


def with_costs(text: str) -> str:
    """Return the text of COSTS_PAGE with the current table of cost rules between its markers."""
    costs = slurm_costs()
    return _between(text, COSTS_START, f"{costs.rules_table(slurm_rules())}\n", COSTS_END)


def _between(text: str, start: str, new: str, end: str) -> str:
    """Return a text with ``new`` as the content between two markers.

    Raises:
        ValueError: If the markers are missing.
    """
    before, _, rest = text.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_end:
        raise ValueError(f"a page lacks {start} and {end}")
    return f"{before}{start}\n{new}{end}{after}"


def main() -> None:
    """Write the variables table of each README and the table of COSTS_PAGE."""
    for role in roles():
        path = role.path / "README.md"
        path.write_text(with_table(path.read_text(), role))
    COSTS_PAGE.write_text(with_costs(COSTS_PAGE.read_text()))


if __name__ == "__main__":
    main()
