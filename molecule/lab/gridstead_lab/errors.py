# SPDX-License-Identifier: Apache-2.0
"""The errors of the lab, with messages for the person who runs the command."""


class LabError(Exception):
    """An action of the lab failed.

    Args:
        message: One line that says what failed: lower case, no full stop, with the object's name.
        hint: A full sentence that says what to do, or nothing.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Store the two parts, which are printed on separate lines."""
        super().__init__(message)
        self.hint = hint


class InvalidTopology(LabError):
    """A topology file is not valid. Nothing was changed."""


class CommandFailed(LabError):
    """A program of this machine failed. The message contains its output."""
