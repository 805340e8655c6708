# SPDX-License-Identifier: Apache-2.0
"""A function that runs an Ansible module on this machine, as Ansible runs it on a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.roles.catalogue import ROOT

# Arguments of this program: the module's path, the module's arguments (JSON), the collections.
RUNNER = """
import runpy, sys
import ansible.module_utils.basic as basic
sys.path.insert(0, sys.argv[3])
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = sys.argv[2].encode(), "legacy"
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def run_module(
    module: Path, arguments: dict[str, Any], *, tmp: Path, check_mode: bool = False
) -> dict[str, Any]:
    """Run a module and return its result, even if the module failed.

    ``tmp`` is a folder for the module's temporary files.
    """
    tmp.mkdir(exist_ok=True)
    internal_arguments = {
        "_ansible_check_mode": check_mode,
        "_ansible_remote_tmp": str(tmp),
        "_ansible_keep_remote_files": False,
    }
    argv = [
        sys.executable,
        "-c",
        RUNNER,
        module,
        json.dumps({"ANSIBLE_MODULE_ARGS": arguments | internal_arguments}),
        ROOT / ".collections",
    ]
    process = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    result: dict[str, Any] = json.loads(process.stdout)
    return result
