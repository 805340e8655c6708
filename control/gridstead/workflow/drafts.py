# SPDX-License-Identifier: Apache-2.0
"""Builds a model from a mapping with errors, so that rules over several fields are also checked.

A rule over several fields is checked only if no field that it reads has an error. Such fields are
missing in the draft while the rules of their mapping are checked. Afterwards they have values that
break no rule of the whole workflow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gridstead.workflow.field_paths import is_list
from gridstead.workflow.paths import Path
from gridstead.workflow.schema import (
    ForRange,
    JobResources,
    Step,
    StepRunResources,
    VirtualNetwork,
    VNet,
    model_in,
)

_UNLIMITED = 2**62
_NO_NAME = "\0"  # a text that cannot be a name
# These replace mappings with errors. No step needs more resources than the job has.
_NEUTRAL_MODELS: dict[type[BaseModel], BaseModel] = {
    JobResources: JobResources.model_construct(
        tasks=_UNLIMITED, cpus_per_task=1, mem_per_cpu=1, gpus=_UNLIMITED
    ),
    StepRunResources: StepRunResources.model_construct(cpus_per_task=1, mem_per_cpu=1),
    ForRange: ForRange.model_construct(begin=0, end=0),
    VNet: VNet.model_construct(name=_NO_NAME, address="0.0.0.0/0"),
    VirtualNetwork: VirtualNetwork.model_construct(name=_NO_NAME, gateway_address="0.0.0.0/0"),
}
_STEP_LISTS = ("steps", "catch", "finally")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A model that may have errors.

    Attributes:
        model: The model. None if there is no mapping.
        details: The errors in rules over several fields of one mapping that pydantic did not check,
            because other fields of the mapping have errors.
        unreliable_paths: The paths of the values that differ from those of the mapping.
    """

    model: Any
    details: tuple[ErrorDetails, ...] = ()
    unreliable_paths: frozenset[Path] = frozenset()

    def is_reliable(self, path: Path) -> bool:
        """Return whether an error at a path is an error of the mapping."""
        return all(path[:length] not in self.unreliable_paths for length in range(len(path) + 1))


def make_draft(value: object, model: type[BaseModel], details: Iterable[ErrorDetails]) -> Draft:
    """Return the draft of a mapping.

    Args:
        value: The mapping as plain values.
        model: The model of the mapping.
        details: All errors that pydantic has found in the mapping.
    """
    if not isinstance(value, dict):
        return Draft(model=None)
    drafter = _Drafter(details)
    draft = drafter.draft_mapping(value, model, ())
    unreliable_paths = frozenset(drafter.wrong_paths | drafter.replaced_paths)
    return Draft(model=draft, details=tuple(drafter.details), unreliable_paths=unreliable_paths)


def _is_rule_of_mapping(detail: ErrorDetails) -> bool:
    return detail["type"] == "value_error" and isinstance(detail["input"], dict)


class _Drafter:
    """Builds the draft, and checks the rules that pydantic did not check.

    Attributes:
        wrong_paths: The paths of the fields with errors.
        paths_around_errors: The paths of the mappings and lists that contain errors.
        replaced_models: The models whose mappings are all replaced by neutral mappings.
        replaced_paths: The paths of the replaced mappings.
        details: The errors in rules that pydantic did not check.
    """

    def __init__(self, details: Iterable[ErrorDetails]) -> None:
        self.wrong_paths: set[Path] = set()
        self.paths_around_errors: set[Path] = set()
        self.replaced_models: set[type[BaseModel]] = set()
        self.replaced_paths: set[Path] = set()
        self.details: list[ErrorDetails] = []
        for detail in details:
            path = detail["loc"]
            self.paths_around_errors.update(path[:length] for length in range(len(path)))
            if not _is_rule_of_mapping(detail):
                self.wrong_paths.add(path)
        self.has_unknown_launches = any(map(_concerns_launches, self.wrong_paths))
        if self.has_unknown_launches:
            self.replaced_models.add(JobResources)
        if any(path[0] == "virtualNetworks" for path in self.wrong_paths if path):
            self.replaced_models.add(VNet)

    def draft_mapping(self, value: dict[str, Any], model: type[BaseModel], path: Path) -> BaseModel:
        """Return the draft of a mapping of the model."""
        values: dict[str, Any] = {}
        unknown_fields: dict[str, FieldInfo] = {}
        for name, info in model.model_fields.items():
            alias = info.alias or name
            field_path = (*path, alias)
            is_missing = alias not in value
            if field_path in self.wrong_paths or (is_missing and info.is_required()):
                unknown_fields[name] = info
            elif not is_missing:
                values[alias] = self._draft_value(
                    value[alias], model_in(info.annotation), field_path
                )
        draft = model.model_construct(**values)
        for name in unknown_fields:
            draft.__dict__.pop(name, None)
        if path in self.paths_around_errors:
            self._check_rules(draft, path)
        for name, info in unknown_fields.items():
            draft.__dict__[name] = _neutral_value(info)
        return self._or_neutral(draft, path)

    def _or_neutral(self, draft: BaseModel, path: Path) -> BaseModel:
        """Return the draft, or a neutral mapping if rules of the workflow cannot use the draft."""
        model = type(draft)
        if isinstance(draft, Step) and self.has_unknown_launches:
            draft.__dict__["depends_on"] = ()
        has_error = path in self.paths_around_errors
        if model in self.replaced_models or (model in _NEUTRAL_MODELS and has_error):
            self.replaced_paths.add(path)
            return _NEUTRAL_MODELS[model]
        return draft

    def _draft_value(self, value: object, model: type[BaseModel] | None, path: Path) -> object:
        if isinstance(value, list):
            items = enumerate(value)
            return tuple(self._draft_item(item, model, (*path, number)) for number, item in items)
        return self._draft_item(value, model, path)

    def _draft_item(self, value: object, model: type[BaseModel] | None, path: Path) -> object:
        if model is None:
            return "" if path in self.wrong_paths else value
        return self.draft_mapping(value if isinstance(value, dict) else {}, model, path)

    def _check_rules(self, draft: BaseModel, path: Path) -> None:
        """Check the rules over several fields of a mapping."""
        for name in type(draft).__pydantic_decorators__.model_validators:
            try:
                getattr(draft, name)()
            except ValueError as error:
                detail = ErrorDetails(
                    type="value_error", loc=path, msg="", input={}, ctx={"error": error}
                )
                self.details.append(detail)
            except AttributeError:
                # The rule reads a field that has an error.
                continue


def _concerns_launches(path: Path) -> bool:
    """Return whether an error at the path can hide a launched step."""
    if not path:
        return False
    name, outer_path = path[-1], path[:-1]
    if isinstance(name, int):
        return outer_path[-1] in _STEP_LISTS  # a step that is not a mapping
    return name in _STEP_LISTS or name in ("launch", "handleName")


def _neutral_value(info: FieldInfo) -> object:
    """Return a value for a field that has an error."""
    if not info.is_required():
        return info.get_default()
    if is_list(info.annotation):
        return ()
    model = model_in(info.annotation)
    return "" if model is None else _NEUTRAL_MODELS.get(model, "")
