# SPDX-License-Identifier: Apache-2.0
"""Masks are texts that the template of a module reads in place of the secrets of a step.

A module is untrusted. Its template may insert a step of the user, but must neither read the step's
secrets nor send them elsewhere. A mask is replaced by its secret if it is in its original mapping
and the template has not changed that mapping. So a password is sent to no registry except the one
that the customer wrote in the same mapping, and a token to no server except the one in the same
mapping. A mask in a secret field of any other mapping, or of a changed mapping, is an error. In a
field that is not secret, a mask is a text without meaning.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

from gridstead.workflow.paths import Path, invalid
from gridstead.workflow.schema.network import KEY_BYTES

M = TypeVar("M", bound=BaseModel)


class Masks:
    """The masks of one step."""

    def __init__(self) -> None:
        # For each mask: two versions of its mapping, one with masks and one with the secrets.
        self._origins: dict[str, tuple[Any, Any]] = {}

    def mask(self, model: M) -> M:
        """Return a model in which each secret is replaced by a mask."""
        with_inner_masks = _rebuilt(model, lambda inner, _: self.mask(inner), ())
        masks: dict[str, str] = {}
        for name, info in type(model).model_fields.items():
            if not info.repr and getattr(model, name):
                masks[name] = self._new_mask(len(masks))
        masked_model = with_inner_masks.model_copy(update=masks)
        self._origins |= dict.fromkeys(masks.values(), (masked_model, model))
        return masked_model

    def unmask(self, model: M, path: Path = ()) -> M:
        """Return a model in which each mask is replaced by its secret.

        Raises:
            InvalidWorkflow: If a mask is in a secret field of another mapping, or of a changed
                mapping.
        """
        for name, info in type(model).model_fields.items():
            # Only fields without repr are secret. No mask is empty.
            origin = None if info.repr else self._origins.get(getattr(model, name) or "")
            if origin is None:
                continue
            masked_model, original = origin
            if model != masked_model:
                reason = (
                    "is a secret of the step that uses the module, which is valid only in the"
                    " unchanged mapping of that step"
                )
                raise invalid((*path, info.alias or name), reason)
            # The original also contains the secrets of inner mappings.
            restored_model: M = original
            return restored_model
        return _rebuilt(model, self.unmask, path)

    def _new_mask(self, number: int) -> str:
        """Return a new mask that every secret field accepts, also a field for a WireGuard key.

        ``number`` counts the masks of the same mapping that are not in ``_origins`` yet.
        """
        # A WireGuard key is 32 bytes in base64.
        text = f"secret {len(self._origins) + number} of a step"
        return base64.b64encode(text.ljust(KEY_BYTES).encode()).decode()


def _rebuilt(model: M, change: Callable[[Any, Path], Any], path: Path) -> M:
    """Return a copy of a model, with ``change`` applied to each directly nested model."""
    changes: dict[str, object] = {}
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        field_path = (*path, info.alias or name)
        if isinstance(value, BaseModel):
            changes[name] = change(value, field_path)
        elif isinstance(value, tuple):
            changes[name] = tuple(_changed_items(value, field_path, change))
    return model.model_copy(update=changes)


def _changed_items(
    items: Iterable[object], path: Path, change: Callable[[Any, Path], Any]
) -> Iterator[object]:
    for number, item in enumerate(items):
        yield change(item, (*path, number)) if isinstance(item, BaseModel) else item
