# SPDX-License-Identifier: Apache-2.0
"""The errors of the lab, with messages for the person who runs the command."""


class LabError(Exception):
    """An action of the lab failed.

    Args:
        message: One line that names the failed object, in lower case and without a full stop.
        hint: A sentence with the action for the user, or an empty text.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Store the message and the hint, which are printed on separate lines."""
        super().__init__(message)
        self.hint = hint


class InvalidTopology(LabError):
    """A topology file is not valid. The lab is unchanged."""


class CommandFailed(LabError):
    """A program of this machine failed. The message contains its output."""
