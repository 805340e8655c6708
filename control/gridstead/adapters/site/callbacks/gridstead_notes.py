# SPDX-License-Identifier: Apache-2.0
"""An Ansible callback plugin: notes what ansible-runner leaves out, and stops a run between tasks.

Ansible-runner's events do not show whether a task with ``no_log`` changed anything, or why a
handler was skipped. Ansible itself can only stop at once, in the middle of tasks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

NOTES = "GRIDSTEAD_NOTES"
STOP = "GRIDSTEAD_STOP"


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible ships no types
    """Writes JSON lines to the file ``$GRIDSTEAD_NOTES``.

    The plugin stops the run when the file ``$GRIDSTEAD_STOP`` exists.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gridstead_notes"

    def _note(self, **fields: str) -> None:
        with Path(os.environ[NOTES]).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(fields) + "\n")

    def v2_playbook_on_task_start(self, task: Any, is_conditional: Any) -> None:  # noqa: ANN401, ARG002 - Ansible's
        """Stop the run if requested; all hosts have ended the last task, none has started this."""
        if Path(os.environ[STOP]).exists():
            raise KeyboardInterrupt

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:  # noqa: ANN401 - Ansible's
        """Do not stop the run before a handler, because its configuration has already changed."""

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401 - Ansible's
        """Note that a task changed something, and the handlers that it notified."""
        if result.is_changed():
            waits = ",".join(map(str, result.task.notify or ()))
            self._note(kind="changed", waits=waits, **_location(result))

    def v2_playbook_on_notify(self, handler: Any, host: Any) -> None:  # noqa: ANN401, ARG002 - Ansible's
        """Note that the handlers of a host are run."""
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
    """Return the host and the task of a result; the task has the id of ansible-runner's events."""
    return {"host": result.host.get_name(), "task": str(result.task._uuid)}  # noqa: SLF001 - there is no public id
