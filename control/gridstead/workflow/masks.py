# SPDX-License-Identifier: Apache-2.0
"""Masks: words that stand for a step's secrets while the template of a stranger's module sees the
step.

A template may put a step where it wants to, and must neither read its secrets nor send them
elsewhere. A mask counts only in what it came from, unchanged: a password goes to the registry, and
a token to the server, that the customer wrote beside it. Anywhere else it is a word that says
nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from gridstead.errors import InvalidWorkflow, Problem
from gridstead.workflow.document import Path, format_path
from gridstead.workflow.schema.network import KEY_BYTES

M = TypeVar("M", bound=BaseModel)


class Masks:
    """The masks of one step."""

    def __init__(self) -> None:
        self._origins: dict[
            str, tuple[Any, Any]
        ] = {}  # what a mask is in, and what that was before

    def put_on(self, model: M) -> M:
        """Return a model with a mask in place of each secret in it."""
        inside = _rebuilt(model, lambda inner, _: self.put_on(inner), ())
        own = [
            name
            for name, info in type(model).model_fields.items()
            if not info.repr and getattr(model, name)
        ]
        masks = {name: self._mask(number) for number, name in enumerate(own)}
        masked = inside.model_copy(update=masks)
        self._origins |= dict.fromkeys(masks.values(), (masked, model))
        return masked

    def take_off(self, model: M, path: Path = ()) -> M:
        """Return a model with the secrets that its masks stand for.

        Raises:
            InvalidWorkflow: A mask is in another place than the secret was.
        """
        for name, info in type(model).model_fields.items():
            origin = None if info.repr else self._origins.get(getattr(model, name) or "")
            if origin is None:
                continue
            masked, original = origin
            if model != masked:
                reason = "is a secret of the step that uses the module, which counts only where that step has it"
                raise InvalidWorkflow(
                    Problem(path=format_path((*path, info.alias or name)), reason=reason)
                )
            restored: M = original
            return restored
        return _rebuilt(model, self.take_off, path)

    def _mask(self, number: int) -> str:
        """Return a new word that any field for a secret may hold, keys of WireGuard among them."""
        text = f"secret {len(self._origins) + number} of a step"
        return base64.b64encode(text.ljust(KEY_BYTES).encode()).decode()


def _rebuilt(model: M, change: Callable[[Any, Path], Any], path: Path) -> M:
    """Return a model with each model right inside it changed."""
    changes: dict[str, object] = {}
    for name, info in type(model).model_fields.items():
        value, place = getattr(model, name), (*path, info.alias or name)
        if isinstance(value, BaseModel):
            changes[name] = change(value, place)
        elif isinstance(value, tuple):
            changes[name] = tuple(
                change(item, (*place, number)) if isinstance(item, BaseModel) else item
                for number, item in enumerate(value)
            )
    return model.model_copy(update=changes)
