# SPDX-License-Identifier: Apache-2.0
"""Test that killed and repeated runs of site.yml have the result of one uninterrupted run.

File declared.yml lists the allowed differences.
"""

import json
import os
from pathlib import Path

import pytest
import yaml

from gridstead_lab import snapshots

HOSTS = tuple(json.loads(Path(os.environ["GRIDSTEAD_LAB_TOPOLOGY"]).read_text())["hosts"])
ALLOWED_DIFFERENCES = yaml.safe_load(Path(__file__).with_name("declared.yml").read_text())


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_equals_the_host_after_an_uninterrupted_run(host, request):
    expected = json.loads(
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text()
    )

    now = snapshots.take(request.config.getoption("--ssh-config"), host)

    differences = snapshots.unexpected_differences(expected, now, ALLOWED_DIFFERENCES)
    assert not differences, "\n".join(differences)
