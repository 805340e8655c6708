# SPDX-License-Identifier: Apache-2.0
"""The figures of a soak."""

from __future__ import annotations

import os
from collections import Counter

from tests.bench.job_traces import STAGES, stage_seconds
from tests.bench.soak_checks import NOT_SETTLED

from gridstead.services.simulation.figures import percentile


def stage_percentiles(traces, runs_by_number):
    """Return p50 and p99 of each stage of the settled jobs, in seconds."""
    seconds_by_stage = {stage: [] for stage in STAGES}
    for number, trace in traces.items():
        runs = runs_by_number.get(number)
        if not trace.ends or not runs or runs[-1].ended_at is None:
            continue
        for stage, seconds in zip(STAGES, stage_seconds(trace, runs[-1]), strict=True):
            seconds_by_stage[stage].append(seconds)
    figures = {}
    for stage, values in seconds_by_stage.items():
        values.sort()
        figures[stage] = {"p50_s": percentile(values, 50), "p99_s": percentile(values, 99)}
    return figures


def figures_of(soak):
    """Return the figures of the campaign, with the keys of ``--json``, and the faults."""
    faults = soak.find_faults()
    traces = soak.traces.jobs if soak.traces else {}
    settled_traces = [trace for trace in traces.values() if trace.ends]
    if soak.is_interrupted:
        # The campaign did not wait for these jobs, so they are not lost.
        faults.lost = [line for line in faults.lost if not line.endswith(NOT_SETTLED)]
    seconds = soak.seconds
    figures = {
        "seed": soak.options.seed,
        "complete": not soak.is_interrupted,
        "jobs": soak.options.jobs,
        "requested": len(traces),
        "settled": len(settled_traces),
        "states": Counter(trace.ends[-1].state.name for trace in settled_traces),
        "kills": Counter(kill.service for kill in soak.kills),
        "lost": len(faults.lost),
        "doubled": len(faults.doubled),
        "misbilled": len(faults.misbilled),
        "seconds": round(seconds, 1),
        "jobs_per_s": round(len(settled_traces) / seconds, 2) if seconds else 0.0,
        "stages": stage_percentiles(traces, soak.runs_by_number),
        "jobs_by_provider": jobs_by_provider(soak.provider_names, settled_traces),
        "cpu_s": round(sum(os.times()[:4])),  # of this process and of all services
        "load": round(os.getloadavg()[0], 1),
        "passed": not faults,
    }
    return figures, faults


def jobs_by_provider(names, traces):
    """Return the number of settled jobs of each provider, by its name."""
    counts = Counter(trace.provider for trace in traces)
    return {names.get(address, address): count for address, count in counts.items()}


def print_table(figures):
    """Print the figures for people."""
    if not figures["complete"]:
        print("interrupted: the figures are those of a part of the jobs")
    for name in ("requested", "settled", "lost", "doubled", "misbilled"):
        print(f"{name:10} {figures[name]:8}")
    print(f"\n{'stage':10} {'p50, s':>8} {'p99, s':>8}")
    for stage, times in figures["stages"].items():
        print(f"{stage:10} {times['p50_s']:8} {times['p99_s']:8}")
    for title, key in (("states", "states"), ("kills", "kills"), ("jobs of", "jobs_by_provider")):
        counts = [f"{name} {count}" for name, count in sorted(figures[key].items())]
        print(f"{title}: " + ", ".join(counts))
    print(f"{figures['jobs_per_s']} jobs/s in {figures['seconds']} s, seed {figures['seed']}")
    print(f"CPU time of all processes: {figures['cpu_s']} s")
    print(f"machine: {os.cpu_count()} cores, load {figures['load']}")
