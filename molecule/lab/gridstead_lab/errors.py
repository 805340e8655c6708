# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in the lab, said for the person who typed the command."""


class LabError(Exception):
    """One line what could not be done, and if known a hint what to do.

    Args:
        message: Lower case, no full stop, names the object.
        hint: A full sentence, or nothing.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the two parts apart for printing."""
        super().__init__(message)
        self.hint = hint


class InvalidTopology(LabError):
    """A topology file says something the lab cannot build; nothing was changed."""


class CommandFailed(LabError):
    """A program of the machine ended with an error; its words are in the message."""
