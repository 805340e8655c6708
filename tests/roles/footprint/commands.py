# SPDX-License-Identifier: Apache-2.0
"""Fake commands, and the execution of steps, for the tests of the modules of role footprint.

A step is a pair: the description of a change, and the function that makes the change.
"""

HOST_STATE = {
    "packages": ["sudo", "munge"],
    "manual": ["sudo"],
    "enabled": ["munge.service"],
    "active": ["ssh.service"],
}


class Commands:
    """A function that runs fake commands. It records each call and returns a fixed output.

    Args:
        outputs: The output of each program by name, with ``_`` instead of ``-``.
    """

    def __init__(self, **outputs):
        self.outputs = {name.replace("_", "-"): output for name, output in outputs.items()}
        self.calls = []

    def __call__(self, *argv, expected=(0,), text=None):
        self.calls.append(" ".join(argv))
        if argv[:2] == ("systemctl", "stop"):
            return ""
        return self.outputs.get(argv[0], "")


def perform(steps):
    """Perform steps and return the descriptions of their changes."""
    changes = []
    for change, act in steps:
        act()
        changes.append(change)
    return changes
