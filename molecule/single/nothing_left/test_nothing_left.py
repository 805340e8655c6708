# SPDX-License-Identifier: Apache-2.0
"""A host after a teardown is what it was before the site, but for what declared.yml has, with the
reason.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from gridstead_lab import names, processes, snapshots

HERE = Path(__file__).resolve().parent
HOSTS = tuple(json.loads(Path(os.environ["GRIDSTEAD_LAB_TOPOLOGY"]).read_text())["hosts"])
DECLARED = yaml.safe_load((HERE / "declared.yml").read_text())
# The lab's image brings the control plane's environment, which is the site's own on other hosts.
IMAGE = {"seen": {"file": ["/opt/gridstead(/.*)?"]}}


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_is_what_it_was(host, request):
    before = json.loads(
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text()
    )
    after = snapshots.take(request.config.getoption("--ssh-config"), host)

    left = snapshots.undeclared(before, after, [*DECLARED, IMAGE])

    assert not left, "\n".join(left)


@pytest.mark.parametrize("host", HOSTS)
def test_the_kernel_has_no_rule_of_a_firewall(host):
    """A host without the package nftables cannot tell itself."""
    mine = names.names(HERE.parents[2], os.environ["GRIDSTEAD_LAB_NAME"])
    init = processes.init_of(processes.nspawns(mine)[host])

    look = ["nsenter", f"--target={init}", "--net", "nft", "list", "ruleset"]

    assert subprocess.run(look, capture_output=True, text=True, check=True).stdout == ""
