# SPDX-License-Identifier: Apache-2.0
"""The suite ``storage``: fio in the directories that jobs use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outputs import storage
from gridstead.domain.benchmarks.outputs.reading import UnusableOutput
from gridstead.domain.benchmarks.outputs.storage import StorageResult
from gridstead.domain.benchmarks.scripts import file_command, script
from gridstead.domain.benchmarks.site import (
    Findings,
    MeasuredSite,
    Measurement,
    Mode,
    Outcomes,
    Step,
    texts_of,
)
from gridstead.domain.labels.keys import STORAGE

_SIZES_MIB = {Mode.LAB: 64, Mode.QUICK: 1024, Mode.FULL: storage.DEFAULT_SIZE_MIB}
# In quick mode, the files of all nodes in a shared directory have this size together, if there are
# not so many nodes that a file would be smaller than that of a lab.
_QUICK_SHARED_MIB = 4096
# All directories of a node together. Each has the same part of it.
_LIMITS_S = {Mode.LAB: 300, Mode.QUICK: 75, Mode.FULL: 5 * 3600}
_JOB_FILE = "gridstead.fio"


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return the steps of all directories: one on all nodes at once, or one on each node."""
    measured_keys = [key for key in site.options.directories if _measured_key(site, key) == key]
    return tuple(
        Step(
            name=name,
            nodes=nodes,
            tasks_per_node=1,
            script=_script(site, key),
            limit_s=_LIMITS_S[site.options.mode] // len(measured_keys),
            needs_quiet=key not in storage.NODE_DIRECTORIES,
        )
        for key in measured_keys
        for name, nodes in _runs(site, key)
    )


def _script(site: MeasuredSite, key: str) -> str:
    job_file = storage.render_fio(".", size_mib=_size_mib(site, key))
    commands = (file_command(_JOB_FILE, job_file), f"fio --output-format=json {_JOB_FILE}")
    return script(commands, parent=site.options.directories[key])


def _size_mib(site: MeasuredSite, key: str) -> int:
    """Return the size of the file of each node. It is even, as fio's operations need."""
    size_mib = _SIZES_MIB[site.options.mode]
    if site.options.mode is not Mode.QUICK or key in storage.NODE_DIRECTORIES:
        return size_mib
    part_mib = _QUICK_SHARED_MIB // len(site.nodes) // 2 * 2
    return min(size_mib, max(part_mib, _SIZES_MIB[Mode.LAB]))


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the speed of the disks of each node, and the labels of the site."""
    site_findings = Findings()
    for key in STORAGE:
        if key not in site.options.directories:
            site_findings.omit(f"storage.{key}.*", "the settings name no directory for it")
            continue
        measured_key = _measured_key(site, key)
        try:
            results = _results(site, measured_key, outcomes)
        except UnusableOutput as error:
            site_findings.omit(f"storage.{key}.*", error.message)
            continue
        site_findings.labels += storage.labels(key, results)
        if key == measured_key and key in storage.NODE_DIRECTORIES:
            site_findings.measurements += _measurements(site, key, results)
    return site_findings


def _results(site: MeasuredSite, key: str, outcomes: Outcomes) -> list[StorageResult]:
    """Return the result of each node. Raises UnusableOutput if one is missing."""
    texts: list[str] = []
    for name, nodes in _runs(site, key):
        node_texts = texts_of(outcomes, name)
        if len(node_texts) != len(nodes):
            reason = f"{len(node_texts)} of {len(nodes)} nodes printed something"
            raise UnusableOutput("fio", reason, "")
        texts += node_texts
    size_mib = _size_mib(site, key)
    return [storage.parse_fio(text, size_mib=size_mib) for text in texts]


def _measured_key(site: MeasuredSite, key: str) -> str:
    """Return the first key with the same directory. A directory is measured once."""
    directories = site.options.directories
    is_on_nodes = key in storage.NODE_DIRECTORIES
    return next(
        other
        for other, path in directories.items()
        if path == directories[key] and (other in storage.NODE_DIRECTORIES) == is_on_nodes
    )


def _runs(site: MeasuredSite, key: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the nodes of each step of a directory."""
    if key not in storage.NODE_DIRECTORIES:
        yield f"storage-{key}", site.names[:1] if site.options.single_node else site.names
        return
    for name in site.names:
        yield f"storage-{key}-{name}", (name,)


def _measurements(
    site: MeasuredSite, key: str, results: Iterable[StorageResult]
) -> Iterator[Measurement]:
    read = Metric(name=f"{key} read", unit="MiB/s", kind=Kind.STORAGE)
    write = Metric(name=f"{key} write", unit="MiB/s", kind=Kind.STORAGE)
    for node, result in zip(site.names, results, strict=True):
        yield Measurement(node=node, metric=read, value=result.read_mibps)
        yield Measurement(node=node, metric=write, value=result.write_mibps)
