# SPDX-License-Identifier: Apache-2.0
"""What a paid job tries that it must not: it runs on a compute node, as a wallet's user, with
Slurm's tools.

    hostile_job.py VICTIM HOME OUTPUT

VICTIM is the Slurm id of another customer's running job, HOME that customer's home. OUTPUT gets a
JSON object: "attempts", what came of each, either "refused: ..." with the words that refused it or
"done: ..." with what it got; and "forged_end_at", the time of an end that the job reported of
itself.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT_S = 20
CONNECT_S = 5
AFTER_FORGERY_S = 3  # so that the real end is another second, and costs
OWN = os.environ["SLURM_JOB_ID"]
CHUNK_BYTES = 64 << 20
ROOM_CHUNKS = (1 << 30) // CHUNK_BYTES
SCRIPT = "#!/bin/sh\ntrue\n"


def tool(*argv, text=""):
    """Run one of Slurm's tools as a user at a shell would, outside of the job's own allocation."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SBATCH_"))
    }
    environment["LDAPTLS_CACERT"] = "/etc/gridstead/pki/ca.crt"
    try:
        done = subprocess.run(
            argv,
            input=text,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"done: {argv[0]} still waits after {TIMEOUT_S} s"
    said = " ".join((done.stdout + done.stderr).split())[:300]
    return f"refused: {said}" if done.returncode else f"done: {said}"


def script_of(victim):
    """Have slurmctld show a job's script; its tool ends well even when it is refused."""
    came = tool("scontrol", "write", "batch_script", victim, "-")
    return came if "#!" in came else f"refused: {came}"


def forge_end():
    """Tell the agent, under our own seal, that this job has ended; return when."""
    now = int(time.time())
    report = f"gridstead1 end {OWN} {os.getuid()} batch {socket.gethostname()} {now} {now}"
    sealed = subprocess.run(
        ["munge", "--ttl=60"], input=report.encode(), check=True, capture_output=True
    ).stdout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.sendto(sealed.strip(), ("controller", 6831))
    return now


def connect(host, port):
    """Open a connection and say nothing."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return "done: connected"


def call_agent():
    """Speak gRPC's first words to the agent, with no certificate of our own; count what it answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("controller", 6830), timeout=CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname="controller") as secure,
        ):
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            answer = secure.recv(100)
    except OSError as error:
        return f"refused: {error}"
    return f"done: {answer!r}" if answer else "refused: the connection was closed"


def open_socket(path):
    """Open a Unix socket."""
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(path)
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return "done: connected"


def read(path):
    """Read a file, or list a directory."""
    try:
        found = list(Path(path).iterdir()) if Path(path).is_dir() else Path(path).read_bytes()[:40]
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return f"done: {found!r}"


def fill(directory):
    """Take more of the storage than the lab lets a directory have (inventory/lab), chunk after
    chunk of MooseFS.
    """
    hoard = Path(directory) / "hoard"
    try:
        with hoard.open("wb", buffering=0) as file:
            for chunk in range(1, ROOM_CHUNKS + 2):
                file.seek(chunk * CHUNK_BYTES - 1)
                file.write(b"x")
                os.fsync(file.fileno())
    except OSError as error:
        return f"refused: {error}"
    finally:
        hoard.unlink()
    return f"done: {chunk * CHUNK_BYTES} bytes"


def attempts(victim, victims_home):
    """Yield each attempt's name and what came of it."""
    yield "sbatch", tool("sbatch", text=SCRIPT)
    yield "sbatch in the name of root", tool("sbatch", "--uid=0", text=SCRIPT)
    yield "salloc", tool("salloc", "true")
    yield "srun outside of the job", tool("srun", "true")
    yield "srun in another's job", tool("srun", f"--jobid={victim}", "--overlap", "true")
    yield "scrontab", tool("scrontab", "-", text="@hourly true\n")
    yield "more time for itself", tool("scontrol", "update", f"jobid={OWN}", "timelimit=+600")
    yield (
        "another job key for itself",
        tool("scontrol", "update", f"jobid={OWN}", "admincomment=1/0x0/0x0/x"),
    )
    yield "another name for itself", tool("scontrol", "update", f"jobid={OWN}", "name=0x1")
    yield "requeue itself", tool("scontrol", "requeue", OWN)
    yield "less time for another", tool("scontrol", "update", f"jobid={victim}", "timelimit=1")
    yield "suspend another", tool("scontrol", "suspend", victim)
    yield "hold another", tool("scontrol", "hold", victim)
    yield "requeue another", tool("scontrol", "requeue", victim)
    yield "read another's script", script_of(victim)
    yield "scancel another", tool("scancel", victim)
    yield "signal another", tool("scancel", "--signal=KILL", "--full", victim)
    yield "drain a node", tool("scontrol", "update", "nodename=compute1", "state=drain", "reason=x")
    yield "stop slurmctld", tool("scontrol", "shutdown")
    yield "reconfigure", tool("scontrol", "reconfigure")
    yield "token of Slurm's REST API", tool("scontrol", "token")
    yield "account", tool("sacctmgr", "--immediate", "add", "account", "evil")
    yield "limits", tool("sacctmgr", "--immediate", "modify", "account", "grid", "set", "maxjobs=0")
    yield "trigger", tool("strigger", "--set", "--node", "--down", "--program=/bin/true")
    yield "agent", call_agent()
    yield "slurmrestd over TCP", connect("controller", 6820)
    yield "slurmrestd over its socket", open_socket("/run/slurmrestd/slurmrestd.socket")
    for port in (9419, 9420, 9421, 9422):
        yield f"MooseFS {port}", connect("infra", port)
    yield "chain", connect("control", 8545)
    yield "database", connect("db", 3306)
    search = ("ldapsearch", "-x", "-H", "ldaps://infra", "-b", "dc=gridstead,dc=internal", "-LLL")
    yield "directory without credentials", tool(*search, "(objectClass=*)", "uid")
    yield "the whole storage", fill(Path.home())
    yield "home of another", read(victims_home)
    yield "munge's key", read("/etc/munge/munge.key")
    yield "password of the directory", read("/etc/sssd/sssd.conf")


def main():
    """Try everything and tell."""
    victim, victims_home, output = sys.argv[1:]
    told = {"forged_end_at": forge_end(), "attempts": dict(attempts(victim, victims_home))}
    time.sleep(AFTER_FORGERY_S)
    Path(output).write_text(json.dumps(told, indent=2))


main()
