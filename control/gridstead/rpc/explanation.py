# SPDX-License-Identifier: Apache-2.0
"""The explanation of a pending job as JSON, for the queue view.

``adapters/matching/pending_job.py`` has the schema.
"""

from __future__ import annotations

from gridstead.domain.matching.reasons import ExpectedStart, Explanation, ObstacleCount
from gridstead.domain.matching.shortfalls import UnmetLabel


def explanation_as_json(explanation: Explanation) -> dict[str, object]:
    """Return an explanation as a JSON object. Units: those of the quantities, Unix seconds."""
    reason = explanation.reason
    ahead = explanation.ahead
    return {
        "job": explanation.job_id.slurm_job_name,
        "cause": reason.cause.value,
        "reason": reason.text,
        "obstacles": [_obstacle_as_json(count) for count in reason.obstacles],
        "labels": [_label_as_json(label) for label in reason.labels],
        "labels_compared": reason.labels_compared,
        "ahead": None if ahead is None else {"own": ahead.own, "others": ahead.others},
        "expected_start": _start_as_json(reason.expected_start),
        "block": explanation.block.number,
        "block_time": explanation.block.timestamp,
    }


def _obstacle_as_json(count: ObstacleCount) -> dict[str, object]:
    nearest: dict[str, object] | None = None
    if count.nearest is not None:
        job_id = count.nearest.reserved_for
        nearest = {
            "quantity": count.nearest.quantity.value,
            "needed": count.nearest.needed,
            "available": count.nearest.available,
            "provider": count.nearest.provider,
            "reserved_for": None if job_id is None else job_id.slurm_job_name,
        }
    return {
        "code": count.obstacle.code,
        "text": count.obstacle.text,
        "providers": count.providers,
        "nearest": nearest,
    }


def _label_as_json(label: UnmetLabel) -> dict[str, object]:
    return {
        "requirement": label.requirement,
        "missing": label.missing_count,
        "other": label.other_count,
        "values": label.values,
    }


def _start_as_json(start: ExpectedStart | None) -> dict[str, object] | None:
    if start is None:
        return None
    last_move: dict[str, object] | None = None
    if start.last_move is not None:
        move = start.last_move
        last_move = {"from_at": move.from_s, "to_at": move.to_s, "cause": move.cause}
    return {"provider": start.provider, "start_at": start.start_at, "last_move": last_move}
