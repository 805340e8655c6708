# SPDX-License-Identifier: Apache-2.0
"""Test that killed and repeated runs of site.yml have the result of one undisturbed run.

The differences that are allowed are in declared.yml.
"""

import json
import os
from pathlib import Path

import pytest
import yaml

from gridstead_lab import snapshots

HOSTS = tuple(json.loads(Path(os.environ["GRIDSTEAD_LAB_TOPOLOGY"]).read_text())["hosts"])
DECLARED = yaml.safe_load(Path(__file__).with_name("declared.yml").read_text())


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_equals_the_result_of_an_undisturbed_run(host, request):
    undisturbed = json.loads(
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text()
    )

    now = snapshots.take(request.config.getoption("--ssh-config"), host)

    differences = snapshots.undeclared(undisturbed, now, DECLARED)
    assert not differences, "\n".join(differences)
