# SPDX-License-Identifier: Apache-2.0
"""Runs plays like strategy ``linear``, with one Python interpreter per host for the whole run."""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.loader import strategy_loader

try:
    from ansible_mitogen import affinity
    from ansible_mitogen.strategy import StrategyMixin

    # Disable Mitogen's default, which binds each process of Mitogen to one processor. The programs
    # that tasks start on this machine inherit the binding. On a machine with two processors, nearly
    # all programs would run on one of them.
    affinity.policy = affinity.Policy()
except ImportError:  # without Mitogen, runs are only slower

    class StrategyMixin:  # type: ignore[no-redef]
        """An empty replacement for Mitogen's class."""


DOCUMENTATION = """
name: persistent
short_description: The linear strategy with persistent Python interpreters
description:
  - Runs each task on all hosts before the next task, like P(ansible.builtin.linear#strategy).
  - With Mitogen, each host keeps one Python interpreter for the whole run. Without Mitogen, Ansible
    starts an interpreter and copies the module for each task.
author: Gridstead contributors
"""


_Linear = strategy_loader.get("linear", class_only=True)


class StrategyModule(StrategyMixin, _Linear):  # type: ignore[misc]
    """The strategy plugin. Ansible requires this class name."""

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Run the play, with existing objects excluded from garbage collection.

        Ansible forks a process for each task and host. A garbage collection in the forked process
        writes to all loaded objects, so the kernel would copy the memory of these objects.
        """
        gc.freeze()
        return super().run(*arguments, **named)
