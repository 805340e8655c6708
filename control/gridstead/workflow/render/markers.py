# SPDX-License-Identifier: Apache-2.0
"""Renders the markers of a job: lines in its log that say which step runs.

A marker is one line of printable ASCII without secrets. docs/explanation/logs.md has the grammar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from gridstead.workflow.render.context import RenderContext
from gridstead.workflow.render.shell_text import quote
from gridstead.workflow.schema import Step, StepFor, Workflow

MAX_NAME_CHARS = 64
# Shorter secrets are not searched in names, because almost every name contains them.
MIN_SECRET_CHARS = 4
MASK = "***"
# Secret fields whose values markers may contain: a user name is often an ordinary word.
_VISIBLE_SECRET_FIELDS = frozenset({"username"})

# The variables of a loop have long names, so that they do not hide variables of the customer.
_ROUND_VARIABLES = """\
  local gridstead_number=0 gridstead_outer_hidden=$gridstead_hidden
  local gridstead_outer_round=${gridstead_round:+$gridstead_round,}
  local gridstead_round gridstead_hidden gridstead_total=$(((gridstead_total - 1) * COUNT))
"""


def has_markers(workflow: Workflow) -> bool:
    """Return whether the job writes markers, if its output is sent to the logger."""
    return workflow.enable_logging and not workflow.disable_log_markers


def marker_call(step: Step, function: str, context: RenderContext) -> str:
    """Return the command that runs a function of a step between two markers."""
    rounds = f" rounds={step.for_.count}" if step.for_ else ""
    return f"in_step {context.position} {_name(step, context)} {quote(rounds)} {function}"


def skip_arguments(step: Step, context: RenderContext) -> str:
    """Return the further arguments of ``run_if``: the position and the name of the step."""
    return f" {context.position} {_name(step, context)}" if context.has_markers else ""


def has_no_markers(step: Step) -> bool:
    """Return whether a step has no markers: a group without a name, or an empty step."""
    does_nothing = not (step.run or step.for_ or step.launch or step.use)
    return does_nothing and not step.name


def round_parts(loop: StepFor, context: RenderContext) -> dict[str, str]:
    """Return the parts of a loop that count its rounds."""
    if not context.has_markers:
        return {"rounds": "", "next_round": ""}
    return {
        "rounds": _ROUND_VARIABLES.replace("COUNT", str(loop.count)),
        "next_round": "    next_round\n",
    }


def catch_parts(context: RenderContext) -> dict[str, str]:
    """Return the parts of a step that restore ``failed_step`` before its ``catch`` runs."""
    if not context.has_markers:
        return {"earlier": "", "forget": ""}
    return {"earlier": " earlier_step=$failed_step", "forget": " failed_step=$earlier_step"}


def _name(step: Step, context: RenderContext) -> str:
    """Return the name for markers as a word of bash."""
    return quote(marker_name(step.name or "", context.secret_texts))


def marker_name(name: str, secret_texts: Iterable[str]) -> str:
    """Return a name as printable ASCII without secrets, at most ``MAX_NAME_CHARS`` characters."""
    for secret in secret_texts:
        name = name.replace(secret, MASK)
    name = "".join(char if " " <= char <= "~" else "?" for char in name).strip()
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 3]}..."


def secret_texts(workflow: Workflow) -> tuple[str, ...]:
    """Return the texts that the markers of a workflow must not contain, the longest first."""
    texts: set[str] = set()
    for secret in _secret_fields(workflow):
        texts.add(secret)
        if secret.startswith(("http://", "https://")):
            texts.update(_parts_of_url(secret))
    return tuple(sorted(filter(_is_long, texts), key=lambda text: (-len(text), text)))


def _is_long(text: str) -> bool:
    return len(text) >= MIN_SECRET_CHARS


def _parts_of_url(url: str) -> Iterator[str]:
    """Yield the secret parts of a URL, as they are written and decoded."""
    parts = urlsplit(url)
    user_info = parts.netloc.rpartition("@")[0]
    values = (pair.partition("=")[2] for pair in parts.query.split("&"))
    for text in (*user_info.split(":"), parts.query, *values):
        yield text
        yield unquote(text)


def _secret_fields(model: BaseModel) -> Iterator[str]:
    """Yield the value of each secret field of a model and of nested models."""
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if not info.repr and name not in _VISIBLE_SECRET_FIELDS and isinstance(value, str):
            yield value
        items = value if isinstance(value, tuple) else (value,)
        for item in items:
            if isinstance(item, BaseModel):
                yield from _secret_fields(item)
