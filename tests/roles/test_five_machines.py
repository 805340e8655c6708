# SPDX-License-Identifier: Apache-2.0
"""The five-machine layout in docs/howto/provider.md is a valid inventory."""

import re

import yaml
from tests.roles.catalogue import ROOT
from tests.roles.inventories import read_inventory
from tests.yaml_files import read_yaml

EXAMPLE = ROOT / "inventory/example"
# Variables of the example inventory that concern hosts that the five-machine layout lacks.
REMOVED_VARIABLES = ("slurm_state_directory", "slurm_gres")


def test_five_machines_are_enough(loader, tmp_path):
    page = (ROOT / "docs/howto/provider.md").read_text().partition("## Five machines")[2]
    layout = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    example_groups = read_yaml(EXAMPLE / "hosts.yml")["all"]["children"]
    groups = layout["all"]["children"]
    for name, group in example_groups.items():
        if "children" in group:
            groups[name] = group
    variables = read_yaml(EXAMPLE / "group_vars/all/example.yml")
    for name in REMOVED_VARIABLES:
        variables.pop(name, None)
    del variables["slurm_partitions"]["gpu"]
    folder = tmp_path / "inventory"
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / "group_vars/all/00-wiring").symlink_to(ROOT / "inventory/group_vars/all")
    (folder / "group_vars/all/site.yml").write_text(yaml.safe_dump(variables))
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))

    inventory = read_inventory(loader, str(folder), tmp_path / "secrets")

    assert groups.keys() == example_groups.keys()
    assert len(inventory.groups["all"]) == 5
    assert inventory.problems() == []
