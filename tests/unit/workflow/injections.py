# SPDX-License-Identifier: Apache-2.0
"""Texts that would create a file if they were executed, and a function that inserts them."""

from __future__ import annotations

import copy
import shlex
from functools import cache
from typing import Annotated

from pydantic import TypeAdapter, ValidationError
from tests.unit.workflow.fields import fields, places_in, value_at

from gridstead.workflow.schema import Workflow

# Fields that are code.
CODE = {
    ("StepRun", "command"): "runs; in a container it does not run here, and is tested there",
    ("Step", "if"): "is evaluated by bash",
}
# Fields that refer to each other and must have the same value.
LINKED = {("VirtualNetwork", "name"), ("VNet", "name")}


def hostile(owned):
    """Return the hostile texts, for fields of all types."""
    touch, tight, option = f"touch {owned}", f"touch${{IFS}}{owned}", f"--owned={owned}"
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


def poisoned(mapping, turn, owned, model=Workflow):
    """Return the mapping with a hostile text in each text field, and the changed fields.

    Another turn inserts other texts.
    """
    changed, poisoned_fields = copy.deepcopy(mapping), set()
    for number, (path, field) in enumerate(places_in(mapping, model)):
        original = value_at(mapping, path)
        if not isinstance(original, str):
            continue
        if field in CODE and "container" not in value_at(mapping, path[:-1]):
            continue
        texts = _accepted(field, original, str(owned))
        if field in CODE:
            texts = [text for text in texts if _has_words(text)]
        if texts:
            text = texts[(turn + (0 if field in LINKED else number)) % len(texts)]
            value_at(changed, path[:-1])[path[-1]] = text
            poisoned_fields.add(field)
    return changed, poisoned_fields


@cache
def max_turns():
    """Return the number of turns after which each field has had every text that it accepts."""
    return 3 * len(hostile("/owned"))


@cache
def _accepted(field, original, owned):
    """Return the hostile texts that a field accepts: alone, after and before the original value."""
    adapter = TypeAdapter(_annotation(field))
    texts = []
    for text in hostile(owned):
        forms = (text, original + text, text + original)
        texts += [form for form in forms if _accepts(adapter, form)]
    return texts


def _annotation(field):
    info = fields()[field]
    annotation = info.annotation
    for metadata in info.metadata:
        annotation = Annotated[annotation, metadata]
    return annotation


def _accepts(adapter, text):
    for value in (text, [text]):
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        return True
    return False


def _has_words(text):
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True
