# SPDX-License-Identifier: Apache-2.0
"""A host without a site is what it was before, but for what is declared here, with the reason."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

SNAPSHOT = Path(__file__).resolve().parents[1] / "snapshot.py"
HOSTS = tuple(json.loads(Path(os.environ["GRIDSTEAD_LAB_TOPOLOGY"]).read_text())["hosts"])

# Kind, pattern of names, reason.
DECLARED = (
    ("file", r"/var/log/.*", "logs are the operator's evidence"),
    ("file", r"/root/\.ansible(/.*)?", "Ansible's own folder on hosts"),
    ("file", r"/(usr|opt)/.*/__pycache__(/.*)?", "Python's cache of what it has read"),
    (
        "file",
        r"/etc/(passwd|group|shadow|gshadow)-",
        "copies that the programs for accounts keep; accounts are compared",
    ),
    ("file", r"/var/(lib/dpkg|cache/apt|cache/debconf|backups)(/.*)?", "apt's own memory; packages are compared"),
    ("file", r"/var/lib/apt/extended_states", "the same"),
    ("file", r"/var/lib/mysql(/.*)?", "MariaDB's own tables; its package leaves databases alone"),
    ("file", r"/opt/gridstead(/.*)?", "the lab's image brings the control plane's environment, the site's own"),
    (
        "running unit",
        r"(network-online|network-pre|nss-user-lookup)\.target",
        "a target that was reached stays until the next boot",
    ),
    ("running unit", r"system-dirsrv\.slice", "an empty control group, until the next boot"),
)


def differences(before, after):
    """Return what is different, as kind, name, before and after."""
    for kind, names in before.items():
        for name in sorted(names.keys() | after[kind].keys()):
            if names.get(name) != after[kind].get(name):
                yield kind, name, names.get(name), after[kind].get(name)


def is_declared(kind, name):
    return any(kind == declared and re.fullmatch(pattern, name) for declared, pattern, _ in DECLARED)


@pytest.mark.parametrize("host", HOSTS)
def test_the_host_is_what_it_was(host, request):
    before = json.loads(Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], f"before-{host}.json").read_text())
    ssh = ["ssh", "-F", request.config.getoption("--ssh-config"), host, "python3", "-"]

    seen = subprocess.run(ssh, input=SNAPSHOT.read_text(), capture_output=True, text=True, check=True)

    left = [one for one in differences(before, json.loads(seen.stdout)) if not is_declared(one[0], one[1])]
    assert not left, "\n".join(f"{kind} {name}: {was} -> {now}" for kind, name, was, now in left)
