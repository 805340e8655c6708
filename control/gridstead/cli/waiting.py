# SPDX-License-Identifier: Apache-2.0
"""Prints why a pending job waits: `gridstead job why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstead.cli.output import credits_text, emit_record, emit_table, print_line
from gridstead.cli.watch import format_time

if TYPE_CHECKING:  # The import is slow.
    from gridstead.adapters.matching.pending_job import (
        ExpectedStart,
        NearestMiss,
        ObstacleCount,
        PendingJob,
        UnmetLabel,
    )

MIB_PER_GIB = 1024
SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3600


def print_explanation(job_number: int, answer: PendingJob) -> None:
    """Print why a job waits.

    Args:
        job_number: The number of the job.
        answer: The answer of the queue view.
    """
    print_line(f"job {job_number}: {answer.reason}")
    rows: list[tuple[object, str, str]] = []
    for obstacle in answer.obstacles:
        rows.append((obstacle.providers, obstacle.text, _nearest_text(obstacle)))
        if obstacle.code == "labels":
            compared = answer.labels_compared
            rows += [("", "", _label_text(label, compared)) for label in answer.labels]
    if rows:
        print_line("")
        emit_table(("PROVIDERS", "CONDITION", "NEAREST MISS"), rows)
    print_line("")
    record: dict[str, object] = {}
    if answer.ahead is not None:
        own, others = answer.ahead.own, answer.ahead.others
        record["jobs ahead"] = f"about {own} of the same customer and {others} of others"
    if answer.expected_start is not None:
        record |= _start_lines(answer.expected_start)
    record["as of"] = f"block {answer.block}, {format_time(answer.block_time)}"
    emit_record(record)


def _start_lines(start: ExpectedStart) -> dict[str, object]:
    lines: dict[str, object] = {}
    lines["expected start"] = f"by {format_time(start.start_at)} at {start.provider}"
    move = start.last_move
    if move is not None:
        times = f"from {format_time(move.from_at)} to {format_time(move.to_at)}"
        lines["last delayed"] = f"{times}: {move.cause}"
    return lines


def _nearest_text(obstacle: ObstacleCount) -> str:
    """Return a sentence about the nearest miss. Empty if there is none."""
    nearest = obstacle.nearest
    if nearest is None:
        return ""
    free = " free" if obstacle.code == "full" else ""
    needed, available = nearest.needed, nearest.available
    match nearest.quantity:
        case "gpus":
            return f"needs {_count_text(needed, 'GPU')}; the nearest provider has {available}{free}"
        case "node-cpus":
            cpus = _count_text(needed, "CPU")
            return f"needs {cpus} on a node; the largest node has {available}{free}"
        case "node-memory-mb":
            memory = f"the largest node has {_memory_text(available)}{free}"
            return f"needs {_memory_text(needed)} on a node; {memory}"
        case "tasks":
            tasks = _count_text(needed, "task")
            return f"needs room for {tasks} at once; the most is {available}"
        case "queue-places":
            return "other matched jobs wait there already"
        case "escrow-wei":
            price = f"costs {credits_text(needed)} credits a minute at the cheapest"
            return f"{price}; its escrow is {credits_text(available)}"
        case "price-per-min-wei":
            price = f"costs {credits_text(available)} credits a minute there"
            return f"{price}, and {credits_text(needed)} at a provider that is full"
        case "free-s":
            return _reservation_text(nearest)
        case quantity:  # of a newer queue view
            return f"needs {needed} ({quantity}); the nearest provider has {available}"


def _reservation_text(nearest: NearestMiss) -> str:
    paid, free = _duration_text(nearest.needed), _duration_text(nearest.available)
    holder = "another job"
    if nearest.reserved_for is not None:
        holder = f"job {int(nearest.reserved_for, 16)}"
    return f"is paid for {paid}; the room is reserved for {holder} in {free}"


def _label_text(label: UnmetLabel, compared: int) -> str:
    facts = []
    if label.other:
        values = ", ".join(label.values)
        facts.append(f"{label.other} of {compared} providers have another ({values})")
    if label.missing:
        facts.append(f"{label.missing} of {compared} have none")
    return f"needs label {label.requirement}; {', '.join(facts)}"


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _memory_text(memory_mb: int) -> str:
    """Return an amount of memory. As in Slurm, an MB is a MiB."""
    if memory_mb and memory_mb % MIB_PER_GIB == 0:
        return f"{memory_mb // MIB_PER_GIB} GiB"
    return f"{memory_mb} MiB"


def _duration_text(seconds: int) -> str:
    if seconds < SECONDS_PER_MINUTE:
        return f"{seconds} s"
    if seconds < SECONDS_PER_HOUR:
        return f"{seconds // SECONDS_PER_MINUTE} min"
    hours, rest = divmod(seconds, SECONDS_PER_HOUR)
    return f"{hours} h {rest // SECONDS_PER_MINUTE} min"
