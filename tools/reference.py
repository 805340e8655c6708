#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write pages of docs/reference: settings, commands, labels, the queue view and job states.

The text comes from the code. A test fails if a page differs from the output of this program.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import Any

import labels_page
import queue_view_page
import settings_page
import typer.main

from gridstead.cli.main import app
from gridstead.domain.jobs.lifecycle import COLD, LEGAL_TRANSITIONS, JobState
from gridstead.domain.matching.expiry import MARGIN_BLOCKS, MARGIN_S
from gridstead.domain.supervisor.attempt import END_STATES
from gridstead.domain.supervisor.end_text import (
    END_TEXTS,
    NEVER_STARTED,
    NO_SCRIPT,
    REFUSED_BY_SLURM,
)
from gridstead.domain.transactions.calls import MAX_ERROR_BYTES

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
NOTICE = "<!-- Written by tools/reference.py; do not edit. -->\n"
TIMEOUTS = """\
## Timeouts

| state | next state | after | on DeepSquare 1.2 |
|---|---|---|---|
| META_SCHEDULED | PENDING | `claimJobTimeout` blocks after its match | not in the contracts |
| SCHEDULED | PANICKED, refunded | `startTimeout` seconds after its claim | none |
| SCHEDULED, cancelled | CANCELLED, refunded | `settleGrace` seconds after cancel request | none |
| RUNNING | PANICKED, refunded | `settleGrace` seconds after paid time or cancel request | none |

Of several times, the earliest counts. A SCHEDULED job whose customer requested to cancel it ends as
CANCELLED also after `startTimeout`. In contracts before version 3, the cancellation of a SCHEDULED
job ends the job at once.
"""
MARGIN = (
    "The contracts allow the change after this time. On DeepSquare 1.2 only the meta-scheduler\n"
    "enforces `claimJobTimeout`.\n\n"
    "The meta-scheduler waits a little longer before it requests the change:\n"
    f"{MARGIN_BLOCKS} blocks for META_SCHEDULED, {MARGIN_S} seconds for the other states.\n"
    "A provider that claims another job after the match has more time: the meta-scheduler then\n"
    "counts the blocks from the provider's last claim.\n"
)
END_EXAMPLES = {
    "FAILED": "`exit 2`, `exit 137 (SIGKILL)`, `killed: signal 11 (SIGSEGV)`",
    "OUT_OF_MEMORY": "`killed: memory limit 8 GiB`, `killed: memory limit 2 GiB per task`",
}
ENDS = (
    "## Error texts\n\n"
    f"A provider ends a job that did not succeed with an error text of at most {MAX_ERROR_BYTES}"
    " bytes: `lastError` in\nthe contracts, and `last_error` in the output of"
    " `gridstead job get --json`.\n\n"
    "| state in Slurm | state on the chain | text |\n|---|---|---|\n"
)
END_NOTES = f"""
- A shell exits with 128 plus the number of the signal that ended its command. The text then names
  the signal: after `exit 137 (SIGKILL)`, check the memory of the job first.
- The memory limit is the memory that the job requested, `cpusPerTask` times `memPerCpu`. A FAILED
  job also has this text if its derived exit code in Slurm's accounting is 0:125: Slurm killed one
  of its steps for its memory. A step that requests less memory than the job has a lower limit than
  the text says.
- A text about an exit code or a signal can also name the step that failed: `exit 2 in step 3`.
  These numbers count the steps in the order in which Slurm created them, from 1. They are not the
  positions in the [markers](../explanation/logs.md#markers) of the log.
- `{NEVER_STARTED}`: Slurm ended the job before its script started.
- `{NO_SCRIPT}`, `{REFUSED_BY_SLURM}`,
  `its credits do not pay for one minute`, `the id of its script is malformed`,
  `lost by Slurm 3 times`, `a pre-hook of the provider failed` and `cancelled before it started`:
  nothing is billed.
- `expired`: the provider did not act before a timeout, and the contract ended the job.
- If the customer requested to cancel a job and its start never reached the chain, the job has no
  text, with three exceptions: `expired`, `the id of its script is malformed` and
  `a pre-hook of the provider failed`. `cancelled before it started` means that the start is on the
  chain but Slurm has no record of the job.

Texts contain no names of hosts, users or files. The supervisor's log has the longer reasons of
Slurm and of the Job Definition service.
"""
LIFE_CYCLE = """\
# The life of a job

Each row of the table is a state. An x marks the states to which a job in this state can change. A
cold state is final: the escrow is divided or returned, and the state never changes again.
"""


def pages() -> dict[str, str]:
    """Return the generated pages by file name."""
    return {
        "settings.md": f"{NOTICE}\n{settings_page.page()}",
        "cli.md": commands(),
        "labels.md": f"{NOTICE}\n{labels_page.page()}",
        "queue-view.md": f"{NOTICE}\n{queue_view_page.page()}",
        "lifecycle.md": lifecycle(),
    }


def commands() -> str:
    """Return the page of all commands."""
    lines = [NOTICE, "# Commands\n"]
    lines += _command(typer.main.get_command(app), "gridstead")
    return "\n".join(lines)


def _command(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - typer's copy of click
    groups = getattr(command, "commands", None)
    if groups is not None:
        for name in sorted(groups):
            yield from _command(groups[name], f"{path} {name}")
        return
    yield f"## {path}\n"
    yield f"{_markdown(cleandoc(command.help or ''))}\n"
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "option":
            title = "`, `".join(parameter.opts)
        else:
            title = (parameter.metavar or parameter.name or "").upper()
        yield f"- `{title}`: {getattr(parameter, 'help', '') or ''}"
    yield ""


def _markdown(help_text: str) -> str:
    """Return a help text as Markdown. Its examples, marked with a backspace, become code blocks."""
    paragraphs = []
    for paragraph in help_text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append(indent(paragraph.removeprefix("\b\n"), "  "))
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def lifecycle() -> str:
    """Return the page of the job's life cycle."""
    lines = [
        NOTICE,
        LIFE_CYCLE,
        "| from | " + " | ".join(state.name for state in JobState) + " |",
        "|---" * (len(JobState) + 1) + "|",
    ]
    for state in JobState:
        cells = ["x" if next_state in LEGAL_TRANSITIONS[state] else "" for next_state in JobState]
        title = f"{state.name} (cold)" if state in COLD else state.name
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += ["", TIMEOUTS, MARGIN, ENDS + _end_rows() + END_NOTES]
    return "\n".join(lines)


def _end_rows() -> str:
    rows = []
    for slurm_state, text in END_TEXTS.items():
        example = END_EXAMPLES.get(slurm_state) or (f"`{text}`" if text else "")
        rows.append(f"| {slurm_state} | {END_STATES[slurm_state].name} | {example} |\n")
    return "".join(rows)


if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
