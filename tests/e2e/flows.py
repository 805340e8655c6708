# SPDX-License-Identifier: Apache-2.0
"""Functions that read the table of network flows of the running lab."""

import json
import subprocess
import sys

from tests.e2e.conftest import CHECKOUT


def read_flow_table(folder):
    """Return the flows and the groups of the lab, with the values of the roles' variables."""
    table_file = folder / "table.json"
    content = "{{ {'flows': base_flows, 'groups': base_groups} | to_json }}"
    variables = {
        "ansible_python_interpreter": sys.executable,
        "playbook_dir": str(CHECKOUT / "playbooks"),
    }
    argv = ["ansible", "control", "--connection=local", "--extra-vars", json.dumps(variables)]
    argv += [
        "--module-name=ansible.builtin.copy",
        "--args",
        json.dumps({"content": content, "dest": str(table_file)}),
    ]
    subprocess.run(argv, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return json.loads(table_file.read_text())


def matching_flows(lab, table, source, host, port, protocol="tcp"):
    """Return the flows that allow connections from a source to a port of a host.

    Args:
        source: The name of a host of the lab, or None for a machine outside of the site.
    """
    groups = table["groups"]
    source_address = lab.address(source) if source else lab.gateway
    source_groups = {name for name, hosts in groups.items() if source in hosts}
    source_names = source_groups | {"anyone", source_address}
    allowing_flows = []
    for flow in table["flows"]:
        leads_to_host = any(host in groups[group] for group in flow["to"])
        if not leads_to_host or not source_names.intersection(flow["from"]):
            continue
        if any(is_in_range(port, port_range) for port_range in flow.get(protocol, [])):
            allowing_flows.append(flow)
    return allowing_flows


def is_in_range(port, ports):
    """Return whether a port is in a range "first-last", or equals a single port."""
    first, _, last = str(ports).partition("-")
    return int(first) <= port <= int(last or first)
