# SPDX-License-Identifier: Apache-2.0
"""The suite ``processor``: the operating system, the CPUs and the equipment of each node."""

from __future__ import annotations

from gridstead.domain.benchmarks import equipment
from gridstead.domain.benchmarks.equipment import Equipment, NodeEquipment
from gridstead.domain.benchmarks.outputs import processor
from gridstead.domain.benchmarks.outputs.processor import Processor
from gridstead.domain.benchmarks.outputs.reading import Output, UnusableOutput, name_label
from gridstead.domain.benchmarks.scripts import path_command, script
from gridstead.domain.benchmarks.site import Findings, MeasuredSite, Mode, Outcomes, Step, texts_of

_LIMITS_S = {Mode.LAB: 60, Mode.QUICK: 15, Mode.FULL: 60}
_SEPARATOR = "--- next output ---\n"
_COMMANDS = (
    '(. /etc/os-release && echo "$ID-${VERSION_ID:-}")',
    f"echo '{_SEPARATOR.strip()}'",
    "lscpu --json",
    f"echo '{_SEPARATOR.strip()}'",
    "if command -v archspec >/dev/null; then archspec cpu; fi",
    f"echo '{_SEPARATOR.strip()}'",
    *equipment.COMMANDS,
)
_PARTS = 4


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step for each node."""
    return tuple(
        Step(
            name=_name(node),
            nodes=(node,),
            tasks_per_node=1,
            script=script((path_command(site), *_COMMANDS)),
            limit_s=_LIMITS_S[site.options.mode],
        )
        for node in site.names
    )


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the labels of the site. They are left out if a node did not answer."""
    site_findings = Findings()
    systems: list[str] = []
    processors: list[Processor] = []
    for node in site.names:
        try:
            system, lscpu, archspec, _ = _parts("".join(texts_of(outcomes, _name(node))))
            processors.append(processor.parse(lscpu, archspec or None))
        except UnusableOutput as error:
            site_findings.omit("os, arch, cpu, cpu.microarch", f"{node}: {error.message}")
            return site_findings
        systems.append(system.strip())
    site_findings.labels += processor.labels(processors)
    os_label = name_label("os", systems)
    if os_label is not None:
        site_findings.labels.append(os_label)
    return site_findings


def site_equipment(site: MeasuredSite, outcomes: Outcomes) -> Equipment:
    """Return what messages between the nodes are measured with."""
    nodes: dict[str, NodeEquipment | None] = {}
    for node in site.names:
        try:
            text = "".join(texts_of(outcomes, _name(node)))
            nodes[node] = equipment.parse(_parts(text)[-1])
        except UnusableOutput:
            # findings() reports the error.
            nodes[node] = None
    return equipment.combine(site.options.network, nodes)


def _name(node: str) -> str:
    return f"processor-{node}"


def _parts(text: str) -> list[str]:
    parts = text.split(_SEPARATOR)
    if len(parts) != _PARTS:
        raise Output("the script", text).error(f"it has {len(parts)} parts, not {_PARTS}")
    return parts
