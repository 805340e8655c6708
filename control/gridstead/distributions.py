# SPDX-License-Identifier: Apache-2.0
"""Finds other distributions that add commands and settings files to the ``gridstead`` command.

A distribution declares its commands and settings files as entry points. Its modules are imported
only when they are used.

Group ``gridstead.commands``: the name of a command, and its Typer application. The list of commands
shows the summary of the distribution.
Group ``gridstead.settings``: the name of a settings file, and its model.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from gridstead.errors import ConfigError

COMMANDS_GROUP = "gridstead.commands"
SETTINGS_GROUP = "gridstead.settings"

# The distribution of this project that adds a command or a settings file, by the name of the
# command or file.
DISTRIBUTION_OF = {"cvmfs": "gridstead-cvmfs", "cvmfs-client": "gridstead-cvmfs"}


def installed_entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the installed entry points of a group by name. Imports none of their modules."""
    return {entry_point.name: entry_point for entry_point in entry_points(group=group)}


def summary(entry_point: EntryPoint) -> str:
    """Return the one-line description of the distribution of an entry point."""
    if entry_point.dist is None:
        return ""
    return str(entry_point.dist.metadata["Summary"])


def not_installed_error(name: str) -> ConfigError:
    """Return the error of a command or a settings file whose distribution is not installed."""
    distribution = DISTRIBUTION_OF[name]
    return ConfigError(
        f"{distribution} is not installed",
        detail=f"it provides {name!r}",
        hint=f"Install the wheel of {distribution} into the environment of gridstead.",
    )
