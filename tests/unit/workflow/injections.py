# SPDX-License-Identifier: Apache-2.0
"""Injection attempts: texts that create a file if a shell or another program executes them."""

from __future__ import annotations

import copy
import shlex
from functools import cache
from typing import Annotated

from pydantic import TypeAdapter, ValidationError
from tests.unit.workflow.fields import fields, scalars_in, value_at

from gridstead.workflow.schema import Workflow

# Fields whose text bash executes on the node. The keys are (mapping, field), the values are the
# reasons. A command gets hostile texts only in a step with a container, where the simulated runtime
# does not run it on the node. A condition gets none.
CODE_FIELDS = {
    ("StepRun", "command"): "runs on the host; only the command of a container can be tested",
    ("Step", "if"): "is evaluated by bash",
}
# Two fields that must have the same value, because an interface refers to a network by its name.
LINKED_FIELDS = {("VirtualNetwork", "name"), ("VNet", "name")}
# Each text is inserted alone, after the original value, and before the original value.
VARIANTS_PER_TEXT = 3


def hostile_texts(owned):
    """Return texts that try to create the file ``owned``, each in a different way."""
    touch = f"touch {owned}"
    tight = f"touch${{IFS}}{owned}"  # the same command without white space
    option = f"--owned={owned}"
    return [
        f"$({touch})", f"`{touch}`", f"'; {touch}; '", f'"; {touch}; "', f"'$({touch})'",
        f'"$({touch})"',
        f"\n{touch}\n", f"\n#SBATCH --uid=0\n{touch} #", f"\\\n{touch}\n", f"x\n--\n{touch}\n",
        f"}}\n{touch}\nx() {{",
        f"$({tight})", f"`{tight}`", f"';{tight};'", f'";{tight};"', f"{{{{ {touch} }}}}",
        f"%%{{steps}}$({touch})",
        f"a=$({touch}) b", f"x[$({tight})]", f"]] && {touch}; [[ x",
        f"&& {touch} &", f"| {touch}", f";{tight};",
        f"<({tight})", f"${{x:-$({tight})}}", f"$(({tight}))", f"${{x@P}}$({tight})",
        f"\r\n{touch}\r\n", f"\x1b]0;$({touch})\x07", f"EOF\n{touch}\nEOF",
        f"\u2028{touch}\u2029", f"\x85{touch}\x85",
        f"-x $({touch})", f"--config=$({tight})", option, f" {option} ", f"\n{option}\n",
        f"x,{option}", f"x\t{option}",
        f"!{touch}", f"!!;{touch}", f"~$({touch})", f"*$({touch})*", f"[a-z]?{{a,$({tight})}}",
        f"'\\''; {touch}; '\\''", f"$'\\x27; {touch}; \\x27'", f"%s$({tight})", f"%n\\n{touch}",
        f"PostUp={touch}", f"\nPostUp = {touch}\n", f"\nurl = file://{owned}\n",
        f'" --output {owned} "',
        f"BASH_ENV={owned}", f"() {{ :; }}; {touch}", f"\0{touch}", f"\ud800$({touch})",
    ]  # fmt: skip


def inject(mapping, rotation, owned, model=Workflow):
    """Return a copy with hostile texts, and the keys of the changed fields.

    Each text field that accepts hostile texts gets one of them. ``rotation`` selects which one.
    """
    changed_mapping = copy.deepcopy(mapping)
    changed_fields = set()
    for number, (path, field) in enumerate(scalars_in(mapping, model)):
        original = value_at(mapping, path)
        if not isinstance(original, str):
            continue
        # The mapping of a condition (``Step``) never has the field "container".
        if field in CODE_FIELDS and "container" not in value_at(mapping, path[:-1]):
            continue
        texts = _accepted_texts(field, original, str(owned))
        if field in CODE_FIELDS:
            # A command with an unclosed quote is refused if its shell is ENTRYPOINT.
            texts = [text for text in texts if _can_be_split(text)]
        if texts:
            offset = 0 if field in LINKED_FIELDS else number
            text = texts[(rotation + offset) % len(texts)]
            value_at(changed_mapping, path[:-1])[path[-1]] = text
            changed_fields.add(field)
    return changed_mapping, changed_fields


@cache
def rotation_count():
    """Return the number of rotations that insert every accepted text into each field."""
    return VARIANTS_PER_TEXT * len(hostile_texts("/owned"))


@cache
def _accepted_texts(field, original, owned):
    """Return the hostile texts that a field accepts, also before and after its original value."""
    adapter = TypeAdapter(_annotation(field))
    texts = []
    for text in hostile_texts(owned):
        variants = (text, original + text, text + original)
        texts += [variant for variant in variants if _accepts(adapter, variant)]
    return texts


def _annotation(field):
    info = fields()[field]
    annotation = info.annotation
    for metadata in info.metadata:
        annotation = Annotated[annotation, metadata]
    return annotation


def _accepts(adapter, text):
    """Return whether a field accepts the text, or a list that contains only the text."""
    for value in (text, [text]):
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        return True
    return False


def _can_be_split(text):
    """Return whether all quotes of the text are closed, so that a shell can split it into words."""
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True
