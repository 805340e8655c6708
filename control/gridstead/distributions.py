# SPDX-License-Identifier: Apache-2.0
"""Other distributions that add commands and settings files to the ``gridstead`` command.

A distribution declares them as entry points. Its modules are imported when they are used.

Group ``gridstead.commands``: name of a command, and its Typer application. The summary of the
distribution is the help of the command in the list of commands.
Group ``gridstead.settings``: name of a settings file, and its model.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from gridstead.errors import ConfigError

COMMANDS = "gridstead.commands"
SETTINGS = "gridstead.settings"

# The distributions of this project, by the commands and settings files that they add.
KNOWN = {"cvmfs": "gridstead-cvmfs", "cvmfs-client": "gridstead-cvmfs"}


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name. Imports none of them."""
    return {entry_point.name: entry_point for entry_point in entry_points(group=group)}


def summary(entry_point: EntryPoint) -> str:
    """Return the summary of the distribution of an entry point."""
    return str(entry_point.dist.metadata["Summary"]) if entry_point.dist else ""


def not_installed(name: str) -> ConfigError:
    """Return the error of a command or a settings file whose distribution is not installed."""
    distribution = KNOWN[name]
    return ConfigError(
        f"{distribution} is not installed",
        detail=f"it provides {name!r}",
        hint=f"Install the wheel of {distribution} into the environment of gridstead.",
    )
