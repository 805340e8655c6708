# SPDX-License-Identifier: Apache-2.0
"""Runs a playbook with ansible-runner and reports its events.

Rule 1: ansible-runner writes the environment and the events only to a temporary folder that other
users cannot read. The file of an event is deleted when the event is handled.

Rule 2: host keys are checked, although ansible-runner disables the check by default. The
environment variable ANSIBLE_HOST_KEY_CHECKING can disable the check.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ansible_runner

from gridstead.adapters.site.events import to_event
from gridstead.adapters.site.notes import Notes, read_notes
from gridstead.adapters.site.processes import end_processes
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookEvent,
    PlaybookRequest,
    PlaybookRun,
    PrintedText,
    RunOutcome,
    TaskOutcome,
    TaskStarted,
)
from gridstead.ports.site import Stop

CALLBACK_FOLDER = Path(__file__).with_name("callbacks")
STOP_VARIABLE = "GRIDSTEAD_STOP"  # every process of a run has this variable
POLL_INTERVAL_S = 0.2  # the interval at which requests to stop are checked
ANSIBLE_TIMEOUT_S = 10.0  # for Ansible to end its workers after SIGINT
KILL_TIMEOUT_S = 10.0  # time to kill the processes that outlive Ansible


class AnsiblePlaybooks:
    """Implements port ``Playbooks`` with ansible-runner.

    Args:
        checkout: The folder with ansible.cfg, playbooks/ and roles/.
    """

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def run(
        self, request: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return its outcome."""
        with tempfile.TemporaryDirectory(prefix="gridstead-run-") as folder:
            return _RunInProgress(self._checkout, request, Path(folder), notify, stop).run()


class _RunInProgress:
    """One run of a playbook, from its start to its result."""

    def __init__(
        self,
        checkout: Path,
        request: PlaybookRequest,
        folder: Path,
        notify: Callable[[PlaybookEvent], None],
        stop: Stop,
    ) -> None:
        self._checkout = checkout
        self._request = request
        self._folder = folder
        self._notify = notify
        self._stop = stop
        self._events: list[tuple[str, PlaybookEvent]] = []  # each event with the id of its task
        self._handler_ids: set[str] = set()
        self._ansible_pid: int | None = None
        self._kill_at: float | None = None  # a time of the monotonic clock

    def run(self) -> PlaybookRun:
        """Run the playbook and return its outcome."""
        request = self._request
        try:
            runner = ansible_runner.run(
                private_data_dir=str(self._folder),
                project_dir=str(self._checkout),
                playbook=request.playbook,
                inventory=request.inventory,
                limit=request.limit,
                tags=request.tags,
                cmdline="--check --diff" if request.check else None,
                extravars={"site_report_file": str(self._report_file)},
                envvars=self._environment(),
                settings={"pexpect_timeout": POLL_INTERVAL_S, "suppress_output_file": True},
                fact_cache_type="memory",
                quiet=True,
                event_handler=self._handle_event,
                cancel_callback=self._forward_stop_requests,
            )
        finally:
            self._end_remaining_processes()
        notes = read_notes(self._notes_file, check=request.check)
        events = tuple(
            _with_noted_outcome(event, task_id, notes) for task_id, event in self._events
        )
        report = None
        if self._report_file.exists():
            report = json.loads(self._report_file.read_text(encoding="utf-8"))
        outcome = self._outcome(runner.rc)
        return PlaybookRun(outcome=outcome, events=events, waiting=notes.waiting, report=report)

    @property
    def _report_file(self) -> Path:
        return self._folder / "report.json"

    @property
    def _notes_file(self) -> Path:
        return self._folder / "notes"

    @property
    def _stop_file(self) -> Path:
        return self._folder / "stop"

    def _environment(self) -> dict[str, str]:
        """Return the environment variables that are added for Ansible."""
        program_folder = str(Path(sys.executable).parent)  # ansible-playbook is installed there.
        plugins = [str(CALLBACK_FOLDER)]
        if os.environ.get("ANSIBLE_CALLBACK_PLUGINS"):
            plugins.insert(0, os.environ["ANSIBLE_CALLBACK_PLUGINS"])
        return {
            "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(plugins),
            "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
            "ANSIBLE_NOCOLOR": "1",
            "GRIDSTEAD_NOTES": str(self._notes_file),
            STOP_VARIABLE: str(self._stop_file),
            "PATH": os.pathsep.join((program_folder, os.environ.get("PATH", os.defpath))),
        }

    def _handle_event(self, data: Mapping[str, Any]) -> bool:
        """Handle an event. Return False, so that ansible-runner does not retain the event."""
        self._ansible_pid = data.get("pid", self._ansible_pid)
        event = to_event(data)
        if event is None:
            return False
        task_id = str(data.get("event_data", {}).get("task_uuid", ""))
        # Only the event at the start of a task shows whether the task is a handler.
        if isinstance(event, TaskStarted) and event.task.is_handler:
            self._handler_ids.add(task_id)
        if isinstance(event, HostFinished) and task_id in self._handler_ids:
            event = replace(event, task=replace(event.task, is_handler=True))
        self._events.append((task_id, event))
        self._notify(event)
        return False

    def _forward_stop_requests(self) -> bool:
        """Tell Ansible to stop if this was requested. Return whether the run must be killed now."""
        if self._stop.requests and not self._stop_file.exists():
            self._stop_file.touch()  # the callback plugin stops the run after the current task
        if self._stop.requests > 1 and self._kill_at is None:
            self._kill_at = time.monotonic() + ANSIBLE_TIMEOUT_S
            if self._ansible_pid is not None:
                # After SIGINT, Ansible ends its workers, which are in other process groups.
                with suppress(ProcessLookupError):
                    os.kill(self._ansible_pid, signal.SIGINT)
        return self._kill_at is not None and time.monotonic() > self._kill_at

    def _end_remaining_processes(self) -> None:
        """Kill the processes that outlive Ansible, such as those of Mitogen."""
        variable = f"{STOP_VARIABLE}={self._stop_file}"
        living_pids = end_processes(variable, timeout_s=KILL_TIMEOUT_S)
        for pid in living_pids:
            self._notify(PrintedText(text=f"could not end process {pid} of the run"))

    def _outcome(self, exit_code: int) -> RunOutcome:
        if exit_code == 0:
            return RunOutcome.SUCCEEDED
        return RunOutcome.INTERRUPTED if self._stop.requests else RunOutcome.FAILED


def _with_noted_outcome(event: PlaybookEvent, task_id: str, notes: Notes) -> PlaybookEvent:
    """Return an event with the outcome that callback plugin gridstead_notes recorded.

    The event does not show that a task with ``no_log`` changed something, or that a handler was
    skipped only because of check mode.
    """
    if not isinstance(event, HostFinished):
        return event
    task_on_host = (event.host, task_id)
    has_changed = event.outcome is TaskOutcome.OK and task_on_host in notes.changed
    would_run = event.outcome is TaskOutcome.SKIPPED and task_on_host in notes.would_run
    if has_changed or would_run:
        return replace(event, outcome=TaskOutcome.CHANGED)
    return event
