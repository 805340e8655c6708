# SPDX-License-Identifier: Apache-2.0
"""Findings about keys that have no effect.

A misplaced key is a field of another mapping of the language. An unknown key is not a field of any
mapping. A key that starts with ``x-`` is ignored on purpose: files use such keys for values that
aliases repeat. In a file, all of these keys are warnings, because the clients of DeepSquare drop
them before they send the workflow. In a request they are errors, as in DeepSquare's GraphQL
service.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from pydantic import BaseModel

from gridstead.errors import WorkflowProblem
from gridstead.workflow.document import Document
from gridstead.workflow.field_paths import all_fields, fields_of, model_at, valid_paths
from gridstead.workflow.paths import Path, format_path
from gridstead.workflow.schema import Workflow

UNKNOWN_RULE = "known"  # the name of the rule that an unknown key breaks
# Fields that change only what users see of a job, not how its commands run.
_DISPLAY_FIELDS = ("continuousOutputSync", "disableLogMarkers", "enableLogging", "name")
# The minimum similarity of a key to a field of its mapping, and to a field of another mapping, of
# difflib: 1 means equal.
_MIN_SIMILARITY, _MIN_SIMILARITY_ELSEWHERE = 0.6, 0.8
_MAX_COMPARED = 64  # characters of a key


def is_extension(path: Path) -> bool:
    """Return whether the last key of the path starts with ``x-``. Such keys are ignored."""
    return str(path[-1]).startswith("x-")


def changes_run(field: object) -> bool:
    """Return whether the job runs differently if this field is ignored."""
    return field not in _DISPLAY_FIELDS


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
    # A comparison with all fields takes long. Requests and modules of other users do without it.
    others = all_fields() if document.is_file and root is Workflow else ()
    return _unknown(path, prefix, names, others, document)


def key_next_to_job(key: str, document: Document) -> WorkflowProblem:
    """Return the finding about a key of a file next to ``job``."""
    if is_extension((key,)):
        return _extension((key,), document)
    if valid_paths(key):
        return _misplaced((key,), ("job",), document)
    problem = _unknown((key,), ("job",), fields_of(Workflow), all_fields(), document)
    return replace(problem, reason="is next to job and has no effect")


def _extension(path: Path, document: Document) -> WorkflowProblem:
    reason = "is ignored, because the name starts with x-"
    return WorkflowProblem(path=format_path(path), reason=reason, line=document.line(path))


def _misplaced(path: Path, prefix: Path, document: Document) -> WorkflowProblem:
    """Return the finding about a misplaced key. The hint contains the field's valid paths."""
    name = str(path[-1])
    return WorkflowProblem(
        path=format_path(path),
        reason="is in a wrong place and has no effect",
        hint=_belongs_in(name, prefix),
        line=document.line(path),
        changes_run=changes_run(name),
    )


def _unknown(
    path: Path, prefix: Path, names: Iterable[str], others: Iterable[str], document: Document
) -> WorkflowProblem:
    """Return the finding about an unknown key.

    The hint names the most similar field of the mapping, otherwise of another mapping. A key with a
    similar field counts as this field misspelled. For other keys, the hint lists all fields of the
    mapping.

    Args:
        path: The path of the key in the document.
        prefix: The path of the workflow or the module in the document.
        names: The fields of the mapping that has the key.
        others: The fields of other mappings with which the key is compared.
        document: The document.
    """
    name = str(path[-1])
    hint = f"Known fields here: {', '.join(names)}." if names else None
    field = _most_similar(name, names, _MIN_SIMILARITY)
    if field:
        hint = f"Did you mean {field}?"
    elif field := _most_similar(name, others, _MIN_SIMILARITY_ELSEWHERE):
        hint = f"Did you mean {field}? {_belongs_in(field, prefix)}"
    return WorkflowProblem(
        path=format_path(path),
        reason="is not a known field",
        hint=hint,
        line=document.line(path),
        rule=UNKNOWN_RULE,
        changes_run=field is not None and changes_run(field),
    )


def _most_similar(name: str, fields: Iterable[str], min_similarity: float) -> str | None:
    """Return the field that is most similar to a name. Upper and lower case do not matter."""
    by_lower_case = {field.lower(): field for field in fields}
    lower_name = name[:_MAX_COMPARED].lower()
    similar_names = difflib.get_close_matches(lower_name, by_lower_case, n=1, cutoff=min_similarity)
    return by_lower_case[similar_names[0]] if similar_names else None


def _belongs_in(field: str, prefix: Path) -> str:
    """Return the hint that contains the valid paths of a field."""
    paths = [".".join((*map(str, prefix), valid_path)) for valid_path in valid_paths(field)]
    return f"It belongs in {' or '.join(paths)}."
