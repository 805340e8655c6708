#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many workflows a second the Job Definition service takes, and how many scripts it hands out.

The service is a process of its own, on one core, with TLS on the loopback, a store on disk and a
real chain (anvil with the contracts). A submission is answered when it is durable; a fetch is a
challenge, a signature and GetSBatch. Callers run on the other cores and keep their connections. It
ends with 1 if a bar is missed.
"""

import argparse
import json
import logging
import os
import platform
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
os.chdir(CHECKOUT)
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

import httpx  # noqa: E402
from tests.adapters.chain.conftest import RealGrid  # noqa: E402
from tests.devnet import Devnet, wallet  # noqa: E402
from tests.fakes.definitions import wire_workflow  # noqa: E402
from tests.fakes.definitions_process import DefinitionsProcess  # noqa: E402

from gridstead.adapters.channel import GrpcPeer, open_channel  # noqa: E402
from gridstead.adapters.job_definitions import SUBMIT, submit_workflow  # noqa: E402
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest  # noqa: E402
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub  # noqa: E402
from gridstead.workflow.parse import from_graphql  # noqa: E402
from gridstead.workflow.render import render  # noqa: E402

SUBMIT_BAR, FETCH_BAR, RENDER_BAR_MS = 150, 300, 5.0
JOBS = 5
STEPS = 20
PROVIDER = 3  # of the tests' wallets
FULL_SPEED = {
    "limits": {"requests_per_s": 100_000, "calls_per_s": 100_000, "upload_mib_per_hour": 100_000}
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many calls a second were answered, and how long the service's core worked for each,
    milliseconds.
    """

    per_second: float
    cpu_ms: float

    def __str__(self):
        return f"{self.per_second:.0f} a second, {self.cpu_ms:.1f} ms of CPU each"


def main():
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=10, help="how long each is measured")
    options.add_argument("--callers", type=int, default=6, help="how many call at the same time")
    options.add_argument(
        "--state-url", default="", help="a store that is not a file in a new folder"
    )
    options.add_argument("--as-caller", nargs="+", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if chosen.as_caller:
        return call(*chosen.as_caller)
    render_ms = rendering()
    with tempfile.TemporaryDirectory(prefix="gridstead-bench-") as name:
        folder = Path(name)
        devnet = Devnet(folder)
        service = DefinitionsProcess(folder, devnet, state_url=chosen.state_url, **FULL_SPEED)
        try:
            service.start()
            service.wait()
            os.sched_setaffinity(service.process.pid, {0})
            for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {0})
            jobs = matched_jobs(devnet, service)
            pid = service.process.pid
            submits = together(chosen, pid, "submit", service.url, service.authority.certificate)
            fetches = together(
                chosen, pid, "fetch", service.peer.address, service.peer.ca, json.dumps(jobs)
            )
        finally:
            service.kill()
            devnet.close()
    return report(render_ms, submits, fetches)


def rendering():
    """Return the median milliseconds of rendering a workflow of many steps."""
    steps = [{"name": f"step {n}", "run": {"command": f"echo {n}\nsleep 1"}} for n in range(STEPS)]
    workflow = from_graphql(wire_workflow(steps=steps))
    times = []
    for _ in range(200):
        started = time.perf_counter()
        render(workflow, secrets_beside=True, site=None)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def matched_jobs(devnet, service):
    """Return jobs that are matched to the provider, as (number, script id) pairs."""
    grid = RealGrid(devnet)
    grid.register()
    grid.approve()
    jobs = []
    for _ in range(JOBS):
        script = submit_workflow(
            service.url, wire_workflow(enableLogging=True), ca=service.authority.certificate
        )
        number = grid.request(script)
        grid.match(number)
        jobs.append((number, script))
    return jobs


def together(chosen, service_pid, kind, *arguments):
    """Return calls a second of so many callers together, in processes of their own, and
    milliseconds of CPU each.
    """
    command = [
        sys.executable,
        __file__,
        "--as-caller",
        kind,
        str(chosen.seconds),
        *map(str, arguments),
    ]
    callers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(chosen.callers)
    ]
    for caller in callers:
        caller.stdout.readline()  # it is ready
    cpu_before = cpu_seconds(service_pid)
    for caller in callers:
        caller.stdin.write(b"go\n")
        caller.stdin.flush()
    answers = [json.loads(caller.communicate()[0]) for caller in callers]
    cpu_ms = 1000 * (cpu_seconds(service_pid) - cpu_before) / sum(done for done, _ in answers)
    return Rate(per_second=sum(done / seconds for done, seconds in answers), cpu_ms=cpu_ms)


def cpu_seconds(pid):
    """Return how long a process has used a core."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def call(kind, seconds, *arguments):
    """Call until the time is over; what a caller's process does."""
    others = os.sched_getaffinity(0) - {0}
    os.sched_setaffinity(0, others or {0})
    act = {"submit": submitting, "fetch": fetching}[kind](*arguments)
    act()
    print("ready", flush=True)
    sys.stdin.readline()
    done, started = 0, time.monotonic()
    while time.monotonic() - started < float(seconds):
        act()
        done += 1
    print(json.dumps([done, time.monotonic() - started]))
    return 0


def submitting(url, ca):
    """Return what submits one workflow."""
    http = httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False)
    body = json.dumps({"query": SUBMIT, "variables": {"job": wire_workflow(enableLogging=True)}})

    def act():
        answer = http.post(url, content=body).json()
        if "errors" in answer:
            raise SystemExit(f"bench: {answer}")

    return act


def fetching(address, ca, jobs):
    """Return what fetches one script."""
    provider, customer = wallet(PROVIDER), wallet(PROVIDER + 1)
    channel = open_channel(GrpcPeer(address=address, ca=Path(ca)))
    auth, sbatch = AuthAPIStub(channel), SBatchAPIStub(channel)
    us = bytes.fromhex(provider.address[2:])
    wanted = json.loads(jobs)
    turn = 0

    def act():
        nonlocal turn
        turn += 1
        number, script = wanted[turn % len(wanted)]
        challenge = auth.Challenge(ChallengeRequest(provider_address=us)).challenge
        request = GetSBatchRequest(
            batch_location_hash=script,
            challenge=challenge,
            signed_challenge=provider.sign_text(challenge),
            provider_address=us,
            customer_address=bytes.fromhex(customer.address[2:]),
            job_id=f"0x{number:064x}",
            secrets_beside=True,
        )
        sbatch.GetSBatch(request)

    return act


def report(render_ms, submits, fetches):
    """Print the figures, and return 1 if a bar is missed."""
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.0f}"
    print(f"{time.strftime('%Y-%m-%d')}; {machine}")
    print(f"rendering {STEPS} steps, median: {render_ms:.1f} ms (bar {RENDER_BAR_MS})")
    print(f"submissions: {submits} (bar {SUBMIT_BAR} a second)")
    print(f"fetches: {fetches} (bar {FETCH_BAR} a second)")
    return int(
        submits.per_second < SUBMIT_BAR
        or fetches.per_second < FETCH_BAR
        or render_ms > RENDER_BAR_MS
    )


if __name__ == "__main__":
    sys.exit(main())
