# SPDX-License-Identifier: Apache-2.0
"""Runs a playbook and tells how it goes.

Rule 1: what ansible-runner keeps (environment, events) lies in a folder of the run's own that only
its owner reads, and goes with it. Rule 2: host keys are checked, which ansible-runner would switch
off.
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

from gridstead.adapters.ansible.events import to_event
from gridstead.adapters.ansible.notes import Notes, read_notes
from gridstead.adapters.ansible.processes import end_processes
from gridstead.domain.playbook import (
    HostFinished,
    PlaybookEvent,
    PlaybookRequest,
    PlaybookRun,
    PrintedText,
    RunOutcome,
    TaskOutcome,
    TaskStarted,
)
from gridstead.ports.playbooks import Stop

CALLBACKS = Path(__file__).with_name("callbacks")
STOP = "GRIDSTEAD_STOP"  # in the environment of every process of a run
LOOK_EVERY_S = 0.2  # how soon a wish to stop is seen
KILL_AFTER_S = 10.0  # how long Ansible may take to end its workers
LEFT_OVER_S = 10.0  # how long to end what outlived it


class AnsiblePlaybooks:
    """The playbooks of a checkout.

    Args:
        checkout: Folder with ansible.cfg, playbooks/ and roles/.
    """

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def run(
        self, order: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return what came of it."""
        with tempfile.TemporaryDirectory(prefix="gridstead-run-") as folder:
            return _Running(self._checkout, order, Path(folder), notify, stop).run()


class _Running:
    """One run, while it lasts."""

    def __init__(
        self,
        checkout: Path,
        order: PlaybookRequest,
        folder: Path,
        notify: Callable[[PlaybookEvent], None],
        stop: Stop,
    ) -> None:
        self._checkout, self._order, self._folder = checkout, order, folder
        self._notify, self._stop = notify, stop
        self._told: list[tuple[str, PlaybookEvent]] = []
        self._handlers: set[str] = set()
        self._ansible: int | None = None
        self._kill_at: float | None = None

    def run(self) -> PlaybookRun:
        """Return what came of it."""
        order = self._order
        try:
            runner = ansible_runner.run(
                private_data_dir=str(self._folder),
                project_dir=str(self._checkout),
                playbook=order.playbook,
                inventory=order.inventory,
                limit=order.limit,
                tags=order.tags,
                cmdline="--check --diff" if order.check else None,
                extravars={"site_report_file": str(self._report)},
                envvars=self._environment(),
                settings={"pexpect_timeout": LOOK_EVERY_S, "suppress_output_file": True},
                fact_cache_type="memory",
                quiet=True,
                event_handler=self._hear,
                cancel_callback=self._is_over,
            )
        finally:
            self._end_what_is_left()
        notes = read_notes(self._notes, check=order.check)
        events = tuple(_corrected(task, event, notes) for task, event in self._told)
        report = (
            json.loads(self._report.read_text(encoding="utf-8")) if self._report.exists() else None
        )
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
    def _mark(self) -> Path:
        return self._folder / "stop"

    def _environment(self) -> dict[str, str]:
        """Return what Ansible needs beside our own environment; its programs stand beside our
        Python.
        """
        beside = str(Path(sys.executable).parent)
        plugins = filter(None, (os.environ.get("ANSIBLE_CALLBACK_PLUGINS"), str(CALLBACKS)))
        return {
            "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(plugins),
            "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
            "ANSIBLE_NOCOLOR": "1",
            "GRIDSTEAD_NOTES": str(self._notes),
            STOP: str(self._mark),
            "PATH": os.pathsep.join((beside, os.environ.get("PATH", os.defpath))),
        }

    def _hear(self, told: Mapping[str, Any]) -> bool:
        """Take an event; the answer tells ansible-runner to keep none."""
        self._ansible = told.get("pid", self._ansible)
        event = to_event(told)
        if event is None:
            return False
        task = str(told.get("event_data", {}).get("task_uuid", ""))
        if isinstance(event, TaskStarted) and event.task.is_handler:
            self._handlers.add(task)
        if isinstance(event, HostFinished) and task in self._handlers:
            event = replace(event, task=replace(event.task, is_handler=True))
        self._told.append((task, event))
        self._notify(event)
        return False

    def _is_over(self) -> bool:
        """Pass on a wish to stop; the answer is whether to kill what still runs."""
        if self._stop.wishes and not self._mark.exists():
            self._mark.touch()
        if self._stop.wishes > 1 and self._kill_at is None:
            self._kill_at = time.monotonic() + KILL_AFTER_S
            if self._ansible is not None:
                with suppress(ProcessLookupError):
                    os.kill(
                        self._ansible, signal.SIGINT
                    )  # Ansible ends its workers, which are groups of their own
        return self._kill_at is not None and time.monotonic() > self._kill_at

    def _end_what_is_left(self) -> None:
        """End workers that outlived Ansible: those of Mitogen, and all where it was killed."""
        for pid in end_processes(f"{STOP}={self._mark}", within_s=LEFT_OVER_S):
            self._notify(PrintedText(text=f"could not end process {pid} of the run"))

    def _outcome(self, code: int) -> RunOutcome:
        if code == 0:
            return RunOutcome.SUCCEEDED
        return RunOutcome.INTERRUPTED if self._stop.wishes else RunOutcome.FAILED


def _corrected(task: str, event: PlaybookEvent, notes: Notes) -> PlaybookEvent:
    """Return an event with what only the notes know: that a secret task changed something, that a
    handler would run.
    """
    if not isinstance(event, HostFinished):
        return event
    place = (event.host, task)
    secretly = event.outcome is TaskOutcome.OK and place in notes.changed
    would = event.outcome is TaskOutcome.SKIPPED and place in notes.would_run
    return replace(event, outcome=TaskOutcome.CHANGED) if secretly or would else event
