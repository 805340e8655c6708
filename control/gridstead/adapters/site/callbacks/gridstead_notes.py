# SPDX-License-Identifier: Apache-2.0
"""An Ansible callback plugin that writes notes on a run, and stops a run between two tasks.

The notes contain what the events of ansible-runner do not contain: whether a task with ``no_log``
changed something, and why a handler was skipped. Only a plugin can stop a run between two tasks. A
signal to Ansible stops the run in the middle of a task.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

NOTES_VARIABLE = "GRIDSTEAD_NOTES"
STOP_VARIABLE = "GRIDSTEAD_STOP"


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible ships no types
    """Writes JSON lines to the file ``$GRIDSTEAD_NOTES``.

    The plugin stops the run when the file ``$GRIDSTEAD_STOP`` exists.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gridstead_notes"

    def _note(self, **fields: str) -> None:
        with Path(os.environ[NOTES_VARIABLE]).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(fields) + "\n")

    def v2_playbook_on_task_start(
        self,
        task: Any,  # noqa: ANN401, ARG002 - Ansible's
        is_conditional: Any,  # noqa: ANN401, ARG002 - Ansible's
    ) -> None:
        """Stop the run if a stop was requested. All hosts have finished the previous task."""
        if Path(os.environ[STOP_VARIABLE]).exists():
            raise KeyboardInterrupt

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:  # noqa: ANN401 - Ansible's
        """Do not stop before a handler, because the settings of its daemon have already changed."""

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401 - Ansible's
        """Note that a task changed something, and which handlers the task notified."""
        if result.is_changed():
            handlers = ",".join(map(str, result.task.notify or ()))
            self._note(kind="changed", waits=handlers, **_location(result))

    def v2_playbook_on_notify(
        self,
        handler: Any,  # noqa: ANN401, ARG002 - Ansible's
        host: Any,  # noqa: ANN401 - Ansible's
    ) -> None:
        """Note that the notified handlers of a host run now."""
        self._note(kind="flushed", host=host.get_name())

    def v2_runner_on_skipped(self, result: Any) -> None:  # noqa: ANN401 - Ansible's
        """Note why a handler was skipped."""
        if isinstance(result.task, Handler):
            self._note(
                kind="skipped",
                why=str(result.result.get("false_condition", "")),
                **_location(result),
            )


def _location(result: Any) -> dict[str, str]:  # noqa: ANN401 - Ansible's
    """Return the host of a result, and the task's id in the events of ansible-runner."""
    task_id = str(result.task._uuid)  # noqa: SLF001 - there is no public id
    return {"host": result.host.get_name(), "task": task_id}
