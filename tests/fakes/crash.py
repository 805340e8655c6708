# SPDX-License-Identifier: Apache-2.0
"""The simulated death of a process."""


class Crash(BaseException):
    """Ends the code under test as kill -9 would.

    The base class is BaseException, so that no handler of errors catches it.
    """
