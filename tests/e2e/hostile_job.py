# SPDX-License-Identifier: Apache-2.0
"""Attacks from a paid job, which runs on a compute node as a wallet's user.

    hostile_job.py VICTIM HOME OUTPUT

VICTIM is the Slurm id of another customer's running job, HOME that customer's home. The program
writes a JSON object to OUTPUT. "attempts" has the result of each attempt: "refused: ..." with the
error, or "done: ..." with the result. "forged_end_at" is the end time of the job's forged report.
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
AFTER_FORGERY_S = 3  # so that the real end differs from the forged end, in time and in cost
OWN = os.environ["SLURM_JOB_ID"]
CHUNK_BYTES = 64 << 20
ROOM_CHUNKS = (1 << 30) // CHUNK_BYTES
SCRIPT = "#!/bin/sh\ntrue\n"


def tool(*argv, text=""):
    """Run a Slurm tool as a user in a shell does, outside of the job's allocation."""
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith(("SLURM_", "SBATCH_")):
            del environment[name]
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
    output = " ".join((done.stdout + done.stderr).split())[:300]
    return f"refused: {output}" if done.returncode else f"done: {output}"


def script_of(victim):
    """Read another job's script. scontrol exits with 0 even if slurmctld refuses."""
    result = tool("scontrol", "write", "batch_script", victim, "-")
    return result if "#!" in result else f"refused: {result}"


def forge_end():
    """Report this job's end to the agent in a munge credential; return the reported time."""
    now = int(time.time())
    report = f"gridstead1 end {OWN} {os.getuid()} batch {socket.gethostname()} {now} {now}"
    credential = subprocess.run(
        ["munge", "--ttl=60"], input=report.encode(), check=True, capture_output=True
    ).stdout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp_socket:
        udp_socket.sendto(credential.strip(), ("controller", 6831))
    return now


def connect(host, port):
    """Open a TCP connection and send nothing."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return "done: connected"


def call_agent():
    """Send an HTTP/2 preface to the agent, without a client certificate, and read an answer."""
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
        is_directory = Path(path).is_dir()
        content = list(Path(path).iterdir()) if is_directory else Path(path).read_bytes()[:40]
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return f"done: {content!r}"


def fill(directory):
    """Write more MooseFS chunks than the directory's quota (inventory/lab) allows."""
    large_file = Path(directory) / "large-file"
    try:
        with large_file.open("wb", buffering=0) as file:
            for chunk in range(1, ROOM_CHUNKS + 2):
                file.seek(chunk * CHUNK_BYTES - 1)
                file.write(b"x")
                os.fsync(file.fileno())
    except OSError as error:
        return f"refused: {error}"
    finally:
        large_file.unlink()
    return f"done: {chunk * CHUNK_BYTES} bytes"


def attempts(victim, victims_home):
    """Yield the name and the result of each attempt."""
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
    """Make every attempt and write the results."""
    victim, victims_home, output = sys.argv[1:]
    report = {"forged_end_at": forge_end(), "attempts": dict(attempts(victim, victims_home))}
    time.sleep(AFTER_FORGERY_S)
    Path(output).write_text(json.dumps(report, indent=2))


main()
