#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that the time to read and render a workflow grows linearly with the size of its file.

The benchmark reads and renders each kind of file at a quarter of the maximum size and at the
maximum size. The exit code is 1 if the larger file takes much more than four times as long.
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

WIREGUARD_KEY = "A" * 43 + "="
RESOURCES = "resources: {tasks: 9, cpusPerTask: 1, memPerCpu: 1}\n"
STEPS = "steps:\n- run: {command: x}\n"
STEP_WITH_INTERFACES = "- run: {command: x, network: pasta, customNetworkInterfaces: ["
INTERFACE = "{vnet: {name: n, address: 10.0.0.2/8}}, "
LONG_COMMENT = " # long" * 100 + "\n"
TUNNEL = f"{{wireguard: {{privateKey: '{WIREGUARD_KEY}'}}}}, "
NETWORK = "virtualNetworks: [{name: n, gatewayAddress: 10.0.0.1/8}]\n"
MAX_ERROR_CHARACTERS = 100_000
MAX_RATIO = 9  # for four times the size: 4 is linear, 16 is quadratic
RUNS = 5


def nested_steps(depth):
    """Return a list of steps that contain steps, as YAML."""
    text = "[{}]"
    for _ in range(depth):
        text = f"[{{steps: {text}}}, {{}}, {{}}, {{}}]"
    return text


# Three parts of each kind of file: the beginning, a part that is repeated with a number, the end.
PARTS_OF_FILES = {
    "unknown keys": (STEPS, "k%d: 1\n", ""),
    "misspelled keys": (STEPS, "enableLogginh%d: 1\n", ""),
    "misplaced keys": ("steps:\n", "- {network: %d}\n", ""),
    "duplicate keys": (STEPS, "a: %d\n", ""),
    "errors in lists": ("steps:\n", "- steps: [{a%d: 1}, {a: 1}, {a: 1}, {a: 1}, {a: 1}]\n", ""),
    "anchors": (STEPS, "a%d: &a 1\n", ""),
    "explicit keys": (STEPS, "? a%d\n", ""),
    "tags of tags": ("", "%%TAG !a%d! b\n", ""),
    "escapes": ('steps: [{run: {command: "', "\\x41%d", '"}}]\n'),
    "items": ("steps: [{for: {parallel: false, items: [", "a%d, ",
              "], steps: [{run: {command: x}}]}}]\n"),
    "variables": (STEPS + "env: [", "{key: a%d, value: b}, ", "]\n"),
    "digits": (STEPS + "a: ", "%d", "x\n"),
    "steps in steps": ("steps: [", f"{{name: s%d, steps: {nested_steps(12)}}}, ", "]\n"),
    "handles": (
        "steps:\n",
        "- {launch: {handleName: h%d, steps: [{run: {command: x}}]}, dependsOn: [h0]}\n",
        "",
    ),
    "ends of a network": (
        NETWORK + "steps:\n",
        STEP_WITH_INTERFACES
        + "{vnet: {name: n, address: 10.1.0.%d/8}}, " + INTERFACE * 15 + "]}" + LONG_COMMENT,
        "",
    ),
    "tunnels": ("steps:\n", STEP_WITH_INTERFACES + TUNNEL * 16 + "]} #%d\n", ""),
}  # fmt: skip


def file_text(kind, size):
    """Return the text of a file of this kind and approximately this size (bytes)."""
    head, part, tail = PARTS_OF_FILES[kind]
    if kind != "tags of tags":  # tag directives must be at the start of a file
        head = RESOURCES + head
    parts, length = [head], len(head)
    while length < size - 2000:  # 2000 bytes are enough for one more part and the tail
        number = len(parts)
        if kind == "ends of a network":
            number %= 250  # the number is a byte of an IP address
        parts.append(part % number)
        length += len(parts[-1])
    return "".join((*parts, tail))


def cpu_seconds(text):
    """Return the CPU seconds to render or refuse a text.

    If the error message is very long, the result is 10 s higher, so that the benchmark fails.
    """
    start_s = time.process_time()
    try:
        render(parse_workflow(text))
    except InvalidWorkflow as err:
        elapsed_s = time.process_time() - start_s
        if len(str(err)) > MAX_ERROR_CHARACTERS:
            elapsed_s += 10
        return elapsed_s
    return time.process_time() - start_s


def shortest_cpu_seconds(text):
    """Return the shortest CPU time of several runs, in seconds."""
    return min(cpu_seconds(text) for _ in range(RUNS))


def main() -> int:
    """Measure each kind of file. Return 1 if the time of a kind grows too fast."""
    print(f"{'kind of file':<24}{'quarter':>12}{'whole':>12}{'ratio':>8}")
    worst = 0.0
    for kind in PARTS_OF_FILES:
        quarter_s = shortest_cpu_seconds(file_text(kind, MAX_BYTES // 4))
        whole_s = shortest_cpu_seconds(file_text(kind, MAX_BYTES))
        ratio = whole_s / quarter_s
        print(f"{kind:<24}{1e3 * quarter_s:>9.1f} ms{1e3 * whole_s:>9.1f} ms{ratio:>8.1f}")
        worst = max(worst, ratio)
    print(f"largest ratio {worst:.1f}, at most {MAX_RATIO}")
    return int(worst > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
