# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action ``inventory_check``, which runs on the Ansible controller."""

DOCUMENTATION = """
module: inventory_check
short_description: Find all mistakes in the inventory
description:
  - Fails with all mistakes of the inventory, one in each line.
  - Contacts no host and writes nothing. Runs on the Ansible controller, whose Python needs the
    package gridstead and the packages of its lock file.
options:
  exchanges_authority:
    description: Whether the run replaces the certificate authority. An expired authority is then
      accepted.
    type: bool
    default: false
author: Gridstead contributors
"""

EXAMPLES = """
- name: Check the inventory
  gridstead.site.inventory_check:
  run_once: true
"""

RETURN = """
msg:
  description: The number of hosts if the inventory is correct, otherwise all mistakes.
  type: str
  returned: always
"""
