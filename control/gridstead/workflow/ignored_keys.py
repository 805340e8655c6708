# SPDX-License-Identifier: Apache-2.0
"""Findings about keys that have no effect.

A misplaced key is a field of another mapping of the language. An unknown key is none. A key that
starts with ``x-`` is ignored on purpose, since files use such keys for values that aliases repeat.
In a file, all of these keys are warnings: the clients of DeepSquare drop them before they send the
workflow. In a request, they are errors, as in DeepSquare's GraphQL service.
"""

from __future__ import annotations

import difflib

from pydantic import BaseModel

from gridstead.errors import WorkflowProblem
from gridstead.workflow.document import Document
from gridstead.workflow.field_paths import fields_of, model_at, valid_paths
from gridstead.workflow.paths import Path, format_path
from gridstead.workflow.schema import Workflow

UNKNOWN_RULE = "known"  # the name of the rule that an unknown key breaks
# Fields that concern only what users see of a job. Without them, the same commands run in the same
# way.
_FIELDS_FOR_USERS = ("continuousOutputSync", "enableLogging", "name")


def is_extension(path: Path) -> bool:
    """Return whether the last key of the path starts with ``x-``. Such keys are ignored."""
    return str(path[-1]).startswith("x-")


def changes_run(field: object) -> bool:
    """Return whether the job runs in another way if this field of the language is ignored."""
    return field not in _FIELDS_FOR_USERS


def ignored_key(
    loc: Path, prefix: Path, document: Document, root: type[BaseModel]
) -> WorkflowProblem:
    """Return the finding about a key that is not a field of its mapping.

    Args:
        loc: The path of the key in a mapping of model ``root``.
        prefix: The path of this mapping in the document.
        document: The document.
        root: The model of the mapping.
    """
    path = (*prefix, *loc)
    if document.is_file and is_extension(path):
        return _extension(path, document)
    if valid_paths(str(loc[-1])):
        return _misplaced(path, prefix, document)
    model = model_at(loc[:-1], root)
    names = fields_of(model) if model else ()
    return _unknown(path, names, document, "is not a known field")


def key_next_to_job(key: str, document: Document) -> WorkflowProblem:
    """Return the finding about a key of a file next to ``job``."""
    if is_extension((key,)):
        return _extension((key,), document)
    if valid_paths(key):
        return _misplaced((key,), ("job",), document)
    return _unknown((key,), fields_of(Workflow), document, "is next to job and has no effect")


def _extension(path: Path, document: Document) -> WorkflowProblem:
    reason = "is ignored, because the name starts with x-"
    return WorkflowProblem(path=format_path(path), reason=reason, line=document.line(path))


def _misplaced(path: Path, prefix: Path, document: Document) -> WorkflowProblem:
    """Return the finding about a misplaced key. The hint contains the field's valid paths."""
    name = str(path[-1])
    paths = [".".join((*map(str, prefix), valid_path)) for valid_path in valid_paths(name)]
    return WorkflowProblem(
        path=format_path(path),
        reason="is in a wrong place and has no effect",
        hint=f"It belongs in {' or '.join(paths)}.",
        line=document.line(path),
        changes_run=changes_run(name),
    )


def _unknown(
    path: Path, names: tuple[str, ...], document: Document, reason: str
) -> WorkflowProblem:
    """Return the finding about an unknown key.

    The hint names the field that is most similar. The key is then a spelling mistake, so it changes
    what runs as the field would. Without a similar field, the hint lists all fields.

    Args:
        path: The path of the key in the document.
        names: The fields of the mapping that has the key.
        document: The document.
        reason: What is wrong with the key.
    """
    similar_names = difflib.get_close_matches(str(path[-1])[:64], names, n=1)
    hint = f"Known fields here: {', '.join(names)}." if names else None
    if similar_names:
        hint = f"Did you mean {similar_names[0]}?"
    return WorkflowProblem(
        path=format_path(path),
        reason=reason,
        hint=hint,
        line=document.line(path),
        rule=UNKNOWN_RULE,
        changes_run=any(map(changes_run, similar_names)),
    )
