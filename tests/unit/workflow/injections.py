# SPDX-License-Identifier: Apache-2.0
"""Texts that would make a file if anything of them were code, and what puts them wherever the
language takes them.
"""

from __future__ import annotations

import copy
import shlex
from functools import cache
from typing import Annotated

from pydantic import TypeAdapter, ValidationError
from tests.unit.workflow.fields import at, fields, places_in

from gridstead.workflow.schema import Workflow

# What is code of the user's by its nature.
CODE = {
    ("StepRun", "command"): "is run; in a container it is not run here, so it is tried there",
    ("Step", "if"): "is evaluated by bash",
}
# What stands in two places, and means something only if it is the same in both.
SAME = {("VirtualNetwork", "name"), ("VNet", "name")}


def hostile(owned):
    """The texts, for fields of all kinds; none in a command that the tests themselves let run."""
    touch, tight, option = f"touch {owned}", f"touch${{IFS}}{owned}", f"--owned={owned}"
    return [
        f"$({touch})", f"`{touch}`", f"'; {touch}; '", f'"; {touch}; "', f"'$({touch})'", f'"$({touch})"',
        f"\n{touch}\n", f"\n#SBATCH --uid=0\n{touch} #", f"\\\n{touch}\n", f"x\n--\n{touch}\n",
        f"}}\n{touch}\nx() {{",
        f"$({tight})", f"`{tight}`", f"';{tight};'", f'";{tight};"', f"{{{{ {touch} }}}}", f"%%{{steps}}$({touch})",
        f"a=$({touch}) b", f"x[$({tight})]", f"]] && {touch}; [[ x",
        f"&& {touch} &", f"| {touch}", f";{tight};",
        f"<({tight})", f"${{x:-$({tight})}}", f"$(({tight}))", f"${{x@P}}$({tight})",
        f"\r\n{touch}\r\n", f"\x1b]0;$({touch})\x07", f"EOF\n{touch}\nEOF", f"\u2028{touch}\u2029", f"\x85{touch}\x85",
        f"-x $({touch})", f"--config=$({tight})", option, f" {option} ", f"\n{option}\n", f"x,{option}", f"x\t{option}",
        f"!{touch}", f"!!;{touch}", f"~$({touch})", f"*$({touch})*", f"[a-z]?{{a,$({tight})}}",
        f"'\\''; {touch}; '\\''", f"$'\\x27; {touch}; \\x27'", f"%s$({tight})", f"%n\\n{touch}",
        f"PostUp={touch}", f"\nPostUp = {touch}\n", f"\nurl = file://{owned}\n", f'" --output {owned} "',
        f"BASH_ENV={owned}", f"() {{ :; }}; {touch}", f"\0{touch}", f"\ud800$({touch})",
    ]  # fmt: skip


def poisoned(mapping, turn, owned, model=Workflow):
    """The mapping with a hostile text in each field that takes one, each turn another; and the
    fields that have one.
    """
    changed, poisoned_fields = copy.deepcopy(mapping), set()
    for number, (path, field) in enumerate(places_in(mapping, model)):
        before = at(mapping, path)
        if not isinstance(before, str) or (
            field in CODE and "container" not in at(mapping, path[:-1])
        ):
            continue
        texts = _taken(field, before, str(owned))
        if field in CODE:
            texts = [text for text in texts if _has_words(text)]
        if texts:
            text = texts[(turn + (0 if field in SAME else number)) % len(texts)]
            at(changed, path[:-1])[path[-1]] = text
            poisoned_fields.add(field)
    return changed, poisoned_fields


@cache
def most():
    """How many turns it takes until each field has had each text that it takes."""
    return 3 * len(hostile("/owned"))


@cache
def _taken(field, before, owned):
    """Hostile texts that a field takes, alone, behind what it held and before that."""
    adapter = TypeAdapter(_annotation(field))
    return [
        form
        for text in hostile(owned)
        for form in (text, before + text, text + before)
        if _takes(adapter, form)
    ]


def _annotation(field):
    info = fields()[field]
    kind = info.annotation
    for each in info.metadata:
        kind = Annotated[kind, each]
    return kind


def _takes(adapter, text):
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
