#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how many submissions and fetches per second the Job Definition service answers.

The service is a separate process on one core. It uses TLS on the loopback interface, a store on
disk and a real chain (anvil with the contracts). The service answers a submission after it has
stored the workflow on disk. A fetch consists of a Challenge call, a signature and a GetSBatch call.
The callers run on the other cores and reuse their connections. The exit code is 1 if a measurement
misses its limit.
"""

import argparse
import itertools
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
from tests.adapters.chain.grids import RealGrid  # noqa: E402
from tests.devnet import Devnet, wallet  # noqa: E402
from tests.fakes.definitions import wire_workflow  # noqa: E402
from tests.fakes.definitions_process import DefinitionsProcess  # noqa: E402

from gridstead.adapters.channel import GrpcPeer, open_channel  # noqa: E402
from gridstead.adapters.definitions.job_definitions import SUBMIT, submit_workflow  # noqa: E402
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest  # noqa: E402
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub  # noqa: E402
from gridstead.workflow.parse import from_graphql  # noqa: E402
from gridstead.workflow.render import render  # noqa: E402

MIN_SUBMITS_PER_S, MIN_FETCHES_PER_S, MAX_RENDER_MS = 150, 300, 5.0
MATCHED_JOBS = 5
STEPS = 20
RENDERINGS = 200
# The number of the provider's test wallet in Devnet. The customer's wallet has the next number.
PROVIDER_WALLET = 3
UNLIMITED_SETTINGS = {
    "limits": {"requests_per_s": 100_000, "calls_per_s": 100_000, "upload_mib_per_hour": 100_000}
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The calls that the service answers per second, and its CPU time per call, in ms."""

    per_second: float
    cpu_ms: float

    def __str__(self):
        return f"{self.per_second:.0f} per second, {self.cpu_ms:.1f} ms of CPU per call"


def main():
    """Run the benchmark, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="duration of each measurement")
    parser.add_argument("--callers", type=int, default=6, help="number of simultaneous callers")
    parser.add_argument(
        "--state-url", default="", help="URL of the store (default: a file in a new folder)"
    )
    parser.add_argument("--as-caller", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if options.as_caller:
        return run_caller(*options.as_caller)
    render_ms = median_render_time_ms()
    with tempfile.TemporaryDirectory(prefix="gridstead-bench-") as name:
        folder = Path(name)
        devnet = Devnet(folder)
        service = DefinitionsProcess(
            folder, devnet, state_url=options.state_url, **UNLIMITED_SETTINGS
        )
        try:
            service.start()
            service.wait()
            # Sets the core of the process, and of each thread that it has already started.
            os.sched_setaffinity(service.process.pid, {0})
            for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {0})
            jobs = create_matched_jobs(devnet, service)
            pid = service.process.pid
            submits = measure_callers(
                options, pid, "submit", service.url, service.authority.certificate
            )
            fetches = measure_callers(
                options, pid, "fetch", service.peer.address, service.peer.ca, json.dumps(jobs)
            )
        finally:
            service.kill()
            devnet.close()
    return report(render_ms, submits, fetches)


def median_render_time_ms():
    """Return the median time to render a workflow with many steps, in milliseconds."""
    steps = []
    for number in range(STEPS):
        command = f"echo {number}\nsleep 1"
        steps.append({"name": f"step {number}", "run": {"command": command}})
    workflow = from_graphql(wire_workflow(steps=steps))
    times_ms = []
    for _ in range(RENDERINGS):
        start_s = time.perf_counter()
        render(workflow, secrets_beside=True, paths=None)
        times_ms.append(1000 * (time.perf_counter() - start_s))
    return statistics.median(times_ms)


def create_matched_jobs(devnet, service):
    """Create jobs that are matched with the provider; return (number, script id) pairs."""
    grid = RealGrid(devnet)
    grid.register()
    grid.approve()
    jobs = []
    for _ in range(MATCHED_JOBS):
        script_id = submit_workflow(
            service.url, wire_workflow(enableLogging=True), ca=service.authority.certificate
        )
        number = grid.request(script_id)
        grid.match(number)
        jobs.append((number, script_id))
    return jobs


def measure_callers(options, service_pid, call_name, *arguments):
    """Run all callers in separate processes and return their total rate."""
    command = [sys.executable, __file__, "--as-caller", call_name, str(options.seconds)]
    command += map(str, arguments)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    callers = [subprocess.Popen(command, **pipes) for _ in range(options.callers)]
    for caller in callers:
        caller.stdout.readline()  # blocks until the caller is ready
    cpu_before_s = cpu_seconds(service_pid)
    for caller in callers:
        caller.stdin.write(b"go\n")
        caller.stdin.flush()
    all_calls, calls_per_s = 0, 0.0
    for caller in callers:
        stdout, _ = caller.communicate()
        calls, seconds = json.loads(stdout)
        all_calls += calls
        calls_per_s += calls / seconds
    cpu_s = cpu_seconds(service_pid) - cpu_before_s
    return Rate(per_second=calls_per_s, cpu_ms=1000 * cpu_s / all_calls)


def cpu_seconds(pid):
    """Return the CPU time of a process, in seconds."""
    _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    user_ticks, system_ticks = fields.split()[11:13]
    return (int(user_ticks) + int(system_ticks)) / os.sysconf("SC_CLK_TCK")


def run_caller(call_name, seconds, *arguments):
    """Repeat a call for a number of seconds. This is the main function of a caller's process."""
    cores_of_callers = os.sched_getaffinity(0) - {0}
    os.sched_setaffinity(0, cores_of_callers or {0})
    makers = {"submit": make_submit, "fetch": make_fetch}
    call_once = makers[call_name](*arguments)
    call_once()  # the first call opens the connection
    print("ready", flush=True)
    sys.stdin.readline()
    calls, start_s = 0, time.monotonic()
    while time.monotonic() - start_s < float(seconds):
        call_once()
        calls += 1
    print(json.dumps([calls, time.monotonic() - start_s]))
    return 0


