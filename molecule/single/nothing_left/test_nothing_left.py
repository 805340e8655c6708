# SPDX-License-Identifier: Apache-2.0
"""A host after a teardown is what it was before the site, but for what declared.yml has, with the reason."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from gridstead_lab import names, processes

HERE = Path(__file__).resolve().parent
HOSTS = tuple(json.loads(Path(os.environ["GRIDSTEAD_LAB_TOPOLOGY"]).read_text())["hosts"])
DECLARED = yaml.safe_load((HERE / "declared.yml").read_text())
# The lab's image brings the control plane's environment, which is the site's own on other hosts.
IMAGE = {"file": ["/opt/gridstead(/.*)?"]}


def differences(before, after):
    """Return what is different, as kind, name, before and after."""
    for kind, was in before.items():
        for name in sorted(was.keys() | after[kind].keys()):
            if was.get(name) != after[kind].get(name):
                yield kind, name, was.get(name), after[kind].get(name)


def is_declared(kind, name):
    seen = [one["seen"] for one in DECLARED] + [IMAGE]
    return any(re.fullmatch(pattern, name) for patterns in seen for pattern in patterns.get(kind, ()))


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_is_what_it_was(host, request):
    before = json.loads(Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text())
    ssh = ["ssh", "-F", request.config.getoption("--ssh-config"), host, "python3", "-"]
    snapshot = (HERE.parent / "snapshot.py").read_text()

    seen = subprocess.run(ssh, input=snapshot, capture_output=True, text=True, check=True)

    left = [one for one in differences(before, json.loads(seen.stdout)) if not is_declared(one[0], one[1])]
    assert not left, "\n".join(f"{kind} {name}: {was} -> {now}" for kind, name, was, now in left)


@pytest.mark.parametrize("host", HOSTS)
def test_the_kernel_has_no_rule_of_a_firewall(host):
    """A host without the package nftables cannot tell itself."""
    mine = names.names(HERE.parents[2], os.environ["GRIDSTEAD_LAB_NAME"])
    init = processes.init_of(processes.nspawns(mine)[host])

    look = ["nsenter", f"--target={init}", "--net", "nft", "list", "ruleset"]

    assert subprocess.run(look, capture_output=True, text=True, check=True).stdout == ""
