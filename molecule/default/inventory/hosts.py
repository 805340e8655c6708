#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the lab's inventory script for the lab of a molecule scenario.

The inventory of each scenario is a symbolic link to this file. Molecule does not always pass the
variables GRIDSTEAD_LAB_* to an inventory script, so this script sets the variables.
"""

import os
import sys
from pathlib import Path

SCENARIO = Path(__file__).absolute().parents[1]
INVENTORY = SCENARIO.parents[1] / "inventory" / "lab" / "hosts.py"

if __name__ == "__main__":
    os.environ["GRIDSTEAD_LAB_NAME"] = f"molecule-{SCENARIO.name}"
    os.environ["GRIDSTEAD_LAB_TOPOLOGY"] = str(SCENARIO / "topology.json")
    os.execv(sys.executable, [sys.executable, str(INVENTORY), *sys.argv[1:]])  # noqa: S606
