# SPDX-License-Identifier: Apache-2.0
"""Converts plain scalars of a file to the types of their fields, as DeepSquare's clients do.

A text field contains the source text of an unquoted scalar: ``1.10`` stays ``1.10`` and ``true``
stays ``true``. A field that is true or false also accepts ``yes``, ``no``, ``on``, ``off``, ``y``
and ``n``. A whole number can have a fraction of zero or an exponent: ``1e3`` is 1000. Other values
do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gridstead.errors import WorkflowProblem
from gridstead.workflow.document import Document
from gridstead.workflow.paths import Path, format_path, shorten
from gridstead.workflow.scalars import has_leading_zero
from gridstead.workflow.schema import model_in

_BOOL_WORDS = {
    **dict.fromkeys(("y", "Y", "yes", "on"), True),
    **dict.fromkeys(("n", "N", "no", "off"), False),
}


def convert(
    value: object, path: Path, model: type[BaseModel], document: Document
) -> tuple[object, tuple[WorkflowProblem, ...]]:
    """Return the value with converted scalars, and a warning for each number with a leading zero.

    Values from the wire do not change: they have types already.

    Args:
        value: The mapping of the model in the document.
        path: The path of the mapping in the document.
        model: The model of the mapping.
        document: The document.
    """
    if not document.is_file:
        return value, ()
    converter = _Converter(document)
    converted_value = converter.mapping(value, path, model)
    return converted_value, tuple(converter.warnings)


@dataclass(slots=True)
class _Converter:
    document: Document
    warnings: list[WorkflowProblem] = field(default_factory=list)

    def mapping(self, value: object, path: Path, model: type[BaseModel]) -> object:
        """Convert a mapping of the model, or each mapping of a list."""
        if isinstance(value, list):
            return [self.mapping(item, (*path, number), model) for number, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        fields = {info.alias: info for info in model.model_fields.values()}
        converted_value = {}
        for key, item in value.items():
            info = fields.get(key)
            converted_value[key] = self._field(item, (*path, key), info) if info else item
        return converted_value

    def _field(self, value: object, path: Path, info: FieldInfo) -> object:
        model = model_in(info.annotation)
        if model is not None:
            return self.mapping(value, path, model)
        if value is None and not info.is_required():
            return None
        return self._scalar(value, path, _scalar_type(info.annotation))

    def _scalar(self, value: object, path: Path, scalar_type: type | None) -> object:
        """Convert a scalar, or each scalar of a list."""
        if isinstance(value, list):
            return [
                self._scalar(item, (*path, number), scalar_type)
                for number, item in enumerate(value)
            ]
        source = self.document.sources.get(path)
        if scalar_type is str and source is not None and not isinstance(value, str):
            return "" if value is None else source
        if scalar_type is bool and isinstance(value, str):
            return _BOOL_WORDS.get(value, value)
        if scalar_type is int and source is not None:
            return self._integer(value, path, source)
        return value

    def _integer(self, value: object, path: Path, source: str) -> object:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and has_leading_zero(source):
            base = "decimal" if "8" in source or "9" in source else "octal"
            reason = f"has a leading zero; {shorten(source)} is read as {base}, which is {value}"
            hint = f"Write {value} or {_octal(value)}."
            line = self.document.line(path)
            self.warnings.append(
                WorkflowProblem(path=format_path(path), reason=reason, hint=hint, line=line)
            )
        return value


def _octal(value: int) -> str:
    return f"{'-' if value < 0 else ''}0o{abs(value):o}"


def _scalar_type(annotation: object) -> type | None:
    """Return the type of a field's text, number or truth value, also inside a list."""
    for scalar_type in (str, bool, int):
        if annotation is scalar_type:
            return scalar_type
    if get_origin(annotation) is Literal:
        return str
    for part in get_args(annotation):
        if scalar_type_of_part := _scalar_type(part):
            return scalar_type_of_part
    return None
