# SPDX-License-Identifier: Apache-2.0
"""Asks before a workflow is submitted that runs differently because keys are ignored.

For example, a command whose ``container`` is in a wrong place runs on the host, and is billed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gridstead.cli.output import print_note, print_warnings
from gridstead.cli.watch import INTERRUPTED
from gridstead.errors import MisplacedKeys

if TYPE_CHECKING:
    from gridstead.workflow.parse import CheckedWorkflow

_QUESTION = "These keys are ignored, so the job runs differently. Submit it nevertheless? [y/N]"


def accept_or_ask(
    checked: CheckedWorkflow, *, accept: bool, is_from_stdin: bool, as_json: bool
) -> None:
    """Print the warnings about a workflow, and let the user decide whether to submit it.

    Args:
        checked: The workflow.
        accept: Whether the user has already accepted keys that have no effect.
        is_from_stdin: Whether the standard input was the workflow, so it cannot be the answer.
        as_json: Whether warnings are printed only with a question.

    Raises:
        MisplacedKeys: If the job runs differently because keys are ignored, and the user does not
            accept this or cannot be asked.
    """
    misplaced_keys = [warning for warning in checked.warnings if warning.changes_run]
    other_warnings = [warning for warning in checked.warnings if not warning.changes_run]
    must_ask = bool(misplaced_keys) and not accept
    can_ask = not is_from_stdin and _has_terminal()
    if must_ask and not can_ask:
        raise MisplacedKeys(*misplaced_keys, warnings=tuple(other_warnings))
    if must_ask or not as_json:
        print_warnings(checked.warnings)
    if must_ask and not _ask():
        unprinted_warnings = tuple(other_warnings) if as_json else ()
        raise MisplacedKeys(*misplaced_keys, warnings=unprinted_warnings)


def _ask() -> bool:
    """Ask the user, and return whether the answer is yes. Ctrl-C ends the process.

    Nothing is printed on stdout, which can be a file for the result.
    """
    print_note(_QUESTION)
    try:
        return input().strip().lower() in ("y", "yes")
    except (EOFError, UnicodeError):
        return False
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _has_terminal() -> bool:
    # Python sets sys.stdin to None if the descriptor is closed.
    return bool(sys.stdin) and sys.stdin.isatty() and sys.stderr.isatty()
