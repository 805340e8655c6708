# SPDX-License-Identifier: Apache-2.0
"""A function that runs a program of this machine and reports its output if it fails."""

import subprocess
from collections.abc import Mapping, Sequence

from gridstead_lab.errors import CommandFailed


def run(
    argv: Sequence[str],
    *,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program until it ends and return its output.

    Args:
        argv: The program and its arguments.
        text: The standard input. Default: empty.
        env: The environment. Default: the environment of this process.

    Raises:
        CommandFailed: If the program is not installed or its exit code is not 0.
    """
    stdin = subprocess.DEVNULL if text is None else None  # None: run() makes a pipe for ``text``
    try:
        result = subprocess.run(
            argv,
            input=text,
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=env,
        )
    except FileNotFoundError as err:
        message = f"program {argv[0]} is not installed"
        raise CommandFailed(message, "Run `make setup`.") from err
    if result.returncode:
        output = (result.stderr.strip() or result.stdout.strip())[-2000:]
        message = f"{' '.join(argv)[:200]} exited {result.returncode}: {output}"
        raise CommandFailed(message)
    return result.stdout
