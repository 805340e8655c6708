# SPDX-License-Identifier: Apache-2.0
"""Run plays as ``linear`` does, by interpreters that stay on the hosts for as long as the run
lasts.
"""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.loader import strategy_loader

try:
    from ansible_mitogen import affinity
    from ansible_mitogen.strategy import StrategyMixin

    # It would bind its processes, and what a task starts on this machine, each to one processor;
    # where there are two, nearly all of them to the same one.
    affinity.policy = affinity.Policy()
except ImportError:  # Ansible from another place, without Mitogen: slower, and nothing else

    class StrategyMixin:  # type: ignore[no-redef]
        """Nothing to add."""


DOCUMENTATION = """
name: persistent
short_description: Linear, with interpreters that persist
description:
  - Task by task over all hosts, as P(ansible.builtin.linear#strategy) does it.
  - Where Mitogen is installed, each host keeps one Python interpreter for the whole run, in place of a new one and
    a new copy of the module for each task. Without Mitogen it is P(ansible.builtin.linear#strategy).
author: Gridstead contributors
"""


class StrategyModule(StrategyMixin, strategy_loader.get("linear", class_only=True)):  # type: ignore[misc]
    """Named as Ansible looks it up."""

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Run the play; what is known before it is not searched for garbage again.

        Each task is a fork for each host, and each fork would search, and thereby copy, all that
        Ansible has loaded.
        """
        gc.freeze()
        return super().run(*arguments, **named)
