# SPDX-License-Identifier: Apache-2.0
"""HPL-AI (HPL-MxP) on GPUs: HPL in mixed precision, with an iterative refinement of the solution.

Each run prints a line whose fields are ``HPL_AI``, the variant, N, NB, P, Q, the time in seconds,
Gflop/s, the time of the refinement, its iterations, and Gflop/s with the refinement. The last
figure counts, because only with the refinement the solution has double precision.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.outputs.reading import Output, name_label, number_label
from gridstead.domain.jobs.job import Label

PROGRAM = "xhpl-ai"
_MARK = "HPL_AI"
_FIELDS = 11
_MODEL = re.compile("(NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN)( [A-Za-z0-9()/.+-]+)+")
# The positions of fields, from 0.
_N, _P, _Q, _GFLOPS = 2, 4, 5, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HplAiResult:
    """The best run: its N, and its speed with refinement in Gflop/s of all GPUs together."""

    order: int
    gflops: Decimal


def parse(text: str, *, gpus: int) -> HplAiResult:
    """Return the fastest run in the output of HPL-AI.

    Args:
        text: The output.
        gpus: The number of GPUs. Each process has one GPU.

    Raises:
        UnusableOutput: If there is no run, if a run has another number of processes, or if a
            residual check failed.
    """
    output = Output(PROGRAM, text)
    if "FAILED" in text:
        raise output.error("a residual check failed")
    runs = [_run(output, line, gpus) for line in output.lines() if line.split()[:1] == [_MARK]]
    if not runs:
        raise output.error(f"no line starts with {_MARK}")
    return max(runs, key=lambda run: run.gflops)


def _run(output: Output, line: str, gpus: int) -> HplAiResult:
    fields = line.split()
    if len(fields) != _FIELDS:
        raise output.error(f"a line with {_MARK} has {len(fields)} fields, not {_FIELDS}")
    processes = output.integer(fields[_P], "P") * output.integer(fields[_Q], "Q")
    if processes != gpus:
        raise output.error(f"P x Q is {processes}, but there are {gpus} GPUs")
    return HplAiResult(
        order=output.integer(fields[_N], "N"),
        gflops=output.number(fields[_GFLOPS], "Gflop/s with refinement"),
    )


def parse_names(text: str) -> tuple[str, ...]:
    """Return the models of GPUs from ``nvidia-smi --query-gpu=name --format=csv,noheader``.

    Raises:
        UnusableOutput: If there is no GPU, or an error instead of a model.
    """
    output = Output("nvidia-smi", text)
    names = tuple(line.strip() for line in output.lines())
    for name in names:
        if not _MODEL.fullmatch(name):
            raise output.error(f"{name[:80]!r} is not the model of a GPU")
    return names


def labels(result: HplAiResult | None, gpu_names: Sequence[str]) -> tuple[Label, ...]:
    """Return the labels of a cluster with GPUs.

    Args:
        result: The results of a run on all GPUs. None if it was not measured.
        gpu_names: The models of all GPUs. Different models are joined to one value.
    """
    measured = []
    if result is not None:
        measured.append(number_label("compute.gflops", result.gflops))
    model = name_label("gpu", gpu_names)
    if model is not None:
        measured.append(model)
    return tuple(measured)
