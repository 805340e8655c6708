# SPDX-License-Identifier: Apache-2.0
"""A host whose runs were killed is what one is whose run nobody disturbed, but for what
declared.yml has.
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
def test_the_host_is_what_an_undisturbed_run_makes(host, request):
    undisturbed = json.loads(
        Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text()
    )

    now = snapshots.take(request.config.getoption("--ssh-config"), host)

    different = snapshots.undeclared(undisturbed, now, DECLARED)
    assert not different, "\n".join(different)
