# SPDX-License-Identifier: Apache-2.0
"""The table of flows of the standing lab: what it says of two hosts."""

import json
import subprocess
import sys

from tests.e2e.conftest import CHECKOUT


def table(lab, folder):
    """Return the flows and the groups, as the roles get them."""
    kept = folder / "table.json"
    content = "{{ {'flows': base_flows, 'groups': base_groups} | to_json }}"
    here = {
        "ansible_python_interpreter": sys.executable,
        "playbook_dir": str(CHECKOUT / "playbooks"),
    }
    argv = ["ansible", "control", "--connection=local", "--extra-vars", json.dumps(here)]
    argv += [
        "--module-name=ansible.builtin.copy",
        "--args",
        json.dumps({"content": content, "dest": str(kept)}),
    ]
    subprocess.run(argv, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return json.loads(kept.read_text())


def listed(lab, table, source, host, port, protocol="tcp"):
    """Return the flows that let a host, or None for somebody outside, come to a port of another
    host.
    """
    mine = {name for name, hosts in table["groups"].items() if source in hosts}
    mine |= {"anyone", lab.address(source) if source else lab.gateway}
    return [
        flow
        for flow in table["flows"]
        if mine.intersection(flow["from"])
        and any(host in table["groups"][group] for group in flow["to"])
        for ports in flow.get(protocol, [])
        for first, _, last in [str(ports).partition("-")]
        if int(first) <= port <= int(last or first)
    ]
