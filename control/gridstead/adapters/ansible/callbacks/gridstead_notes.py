# SPDX-License-Identifier: Apache-2.0
"""A plugin of Ansible's beside ansible-runner's: notes what that one leaves out, and ends a run
between two tasks.

Ansible-runner's events do not say whether a task with ``no_log`` changed anything, nor why a
handler was skipped. Ansible itself knows no other way to stop than at once, in the middle of tasks.
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
    """Writes lines of JSON to the file ``$GRIDSTEAD_NOTES``; ends the run when the file
    ``$GRIDSTEAD_STOP`` is.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gridstead_notes"

    def _note(self, **what: str) -> None:
        with Path(os.environ[NOTES]).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(what) + "\n")

    def v2_playbook_on_task_start(self, task: Any, is_conditional: Any) -> None:  # noqa: ANN401, ARG002 - Ansible's
        """Called when all hosts have ended the task before and none has begun the next."""
        if Path(os.environ[STOP]).exists():
            raise KeyboardInterrupt

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:  # noqa: ANN401 - Ansible's
        """Let handlers run: what they restart has changed already."""

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401 - Ansible's
        """Note what changed in secret, and which handlers wait since."""
        if result.is_changed():
            waits = ",".join(map(str, result.task.notify or ()))
            self._note(kind="changed", waits=waits, **_place(result))

    def v2_playbook_on_notify(self, handler: Any, host: Any) -> None:  # noqa: ANN401, ARG002 - Ansible's
        """Note that the handlers' turn has come on a host."""
        self._note(kind="flushed", host=host.get_name())

    def v2_runner_on_skipped(self, result: Any) -> None:  # noqa: ANN401 - Ansible's
        """Note why a handler was skipped."""
        if isinstance(result.task, Handler):
            self._note(
                kind="skipped", why=str(result.result.get("false_condition", "")), **_place(result)
            )


def _place(result: Any) -> dict[str, str]:  # noqa: ANN401 - Ansible's
    """Return host and task of a result, the task as ansible-runner's events number it."""
    return {"host": result.host.get_name(), "task": str(result.task._uuid)}  # noqa: SLF001 - the only number there is
