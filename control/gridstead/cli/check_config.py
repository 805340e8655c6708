# SPDX-License-Identifier: Apache-2.0
"""`gridstead check-config`: checks a settings file."""

from __future__ import annotations

from typing import Annotated

import typer

from gridstead.cli.client import client_settings_path
from gridstead.cli.options import Json, ServiceConfig, service_settings_path
from gridstead.cli.output import emit_result
from gridstead.config import SERVICE_SETTINGS, ClientSettings, Settings, load
from gridstead.distributions import (
    DISTRIBUTION_OF,
    SETTINGS_GROUP,
    installed_entry_points,
    not_installed_error,
)
from gridstead.errors import InvalidInput

CLIENT = "client"
SETTINGS_FILES = (CLIENT, *sorted({*SERVICE_SETTINGS, *installed_entry_points(SETTINGS_GROUP)}))


def settings_models() -> dict[str, type[Settings]]:
    """Return the models of all settings files by name, including those of other distributions."""
    return {name: _model_of(name) for name in SETTINGS_FILES}


def check_config(
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help=f"One of: {', '.join(SETTINGS_FILES)}.")
    ],
    config: ServiceConfig = None,
    as_json: Json = False,
) -> None:
    """Check the settings file of a service, or of the client.

    The command reads only this file. It contacts no other program and changes nothing.
    """
    model = _model_of(service)
    path = service_settings_path(service, config)
    if service == CLIENT:
        path = client_settings_path(config)
    load(model, path)
    record = {"service": service, "file": str(path), "good": True}
    emit_result(record, f"{path}: valid", as_json=as_json)


def _model_of(name: str) -> type[Settings]:
    """Return the model of a settings file.

    Raises:
        InvalidInput: If no settings file has this name.
        ConfigError: If the file belongs to a distribution that is not installed.
    """
    if name == CLIENT:
        return ClientSettings
    if name in SERVICE_SETTINGS:
        return SERVICE_SETTINGS[name]
    entry_point = installed_entry_points(SETTINGS_GROUP).get(name)
    if entry_point is not None:
        model: type[Settings] = entry_point.load()
        return model
    if name in DISTRIBUTION_OF:
        raise not_installed_error(name)
    raise InvalidInput(
        f"unknown service {name[:80]!r}", hint=f"Give one of: {', '.join(SETTINGS_FILES)}."
    )
