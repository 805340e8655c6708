#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Try this project on a stock Debian 13 in a virtual machine.

Run `site` sets up inventory/single on the virtual machine over ssh, runs verify.yml and a paid job,
reboots the machine, and runs verify.yml and a paid job again. Run `demo` executes `make demo` and
`make down` in the virtual machine. The virtual machine is removed at the end. See
docs/reference/lab.md.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gridstead_lab import names
from gridstead_lab.errors import LabError
from gridstead_lab.locks import hold_mutex
from gridstead_vm import inventory, qemu, runs
from gridstead_vm.progress import Progress

CHECKOUT = Path(__file__).resolve().parents[2]
NAME = "vm"
MIN_MEMORY_MB = 4096
# Memory of the guest in MiB, if the user does not choose it.
DEFAULT_MEMORY_MB = {"site": 6144, "demo": 8192}
RUNS = {"site": runs.run_site, "demo": runs.run_demo}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code.

    The exit code is 0 for success, 1 for an error, 2 for wrong usage and 130 for an interrupt.
    """
    options = _parser().parse_args(argv)
    os.umask(0o022)
    progress = Progress(_print)
    try:
        _check_machine()
        lab_names = names.names(CHECKOUT, NAME)
        _restart_with_mark(lab_names)
        for ending_signal in runs.ENDING_SIGNALS:
            signal.signal(ending_signal, signal.default_int_handler)
        with hold_mutex(
            f"{lab_names.prefix}.vm", lambda: progress.report("waiting for another run")
        ):
            _run(options, lab_names, progress)
    except LabError as err:
        print(f"vm: {err}", file=sys.stderr)
        if err.hint:
            print(f"vm: {err.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vm: interrupted; the virtual machine is removed", file=sys.stderr)
        return 130
    finally:
        for line in progress.summary():
            _print(line)
    progress.report("done")
    return 0


def _run(options: argparse.Namespace, lab_names: names.Names, progress: Progress) -> None:
    keep = _wait_for_interrupt if options.keep else None
    chosen_runs = list(RUNS) if options.run == "all" else [options.run]
    for run in chosen_runs:
        size = qemu.GuestSize(
            cpus=options.cpus, memory_mb=options.memory_mb or DEFAULT_MEMORY_MB[run]
        )
        RUNS[run](lab_names, size, progress, keep)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vm.py", description=__doc__)
    parser.add_argument("run", choices=[*RUNS, "all"], help="the run, or all runs in this order")
    parser.add_argument(
        "--cpus",
        type=_integer_from(1),
        default=os.cpu_count(),
        help="processors (default: %(default)s)",
    )
    parser.add_argument(
        "--memory-mb",
        type=_integer_from(MIN_MEMORY_MB),
        help=f"memory in MiB, at least {MIN_MEMORY_MB}"
        f" (default: {DEFAULT_MEMORY_MB['site']} for run site,"
        f" {DEFAULT_MEMORY_MB['demo']} for run demo)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="after an error, keep the virtual machine until an interrupt",
    )
    return parser


def _wait_for_interrupt(err: LabError) -> None:
    _print(f"{err}; `lab.py shell {inventory.HOST} --lab {NAME}` logs in; Ctrl-C ends it")
    signal.pause()


def _integer_from(smallest: int) -> Callable[[str], int]:
    """Return a parser of an integer that is at least ``smallest``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < smallest:
            message = f"{text!r} is not an integer of at least {smallest}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return parse


def _check_machine() -> None:
    if os.geteuid() != 0:
        message = "only root can create the virtual machine"
        raise LabError(message, "Run this command as root.")
    missing = qemu.missing_packages()
    if missing:
        message = f"these packages are not installed: {' '.join(missing)}"
        raise LabError(message, f"Run `apt-get install {' '.join(missing)}`.")
    if not Path("/dev/net/tun").exists():
        message = "/dev/net/tun does not exist"
        raise LabError(message, "Run `modprobe tun`.")


def _restart_with_mark(lab_names: names.Names) -> None:
    """Execute this program again with the mark of the guest's programs in its environment.

    The teardown finds the programs by the mark. The new program ends with its parent process, which
    is make.
    """
    if os.environ.get(names.MARK) != lab_names.prefix:
        os.environ[names.MARK] = lab_names.prefix
        argv = ["setpriv", "--pdeathsig", "TERM", sys.executable, *sys.argv]
        os.execvp("setpriv", argv)  # noqa: S606


def _print(line: str) -> None:
    print(f"vm: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
