# SPDX-License-Identifier: Apache-2.0
"""The text of docs/reference/queue-view.md, from the schema of the answers and from the domain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gridstead.adapters.matching.pending_job import PendingJob
from gridstead.domain.matching.reasons import (
    DEARER,
    FULL,
    NOT_ACCEPTING,
    NOT_TRIED,
    REFUSED_BEFORE,
    RESERVED,
    RESTING,
    TOO_EXPENSIVE,
    TOO_SMALL,
    UNLABELLED,
    Cause,
)
from gridstead.domain.matching.shortfalls import Quantity

INTRODUCTION = """\
# Queue view

The meta-scheduler serves the queue view over HTTPS, if its settings have the table
[`queue_view`](settings.md#meta-scheduler). Anyone may read it. Web pages of any origin may read all
paths except `/metrics` (CORS). [Why a job waits](../explanation/matching.md#why-a-job-waits)
explains the reasons.

| path | answer |
|---|---|
| `/` | JSON object: the state of each matched and running job, by job number |
| `/pending` | JSON object: the reason in one line why each pending job waits, by job number |
| `/pending/<job number>` | JSON object: why this job waits, in figures; 404 if it is not pending |
| `/excluded` | JSON object: why providers are excluded from all jobs, by address |
| `/keys` | JSON object: the operators of each reserved key that the matcher understands |
| `/decisions/N` | JSON list: records of the [decision log](decision-log.md) from number N on |
| `/metrics` | OpenMetrics text |

A job number is `0x` and 64 hexadecimal digits. Further keys may be added to the answers.

## /pending/&lt;job number&gt;

`gridstead job why` prints this answer. An example:
"""
EXAMPLE = {
    "job": f"0x{7:064x}",
    "cause": "waits-for-provider",
    "reason": "waits for a provider: 1 too expensive, 3 full; "
    "expected to start by 2026-11-26 14:10 UTC",
    "obstacles": [
        {
            "code": "too-expensive",
            "text": "too expensive",
            "providers": 1,
            "nearest": {
                "quantity": "escrow-wei",
                "needed": 140_000_000_000_000_000,
                "available": 100_000_000_000_000_000,
                "provider": "0x2222222222222222222222222222222222222222",
                "reserved_for": None,
            },
        },
        {
            "code": "full",
            "text": "full",
            "providers": 3,
            "nearest": {
                "quantity": "node-memory-mb",
                "needed": 65_536,
                "available": 49_152,
                "provider": "0x1111111111111111111111111111111111111111",
                "reserved_for": None,
            },
        },
    ],
    "labels": [],
    "labels_compared": 4,
    "ahead": {"own": 2, "others": 14},
    "expected_start": {
        "provider": "0x1111111111111111111111111111111111111111",
        "start_at": 1_795_702_200,
        "last_move": {
            "from_at": 1_795_701_600,
            "to_at": 1_795_702_200,
            "cause": "job 5 is not settled yet",
        },
    },
    "block": 81_234,
    "block_time": 1_795_698_000,
}
CAUSES = {
    Cause.BEING_MATCHED: "The match is not in a block yet.",
    Cause.NOT_STORED: "The match could not be stored. `reason` is the error.",
    Cause.NOT_EXPLAINED: "The number of comparisons in a decision is limited. Ask again after a "
    "few blocks.",
    Cause.MALFORMED_SCRIPT_ID: "The script id is malformed, so no provider can run the job.",
    Cause.NO_PROVIDER: "No provider can run the job. `obstacles` has the reasons. The job waits "
    "until a provider changes.",
    Cause.WAITS: "Providers can run the job, and it waits for one of them.",
}
# Each condition, and what is compared with what the job needs.
OBSTACLES = {
    NOT_ACCEPTING.code: ("The provider is banned, was removed, or accepts no jobs.", ()),
    REFUSED_BEFORE.code: ("The provider refused the job.", ()),
    UNLABELLED.code: ("The labels do not satisfy the job. `labels` has the details.", ()),
    TOO_SMALL.code: (
        "The nodes have no room for the job even when they are empty.",
        (Quantity.GPUS, Quantity.NODE_CPUS, Quantity.NODE_MEMORY_MB, Quantity.TASKS),
    ),
    TOO_EXPENSIVE.code: (
        "The escrow does not pay for one minute of the job.",
        (Quantity.ESCROW_WEI,),
    ),
    "condition": ("The condition with the reserved key in `text` is not satisfied.", ()),
    RESTING.code: ("The provider rests, because too many jobs failed through its fault.", ()),
    "excluded": ("The provider is excluded for a while. `text` is the reason.", ()),
    FULL.code: (
        "The provider is suitable, but has no room now.",
        (
            Quantity.GPUS,
            Quantity.NODE_CPUS,
            Quantity.NODE_MEMORY_MB,
            Quantity.TASKS,
            Quantity.QUEUE_PLACES,
        ),
    ),
    RESERVED.code: (
        "The provider has room, but another job needs it before the paid time of this job ends.",
        (Quantity.FREE_S,),
    ),
    DEARER.code: (
        "The provider has room, but a full provider is cheaper, and the policy may wait for it.",
        (Quantity.PRICE_PER_MIN_WEI,),
    ),
    NOT_TRIED.code: ("The provider has room. A later decision tries the job.", ()),
}
QUANTITIES = {
    Quantity.GPUS: "GPUs of all nodes",
    Quantity.NODE_CPUS: "CPUs on the node with the most CPUs; a task needs them on one node",
    Quantity.NODE_MEMORY_MB: "memory on the node with the most memory, MB (2^20 bytes)",
    Quantity.TASKS: "tasks that can be placed at once",
    Quantity.QUEUE_PLACES: "places for matched jobs that wait for room at the provider. "
    "`available` is 0, because other matched jobs wait there",
    Quantity.ESCROW_WEI: "`needed` is the price of one minute, `available` is the escrow, wei",
    Quantity.FREE_S: "`needed` is the paid time of the job, `available` is the time until the "
    "reservation, seconds",
    Quantity.PRICE_PER_MIN_WEI: "`available` is the price of one minute at this provider, `needed` "
    "is the price at the cheapest full provider, wei; both include the risk of the provider",
}


def page() -> str:
    """Return the text of the page."""
    PendingJob.model_validate(EXAMPLE)
    lines = [INTRODUCTION, f"```json\n{json.dumps(EXAMPLE, indent=2)}\n```\n"]
    schema = PendingJob.model_json_schema()
    lines += _object(schema)
    for name in sorted(schema["$defs"]):
        lines.append(f"### {name}\n")
        lines += _object(schema["$defs"][name])
    lines.append("### Causes\n\n| cause | meaning |\n|---|---|")
    lines += [f"| `{cause}` | {CAUSES[cause]} |" for cause in Cause]
    lines.append("\n### Obstacles\n\n| code | condition | quantities |\n|---|---|---|")
    for code, (text, quantities) in OBSTACLES.items():
        names = ", ".join(f"`{quantity}`" for quantity in quantities)
        lines.append(f"| `{code}` | {text} | {names} |")
    lines.append("\n### Quantities\n\n| quantity | meaning |\n|---|---|")
    lines += [f"| `{quantity}` | {QUANTITIES[quantity]} |" for quantity in Quantity]
    return "\n".join(lines) + "\n"


def _object(schema: dict[str, Any]) -> Iterator[str]:
    yield schema["description"] + "\n"
    yield "| key | type | meaning |\n|---|---|---|"
    for key, value in schema["properties"].items():
        yield f"| `{key}` | {_type(value)} | {value['description']} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema["type"])
