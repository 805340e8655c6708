# SPDX-License-Identifier: Apache-2.0
"""Runs a playbook and reports its events.

Rule 1: ansible-runner stores the environment and the events in a temporary folder that only the
owner can read. Rule 2: host keys are checked; ansible-runner would disable the check by default.
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

CALLBACKS = Path(__file__).with_name("callbacks")
STOP = "GRIDSTEAD_STOP"  # in the environment of every process of a run
POLL_EVERY_S = 0.2  # how often a request to stop is checked
KILL_AFTER_S = 10.0  # how long Ansible may take to end its workers
END_WITHIN_S = 10.0  # how long to end the processes that outlive Ansible


class AnsiblePlaybooks:
    """The playbooks of a checkout.

    Args:
        checkout: Folder with ansible.cfg, playbooks/ and roles/.
    """

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def run(
        self, request: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return its outcome."""
        with tempfile.TemporaryDirectory(prefix="gridstead-run-") as folder:
            return _Running(self._checkout, request, Path(folder), notify, stop).run()


class _Running:
    """A run in progress."""

    def __init__(
        self,
        checkout: Path,
        request: PlaybookRequest,
        folder: Path,
        notify: Callable[[PlaybookEvent], None],
        stop: Stop,
    ) -> None:
        self._checkout, self._request, self._folder = checkout, request, folder
        self._notify, self._stop = notify, stop
        self._events: list[tuple[str, PlaybookEvent]] = []
        self._handlers: set[str] = set()
        self._ansible: int | None = None
        self._kill_at: float | None = None

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
                extravars={"site_report_file": str(self._report)},
                envvars=self._environment(),
                settings={"pexpect_timeout": POLL_EVERY_S, "suppress_output_file": True},
                fact_cache_type="memory",
                quiet=True,
                event_handler=self._handle_event,
                cancel_callback=self._must_kill,
            )
        finally:
            self._end_remaining_processes()
        notes = read_notes(self._notes, check=request.check)
        events = tuple(_corrected(task, event, notes) for task, event in self._events)
        report = None
        if self._report.exists():
            report = json.loads(self._report.read_text(encoding="utf-8"))
        return PlaybookRun(
            outcome=self._outcome(runner.rc), events=events, waiting=notes.waiting, report=report
        )

    @property
    def _report(self) -> Path:
        return self._folder / "report.json"

    @property
    def _notes(self) -> Path:
        return self._folder / "notes"

    @property
    def _stop_file(self) -> Path:
        return self._folder / "stop"

    def _environment(self) -> dict[str, str]:
        """Return the environment variables that Ansible needs in addition to the present ones.

        Ansible's programs are in the folder of the Python interpreter.
        """
        programs = str(Path(sys.executable).parent)
        plugins = [str(CALLBACKS)]
        if os.environ.get("ANSIBLE_CALLBACK_PLUGINS"):
            plugins.insert(0, os.environ["ANSIBLE_CALLBACK_PLUGINS"])
        return {
            "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(plugins),
            "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
            "ANSIBLE_NOCOLOR": "1",
            "GRIDSTEAD_NOTES": str(self._notes),
            STOP: str(self._stop_file),
            "PATH": os.pathsep.join((programs, os.environ.get("PATH", os.defpath))),
        }

    def _handle_event(self, data: Mapping[str, Any]) -> bool:
        """Handle an event; return False, so that ansible-runner does not store it."""
        self._ansible = data.get("pid", self._ansible)
        event = to_event(data)
        if event is None:
            return False
        task = str(data.get("event_data", {}).get("task_uuid", ""))
        if isinstance(event, TaskStarted) and event.task.is_handler:
            self._handlers.add(task)
        if isinstance(event, HostFinished) and task in self._handlers:
            event = replace(event, task=replace(event.task, is_handler=True))
        self._events.append((task, event))
        self._notify(event)
        return False

    def _must_kill(self) -> bool:
        """Pass on a request to stop, and return whether the run must be killed now."""
        if self._stop.requests and not self._stop_file.exists():
            self._stop_file.touch()
        if self._stop.requests > 1 and self._kill_at is None:
            self._kill_at = time.monotonic() + KILL_AFTER_S
            if self._ansible is not None:
                # Ansible ends its workers, which are in their own process groups.
                with suppress(ProcessLookupError):
                    os.kill(self._ansible, signal.SIGINT)
        return self._kill_at is not None and time.monotonic() > self._kill_at

    def _end_remaining_processes(self) -> None:
        """Kill workers that outlive Ansible: Mitogen's, and all of them if Ansible was killed."""
        for pid in end_processes(f"{STOP}={self._stop_file}", within_s=END_WITHIN_S):
            self._notify(PrintedText(text=f"could not end process {pid} of the run"))

    def _outcome(self, code: int) -> RunOutcome:
        if code == 0:
            return RunOutcome.SUCCEEDED
        return RunOutcome.INTERRUPTED if self._stop.requests else RunOutcome.FAILED


def _corrected(task: str, event: PlaybookEvent, notes: Notes) -> PlaybookEvent:
    """Return an event, corrected by the notes.

    Only the notes show that a task with ``no_log`` changed something, or that a skipped handler
    would run.
    """
    if not isinstance(event, HostFinished):
        return event
    location = (event.host, task)
    has_changed = event.outcome is TaskOutcome.OK and location in notes.changed
    would_run = event.outcome is TaskOutcome.SKIPPED and location in notes.would_run
    if has_changed or would_run:
        return replace(event, outcome=TaskOutcome.CHANGED)
    return event
