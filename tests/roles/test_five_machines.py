# SPDX-License-Identifier: Apache-2.0
"""The layout that docs/howto/provider.md shows is one that site.yml can build."""

import re

import yaml
from tests.roles.catalogue import ROOT
from tests.roles.inventories import read_inventory

EXAMPLE = ROOT / "inventory/example"
TAKEN_OUT = ("slurm_state_directory", "slurm_gres")


def test_five_machines_are_enough(loader, tmp_path):
    page = (ROOT / "docs/howto/provider.md").read_text().partition("## Five machines")[2]
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    groups = shown["all"]["children"]
    example = yaml.safe_load((EXAMPLE / "hosts.yml").read_text())["all"]["children"]
    said = yaml.safe_load((EXAMPLE / "group_vars/all/example.yml").read_text())
    folder = tmp_path / "mine"
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / "group_vars/all/00-wiring").symlink_to(ROOT / "inventory/group_vars/all")
    kept = {name: value for name, value in said.items() if name not in TAKEN_OUT}
    del kept["slurm_partitions"]["gpu"]
    (folder / "group_vars/all/mine.yml").write_text(yaml.safe_dump(kept))
    joined = {name: group for name, group in example.items() if "children" in group}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups | joined}}))

    inventory = read_inventory(loader, str(folder), tmp_path / "secrets")

    assert groups.keys() | joined.keys() == example.keys()
    assert len(inventory.groups["all"]) == 5
    assert set(inventory.problems()) <= set(
        read_inventory(loader, "example", tmp_path / "secrets").problems()
    )
