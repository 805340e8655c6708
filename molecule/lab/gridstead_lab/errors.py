# SPDX-License-Identifier: Apache-2.0
"""The errors of the lab, with messages for the person who runs the command."""


class LabError(Exception):
    """An action of the lab failed.

    Args:
        message: A line that names what failed. It starts in lower case and has no full stop.
        hint: A sentence that says what the user can do, or an empty text.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Store the message and the hint, which are printed on separate lines."""
        super().__init__(message)
        self.hint = hint


class InvalidTopology(LabError):
    """A topology file is not valid. The lab is unchanged."""


class CommandFailed(LabError):
    """A program of this machine failed. The message contains its output."""
