#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the time that a workflow's file takes grows with its size: in proportion, whatever is in it.

Each kind of file is read and rendered at a quarter of the largest size and at the whole. It ends
with 1 if one takes much more than four times as long.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from gridstead.errors import InvalidWorkflow  # noqa: E402
from gridstead.workflow.document import MAX_BYTES  # noqa: E402
from gridstead.workflow.parse import parse_workflow  # noqa: E402
from gridstead.workflow.render import render  # noqa: E402

KEY = "A" * 43 + "="
RESOURCES = "resources: {tasks: 9, cpusPerTask: 1, memPerCpu: 1}\n"
STEPS = "steps:\n- run: {command: x}\n"
RUN = "- run: {command: x, network: pasta, customNetworkInterfaces: ["
END = "{vnet: {name: n, address: 10.0.0.2/8}}, "
NETWORK = "virtualNetworks: [{name: n, gatewayAddress: 10.0.0.1/8}]\n"
MAX_SHOWN = 100_000
MOST = 9  # four times the size: 4 is linear, 16 is quadratic
RUNS = 5


def nested(depth):
    text = "[{}]"
    for _ in range(depth):
        text = f"[{{steps: {text}}}, {{}}, {{}}, {{}}]"
    return text


FILES = {
    "unknown keys": (STEPS, "k%d: 1\n", ""),
    "keys almost right": (STEPS, "enableLogginh%d: 1\n", ""),
    "keys in a wrong place": ("steps:\n", "- {network: %d}\n", ""),
    "keys twice": (STEPS, "a: %d\n", ""),
    "errors in lists": ("steps:\n", "- steps: [{a%d: 1}, {a: 1}, {a: 1}, {a: 1}, {a: 1}]\n", ""),
    "anchors": (STEPS, "a%d: &a 1\n", ""),
    "keys that are marked": (STEPS, "? a%d\n", ""),
    "tags of tags": ("", "%%TAG !a%d! b\n", ""),
    "escapes": ('steps: [{run: {command: "', "\\x41%d", '"}}]\n'),
    "items": ("steps: [{for: {parallel: false, items: [", "a%d, ", "], steps: [{run: {command: x}}]}}]\n"),
    "variables": (STEPS + "env: [", "{key: a%d, value: b}, ", "]\n"),
    "digits": (STEPS + "a: ", "%d", "x\n"),
    "steps in steps": ("steps: [", f"{{name: s%d, steps: {nested(12)}}}, ", "]\n"),
    "handles": ("steps:\n", "- {launch: {handleName: h%d, steps: [{run: {command: x}}]}, dependsOn: [h0]}\n", ""),
    "ends of a network": (
        NETWORK + "steps:\n",
        RUN + "{vnet: {name: n, address: 10.1.0.%d/8}}, " + END * 15 + "]}" + " # long" * 100 + "\n",
        "",
    ),
    "tunnels": ("steps:\n", RUN + f"{{wireguard: {{privateKey: '{KEY}'}}}}, " * 16 + "]} #%d\n", ""),
}  # fmt: skip


def written(kind, size):
    head, part, tail = FILES[kind]
    parts, length = [head if kind == "tags of tags" else RESOURCES + head], len(RESOURCES + head)
    while length < size - 2000:
        parts.append(part % (len(parts) % 250 if "ends" in kind else len(parts)))
        length += len(parts[-1])
    return "".join((*parts, tail))


def seconds(text):
    """CPU time that the text takes to be a script or to be refused; very much if very much is said
    of it.
    """
    started = time.process_time()
    try:
        render(parse_workflow(text))
    except InvalidWorkflow as err:
        return time.process_time() - started + 10 * (len(str(err)) > MAX_SHOWN)
    return time.process_time() - started


def main() -> int:
    """Measure each kind, and return 1 if one grows too fast."""
    print(f"{'kind of file':<24}{'quarter':>12}{'whole':>12}{'ratio':>8}")
    worst = 0.0
    for kind in FILES:
        texts = (written(kind, size) for size in (MAX_BYTES // 4, MAX_BYTES))
        quarter, whole = (min(seconds(text) for _ in range(RUNS)) for text in texts)
        print(f"{kind:<24}{1e3 * quarter:>9.1f} ms{1e3 * whole:>9.1f} ms{whole / quarter:>8.1f}")
        worst = max(worst, whole / quarter)
    print(f"largest ratio {worst:.1f}, bar {MOST}")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
