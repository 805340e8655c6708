#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a lab of Debian hosts as containers on this machine.

The commands that change hosts must run as root. See docs/reference/lab.md.
"""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from gridstead_lab import added_hosts, image, inputs, lifecycle, names, state, topology
from gridstead_lab.errors import LabError

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
FUNCTIONS_OF_COMMANDS = {
    "remove": added_hosts.remove,
    "kill": lifecycle.kill,
    "start": lifecycle.start,
}
HELP_OF_HOST_COMMANDS = {
    "add": "add a host to a lab that is up",
    "remove": "remove a host that was added",
    "shell": "log in to a host",
    "exec": "run a command on a host: exec HOST -- COMMAND ...",
    "kill": "stop a host like a power cut",
    "start": "start a killed host",
}


def main(argv: list[str]) -> int:
    """Run one command and return its exit code.

    The exit code is 0 for success, 1 for an error, 2 for wrong usage and 130 for an interrupt.
    """
    options = _parser().parse_args(argv)
    os.umask(0o022)  # Debian's default, for the files of the hosts
    try:
        lab_names = names.names(CHECKOUT, options.lab)
        return _run(options, lab_names)
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        if err.hint:
            print(f"lab: {err.hint}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; `lab.py down` removes the incomplete lab", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace, lab_names: names.Names) -> int:
    _prepare_change(options.command, lab_names)
    match options.command:
        case "up":
            lifecycle.up(lab_names, _topology(options), _report)
        case "down":
            lifecycle.down(lab_names, _report)
        case "status":
            _print_status(lifecycle.status(lab_names), as_json=options.json)
        case "add":
            added_hosts.add(lab_names, options.host, options.like)
        case "remove" | "kill" | "start":
            FUNCTIONS_OF_COMMANDS[options.command](lab_names, options.host)
        case "image":
            _image(lab_names, remove=options.remove)
        case "prefix":
            print(lab_names.prefix)
        case "ssh-config":
            _load_running_lab(lab_names)
            print((lab_names.state_folder / "ssh_config").read_text(), end="")
        case "shell":
            _ssh(lab_names, options.host, [])
        case _:
            _ssh(lab_names, options.host, _command(options.words))
    return 0


def _prepare_change(command: str, lab_names: names.Names) -> None:
    """Require root and set the lab's mark, if the command changes hosts."""
    if command in {"up", "down", "add", "remove", "kill", "start", "image"}:
        _require_root()
        _restart_with_mark(lab_names)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab.py", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--lab",
        default=os.environ.get("GRIDSTEAD_LAB_NAME", "default"),
        help="name of the lab (default: $GRIDSTEAD_LAB_NAME, else %(default)s)",
    )
    _add_commands(parser.add_subparsers(dest="command", required=True), common)
    return parser


def _add_commands(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401
    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[common])

    up = add("up", "create the hosts, or do nothing if they are up")
    up.add_argument("--topology", type=Path, help="JSON file that describes the hosts")
    up.add_argument("--hosts", help="create only these hosts of the topology, separated by commas")
    add("down", "remove every object of the lab")
    add("status", "show the hosts").add_argument("--json", action="store_true")
    build = add("image", "build the image if needed and print its layers")
    build.add_argument(
        "--remove",
        action="store_true",
        help="remove the layers that no lab uses, and build nothing",
    )
    add("prefix", "print the prefix of the lab's objects")
    add("ssh-config", "print the configuration of the ssh client")
    for name, text in HELP_OF_HOST_COMMANDS.items():
        add(name, text).add_argument("host")
    commands.choices["add"].add_argument(
        "--like",
        metavar="HOST",
        required=True,
        help="host whose groups and limits the new host gets",
    )
    commands.choices["exec"].add_argument("words", nargs="+", metavar="COMMAND")


def _topology(options: argparse.Namespace) -> topology.Topology:
    """Return the topology in --topology, $GRIDSTEAD_LAB_TOPOLOGY or the default file."""
    default = os.environ.get("GRIDSTEAD_LAB_TOPOLOGY") or HERE / "topology.json"
    file = options.topology or Path(default)
    try:
        text = file.read_text()
    except OSError as err:
        message = f"could not read topology {file}: {err.strerror}"
        raise LabError(message) from err
    complete = topology.parse(text)
    if not options.hosts:
        return complete
    return topology.subset(complete, options.hosts.split(","))


def _image(lab_names: names.Names, *, remove: bool) -> None:
    if remove:
        image.remove_unused(lab_names, _report)
        return
    print(image.lowerdir(image.ensure(inputs.read_inputs(CHECKOUT), lab_names, _report)))


def _report(line: str) -> None:
    print(f"lab: {line}", flush=True)


def _require_root() -> None:
    if os.geteuid() != 0:
        message = "only root can create hosts"
        raise LabError(message, "Run this command as root.")


def _load_running_lab(lab_names: names.Names) -> state.State:
    lab = state.load(lab_names)
    if lab is None:
        message = f"lab {lab_names.lab} is not up"
        raise LabError(message, "Bring it up with `lab.py up`.")
    return lab


def _restart_with_mark(lab_names: names.Names) -> None:
    """Execute this program again with the lab's mark in its environment, if the mark is not set.

    The command ``down`` finds the processes of the lab by this mark.
    """
    if os.environ.get(names.MARK) != lab_names.prefix:
        os.environ[names.MARK] = lab_names.prefix
        os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


def _command(words: list[str]) -> list[str]:
    """Return the command for ssh: a single word is a shell command line, several are quoted."""
    return words if len(words) == 1 else [shlex.join(words)]


def _ssh(lab_names: names.Names, host: str, words: list[str]) -> None:
    lab = _load_running_lab(lab_names)
    if host not in lab.hosts:
        message = f"lab {lab_names.lab} has no host {host}"
        raise LabError(message, f"Its hosts are {' '.join(lab.hosts)}.")
    argv = ["ssh", "-F", str(lab_names.state_folder / "ssh_config"), host, "--", *words]
    os.execvp("ssh", argv)  # noqa: S606


def _print_status(lab: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(lab, indent=2))
        return
    if not lab["up"]:
        print(f"lab {lab['lab']} is not up")
        return
    print(f"lab {lab['lab']} ({lab['prefix']}) network {lab['network']}")
    row = "{:12} {:9} {:15} {:>13} {:>6}  {}"
    print(row.format("HOST", "STATE", "ADDRESS", "MEMORY MiB", "CORES", "GROUPS"))
    for name, entry in lab["hosts"].items():  # type: ignore[attr-defined]
        used_mb = "-" if entry["memory_used_mb"] is None else entry["memory_used_mb"]
        memory = f"{used_mb}/{entry['memory_mb']}"
        state_text = "running" if entry["running"] else "off"
        groups = " ".join(entry["groups"])
        print(row.format(name, state_text, entry["address"], memory, f"{entry['cores']:g}", groups))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