def make_submit(url, ca):
    """Return a function that submits one workflow."""
    http = httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False)
    body = json.dumps({"query": SUBMIT, "variables": {"job": wire_workflow(enableLogging=True)}})

    def call_once():
        answer = http.post(url, content=body).json()
        if "errors" in answer:
            raise SystemExit(f"bench: {answer}")

    return call_once


def make_fetch(address, ca, jobs):
    """Return a function that fetches one script.

    ``jobs`` is a JSON list of (job number, script id) pairs.
    """
    provider, customer = wallet(PROVIDER_WALLET), wallet(PROVIDER_WALLET + 1)
    channel = open_channel(GrpcPeer(address=address, ca=Path(ca)))
    auth, sbatch = AuthAPIStub(channel), SBatchAPIStub(channel)
    provider_address = bytes.fromhex(provider.address[2:])
    jobs_in_turn = itertools.cycle(json.loads(jobs))

    def call_once():
        number, script_id = next(jobs_in_turn)
        challenge = auth.Challenge(ChallengeRequest(provider_address=provider_address)).challenge
        request = GetSBatchRequest(
            batch_location_hash=script_id,
            challenge=challenge,
            signed_challenge=provider.sign_text(challenge),
            provider_address=provider_address,
            customer_address=bytes.fromhex(customer.address[2:]),
            job_id=f"0x{number:064x}",
            secrets_beside=True,
        )
        sbatch.GetSBatch(request)

    return call_once


def report(render_ms, submits, fetches):
    """Print the figures; return 1 if a limit is missed, else 0."""
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.0f}"
    print(f"{time.strftime('%Y-%m-%d')}; {machine}")
    print(f"rendering {STEPS} steps, median: {render_ms:.1f} ms (at most {MAX_RENDER_MS})")
    print(f"submissions: {submits} (at least {MIN_SUBMITS_PER_S} per second)")
    print(f"fetches: {fetches} (at least {MIN_FETCHES_PER_S} per second)")
    has_passed = (
        submits.per_second >= MIN_SUBMITS_PER_S
        and fetches.per_second >= MIN_FETCHES_PER_S
        and render_ms <= MAX_RENDER_MS
    )
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
