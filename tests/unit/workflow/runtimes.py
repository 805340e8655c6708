# SPDX-License-Identifier: Apache-2.0
"""Simulated container runtimes, and steps that use them.

The runtimes record their arguments and run the command on the host. ``APPTAINER`` and ``ENROOT``
are Python programs. ``install`` adds the first line and defines the variable ``home``. They start
often, so they do not import json or subprocess, which would double the time of their start.
"""

from __future__ import annotations

import ast
import os
import sys

from tests.unit.workflow.node import JOB_NAME

DEBIAN = {"image": "debian:12"}

APPTAINER = r"""
import os, sys
words = sys.argv[1:]
access = {k: v for k, v in os.environ.items() if k.startswith("APPTAINER_DOCKER")}
record = {"words": words, "access": access}
prefix = "APPTAINERENV_"
inside = {k[len(prefix):]: v for k, v in os.environ.items() if k.startswith(prefix)}
record["inside"] = inside
if "--overlay" in words:
    place = os.path.dirname(words[words.index("--overlay") + 1])
    record["mode"] = os.stat(place).st_mode & 0o777
with open(home + "/apptainer", "a") as file:
    file.write(ascii(record) + "\n")
assert words.pop(0) == "--quiet"
subcommand = words.pop(0)
if subcommand == "pull":
    if "broken" in words[-1]:
        sys.exit("no such image")
    with open(words[-2], "x") as file:
        file.write("image of " + words[-1])
    sys.exit()
if subcommand == "sif":
    # The configuration of the image is the second JSON object.
    if not os.path.exists(home + "/image-config"):
        sys.exit("not an image file")
    if words[0] == "list":
        print("ID   |GROUP   |TYPE\n1    |1       |Def.FILE")
        print("2    |1       |JSON.Generic\n3    |1       |JSON.Generic\n4    |1       |FS")
    else:
        print(open(home + "/image-config").read() if words[1] == "3" else '{"WorkingDir":"/no"}')
    sys.exit()
while words[0].startswith("--"):
    option = words.pop(0)
    if option in ("--bind", "--pwd", "--overlay", "--workdir"):
        value = words.pop(0)
    if option in ("--overlay", "--workdir"):
        open(value + "/written", "x").close()
image = words.pop(0)
assert os.path.exists(image), image
os.environ.update(inside)
if subcommand == "run":
    if words == ["environment"]:
        words = ["env", "-0"]
    else:
        words = ["/bin/echo", "entry point:", *words]
os.execvp(words[0], words)
"""

ENROOT = r"""
import os, sys

def output_of(*command):
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.dup2(write_end, 1)
        os.execvp(command[0], command)
    os.close(write_end)
    with open(read_end) as file:
        output = file.read()
    assert os.wait()[1] == 0
    return output

words = sys.argv[1:]
record = {"words": words}
if words[0] == "import":
    credentials = os.environ["ENROOT_CONFIG_PATH"] + "/.credentials"
    record["access"] = open(credentials).read() if os.path.exists(credentials) else ""
with open(home + "/enroot", "a") as file:
    file.write(ascii(record) + "\n")
subcommand = words.pop(0)
if subcommand == "import":
    with open(words[1], "x") as file:
        file.write("image of " + words[2])
elif subcommand == "create":
    assert os.path.exists(words[2]), words
    etc = os.environ["ENROOT_DATA_PATH"] + "/" + words[1] + "/etc"
    os.makedirs(etc)
    if os.path.exists(home + "/image-environment"):
        with open(etc + "/environment", "x") as file:
            file.write(open(home + "/image-environment").read())
    if os.path.exists(home + "/image-rc"):
        with open(etc + "/rc", "x") as file:
            file.write(open(home + "/image-rc").read())
elif subcommand == "start":
    # Enroot treats each line as a variable, so a value with two lines becomes two variables.
    environment = {"PATH": os.environ["PATH"]}
    conf = None
    assert os.environ["ENROOT_RUNTIME_PATH"].endswith("/run")
    assert "ENROOT_ROOTFS_WRITABLE" not in os.environ
    while words[0].startswith("--"):
        option = words.pop(0)
        if option in ("--mount", "--env", "--conf"):
            value = words.pop(0)
            if option == "--env":
                lines = f"{value}={os.environ[value]}".split("\n")
                environment.update(line.split("=", 1) for line in lines if "=" in line)
            if option == "--conf":
                conf = open(value).read()
    root = os.environ["ENROOT_DATA_PATH"] + "/" + words.pop(0)
    assert os.path.isdir(root)
    if os.path.exists(root + "/etc/environment"):
        pairs = [line.split("=", 1) for line in open(root + "/etc/environment").read().splitlines()]
        environment = {**dict(pairs), **environment}
    if conf is None:
        entry = "env -0" if words == ["environment"] else 'echo entry point: "$@"'
        source_rc_local = f"if [ -s {root}/etc/rc.local ]; then . {root}/etc/rc.local; fi; "
        os.execve("/bin/sh", ["sh", "-c", source_rc_local + entry, "rc", *words], environment)
    # Enroot reads the function with bash and passes its text to the shell of the image.
    text = output_of("bash", "-c", conf + "declare -f rc")
    script = text.replace("rc ()", "rc()") + 'rc "$@"'
    os.execve("/bin/sh", ["sh", "-c", script, "rc", *words], environment)
"""


def install(node, name, text):
    """Install a runtime on the node."""
    node.add_program(name, f"#!{sys.executable} -IS\nhome = {str(node.home)!r}\n{text}")


def calls(node, name, subcommand):
    """Return the recorded calls of a runtime with this subcommand."""
    file = node.home / name
    if not file.exists():
        return []
    records = [ast.literal_eval(line) for line in file.read_text().splitlines()]
    return [record for record in records if subcommand in record["words"][:2]]


def step(command="echo hello", *, container=DEBIAN, **fields):
    """Return a step in a container."""
    return {"run": {"command": command, "container": container, **fields}}


def job_directory(node):
    """Return the directory that the script creates for the job."""
    return f"{node.root}/cache/shared/{os.getuid()}/{JOB_NAME}.42"


def start_calls(node, runtime):
    """Return the recorded calls that started a container."""
    return calls(node, runtime, "start" if runtime == "enroot" else "exec")


def fetch_calls(node, runtime):
    """Return the recorded calls that fetched an image."""
    return calls(node, runtime, "import" if runtime == "enroot" else "pull")
