# SPDX-License-Identifier: Apache-2.0
"""Runs plays as strategy ``linear`` does, with one Python interpreter per host and run."""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.loader import strategy_loader

try:
    from ansible_mitogen import affinity
    from ansible_mitogen.strategy import StrategyMixin

    # By default Mitogen binds each of its processes, and the programs that a task starts on this
    # machine, to one processor. On two processors nearly all of them get the same one.
    affinity.policy = affinity.Policy()
except ImportError:  # Mitogen is not installed: runs are slower, nothing else changes

    class StrategyMixin:  # type: ignore[no-redef]
        """Adds nothing."""


DOCUMENTATION = """
name: persistent
short_description: Linear, with interpreters that persist
description:
  - Runs each task on all hosts before the next one, as P(ansible.builtin.linear#strategy) does.
  - Where Mitogen is installed, each host keeps one Python interpreter for the whole run. Ansible
    otherwise starts an interpreter and copies the module for each task. Without Mitogen it behaves
    as P(ansible.builtin.linear#strategy).
author: Gridstead contributors
"""


_Linear = strategy_loader.get("linear", class_only=True)


class StrategyModule(StrategyMixin, _Linear):  # type: ignore[misc]
    """The strategy, under the name that Ansible looks up."""

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Run the play. Exclude existing objects from garbage collection.

        Ansible forks for each task and host. A collection in a fork would write to, and so copy,
        all objects that Ansible has loaded.
        """
        gc.freeze()
        return super().run(*arguments, **named)
