# SPDX-License-Identifier: Apache-2.0
"""Test that after a teardown, a host equals the host before the site was set up.

File declared.yml lists each allowed difference with its reason.
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
ALLOWED_DIFFERENCES = yaml.safe_load((HERE / "declared.yml").read_text())
# The lab's image contains the virtual environments of the control plane and of ReFrame, which the
# teardown removes. Key "seen" contains patterns for the names of files that may differ, as it does
# in declared.yml.
DIFFERENCE_OF_IMAGE = {"seen": {"file": ["/opt/gridstead(-benchmarks)?(/.*)?"]}}


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_equals_the_host_before_the_site_was_set_up(host, request):
    before = json.loads(
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text()
    )
    after = snapshots.take(request.config.getoption("--ssh-config"), host)

    differences = snapshots.unexpected_differences(
        before, after, [*ALLOWED_DIFFERENCES, DIFFERENCE_OF_IMAGE]
    )

    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("host", HOSTS)
def test_the_kernel_has_no_firewall_rules(host):
    """The test runs this machine's nft in the host's network namespace.

    The host has no nft, because the teardown has removed package nftables.
    """
    lab = names.names(HERE.parents[2], os.environ["GRIDSTEAD_LAB_NAME"])
    init = processes.init_of(processes.nspawns(lab)[host])
    command = ["nsenter", f"--target={init}", "--net", "nft", "list", "ruleset"]

    result = subprocess.run(command, capture_output=True, text=True, check=True)

    assert result.stdout == ""
