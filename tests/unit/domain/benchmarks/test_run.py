# SPDX-License-Identifier: Apache-2.0
"""Tests of the steps of a run, and of what a run finds."""

import json
import subprocess
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.unit.domain.benchmarks.recorded_outputs import recorded

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.scripts import script
from gridstead.domain.benchmarks.site import (
    Cause,
    Failure,
    Findings,
    MeasuredSite,
    Mode,
    Node,
    Options,
)
from gridstead.domain.jobs.job import Label

DIRECTORIES = {"scratch": "/shared", "shared-tmp": "/shared", "disk-tmp": "/disk"}


def site(*names, mode=Mode.LAB, directories=DIRECTORIES, cores=64, memory_mib=2500):
    nodes = tuple(Node(name=name, cores=cores, memory_mib=memory_mib) for name in names)
    return MeasuredSite(nodes=nodes, options=Options(mode=mode, directories=directories))


def failures(measured_site):
    return {step.name: Failure(reason="no power") for step in run.steps(measured_site)}


def test_each_node_runs_its_own_steps_and_all_nodes_the_joint_ones():
    steps = {step.name: step.nodes for step in run.steps(site("n1", "n2", "n3"))}

    assert steps == {
        "processor-n1": ("n1",),
        "processor-n2": ("n2",),
        "processor-n3": ("n3",),
        "compute-n1": ("n1",),
        "compute-n2": ("n2",),
        "compute-n3": ("n3",),
        "network-pingpong-n1-n2": ("n1", "n2"),
        "network-pingpong-n2-n3": ("n2", "n3"),
        "network-pingpong-n3-n1": ("n3", "n1"),
        "network-all-to-all": ("n1", "n2", "n3"),
        "storage-scratch": ("n1", "n2", "n3"),
        "storage-disk-tmp-n1": ("n1",),
        "storage-disk-tmp-n2": ("n2",),
        "storage-disk-tmp-n3": ("n3",),
    }


def test_a_single_node_has_no_labels_about_the_network_and_a_reason():
    single = site("n1")

    assert not [step for step in run.steps(single) if step.name.startswith("network")]
    reasons = {each.keys: each.reason for each in run.findings(single, failures(single)).omissions}
    assert reasons["network.p2p.*, network.all-to-all.*"] == "there is only one node"


def test_a_failed_step_leaves_its_labels_out_with_its_reason():
    pair = site("n1", "n2")

    site_findings = run.findings(pair, failures(pair))

    assert site_findings.labels == []
    assert site_findings.measurements == []
    reasons = {each.keys: each.reason for each in site_findings.omissions}
    assert "n1: cannot use the output of step compute-n1: no power" in reasons["compute.gflops"]
    assert "no power" in reasons["network.p2p.*"]
    assert "no power" in reasons["storage.disk-tmp.*"]
    assert reasons["storage.disk-world-tmp.*"] == "the settings name no directory for it"


def test_a_directory_of_several_keys_is_measured_once_and_labels_each_key():
    single = site("n1")
    outcomes = failures(single) | {"storage-scratch": (fio_output(64),)}

    labels = {label.key: label.value for label in run.findings(single, outcomes).labels}

    assert labels["storage.scratch.read.bw.mibps"] == labels["storage.shared-tmp.read.bw.mibps"]


@pytest.mark.parametrize(("mode", "processes"), [(Mode.LAB, 1), (Mode.QUICK, 64)])
def test_a_lab_runs_one_process_on_a_node(mode, processes):
    steps = {step.name: step for step in run.steps(site("n1", mode=mode))}

    assert steps["compute-n1"].tasks_per_node == processes


def test_a_lab_sends_few_messages_and_its_waiting_processes_let_others_run():
    (lab_script, quick_script) = (
        next(step.script for step in run.steps(measured) if step.name == "network-pingpong-n1-n2")
        for measured in (site("n1", "n2"), site("n1", "n2", mode=Mode.QUICK))
    )

    assert "yield_when_idle=1" in lab_script
    assert "--loop 100 " in lab_script
    assert "yield_when_idle=0" in quick_script
    assert "--loop 2000 " in quick_script


def test_a_script_leaves_no_files_and_removes_old_ones(tmp_path):
    old, new = tmp_path / "gridstead-benchmark.old", tmp_path / "gridstead-benchmark.new"
    for directory in (old, new):
        directory.mkdir()
    subprocess.run(["touch", "--date=2 hours ago", old], check=True)
    commands = ("touch x", "pwd", "false", "echo unreached")

    result = subprocess.run(
        ["bash", "-c", script(commands, parent=str(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    assert result.stdout.startswith(f"{tmp_path}/gridstead-benchmark.")
    assert "unreached" not in result.stdout
    assert list(tmp_path.iterdir()) == [new]


# Nodes on which hpcc has the size of the recorded output.
RECORDED_SIZE = {"mode": Mode.QUICK, "cores": 2, "memory_mib": 4}


def test_the_speed_of_a_site_is_the_median_of_its_nodes_times_their_number():
    pair = site("n1", "n2", **RECORDED_SIZE)
    outcomes = failures(pair) | {f"compute-n{n}": (recorded("hpccoutf.txt"), "") for n in (1, 2)}

    site_findings = run.findings(pair, outcomes)

    speeds = [each.value for each in site_findings.measurements if each.metric.name == "compute"]
    labels = {label.key: label.value for label in site_findings.labels}
    assert len(speeds) == 2
    assert Decimal(labels["compute.gflops"]) == pytest.approx(sum(speeds), rel=Decimal("0.01"))


def test_the_speed_is_left_out_if_a_node_was_not_measured():
    pair = site("n1", "n2", **RECORDED_SIZE)
    outcomes = failures(pair) | {"compute-n1": (recorded("hpccoutf.txt"), "")}

    site_findings = run.findings(pair, outcomes)

    assert [each.node for each in site_findings.measurements] == ["n1", "n1"]
    assert "compute.gflops" in [each.keys for each in site_findings.omissions]


def test_each_node_has_figures_about_messages_once():
    three = site("n1", "n2", "n3")
    outcomes = failures(three) | {
        "network-pingpong-n1-n2": (recorded("pingpong.txt"), ""),
        "network-pingpong-n2-n3": (recorded("pingpong.txt"), ""),
        "network-pingpong-n3-n1": (recorded("pingpong.txt"), ""),
        "network-all-to-all": (recorded("alltoall.txt"), ""),
    }

    site_findings = run.findings(three, outcomes)

    nodes = [each.node for each in site_findings.measurements if each.metric.name == "latency"]
    labels = {label.key for label in site_findings.labels}
    assert nodes == ["n1", "n2", "n3"]
    assert {"network.p2p.bw.mbps", "network.all-to-all.latency.us"} <= labels


def test_a_failed_pair_leaves_out_the_labels_of_pairs_and_the_values_of_its_nodes():
    three = site("n1", "n2", "n3")
    outcomes = failures(three) | {
        "network-pingpong-n1-n2": (recorded("pingpong.txt"), ""),
        "network-pingpong-n3-n1": (recorded("pingpong.txt"), ""),
    }

    site_findings = run.findings(three, outcomes)

    nodes = [each.node for each in site_findings.measurements if each.metric.name == "latency"]
    assert nodes == ["n1"]
    pairs = [each.nodes for each in site_findings.pairs if each.metric.name == "latency"]
    assert pairs == [("n1", "n2"), ("n3", "n1")]
    assert "network.p2p.*" in [each.keys for each in site_findings.omissions]


def processor_output(system="debian-13", microarchitecture="zen3", equipment=""):
    separator = "--- next output ---\n"
    return separator.join(
        (f"{system}\n", recorded("lscpu.json"), f"{microarchitecture}\n", equipment)
    )


def test_different_nodes_have_their_systems_in_one_label():
    pair = site("n1", "n2")
    outcomes = failures(pair) | {
        "processor-n1": (processor_output(),),
        "processor-n2": (processor_output(system="debian-12"),),
    }

    labels = {label.key: label.value for label in run.findings(pair, outcomes).labels}

    assert labels["os"] == "debian-12-debian-13"
    assert labels["cpu.microarch"] == "zen3"


def test_a_system_whose_name_cannot_be_a_label_is_left_out():
    single = site("n1")
    outcomes = failures(single) | {"processor-n1": (processor_output(system="x" * 65),)}

    assert "os" not in {label.key for label in run.findings(single, outcomes).labels}


def test_the_equipment_of_the_site_is_that_of_all_its_nodes():
    pair = site("n1", "n2")
    outcomes = failures(pair) | {
        f"processor-n{n}": (processor_output(equipment="4: ACTIVE\n"),) for n in (1, 2)
    }

    with_rdma = run.with_equipment(pair, outcomes)
    with_failed_node = run.with_equipment(pair, outcomes | {"processor-n2": ("truncated",)})

    assert with_rdma.equipment.uses_ucx
    assert not with_rdma.equipment.has_osu
    assert not with_failed_node.equipment.uses_ucx


def test_preempted_steps_are_repeated_if_their_nodes_are_free():
    pair = site("n1", "n2")
    steps = run.steps(pair)
    preempted = Failure(reason="paid jobs needed the nodes", cause=Cause.PREEMPTED)
    names = ("compute-n1", "compute-n2", "network-all-to-all")
    outcomes = failures(pair) | dict.fromkeys(names, preempted)

    repeatable = [
        [step.name for step in run.repeatable(steps, outcomes, busy_nodes=busy_nodes)]
        for busy_nodes in ((), ("n2",), ("other",))
    ]

    assert repeatable == [
        ["compute-n1", "compute-n2", "network-all-to-all"],
        ["compute-n1"],
        ["compute-n1", "compute-n2"],
    ]


def test_steps_that_need_a_quiet_site_come_last():
    quiet = [step.needs_quiet for step in run.steps(site("n1", "n2"))]

    assert quiet == sorted(quiet)
    assert any(quiet)


def test_quick_mode_solves_smaller_equations_than_the_memory_allows():
    quick, full = (
        next(step.script for step in run.steps(measured) if step.name == "compute-n1")
        for measured in (
            site("n1", mode=mode, memory_mib=2**20) for mode in (Mode.QUICK, Mode.FULL)
        )
    )

    assert "\n19584      Ns\n" in quick
    assert "\n19584 " not in full


@pytest.mark.parametrize(("nodes", "size_mib"), [(1, 1024), (5, 818), (100, 64)])
def test_quick_mode_divides_the_files_in_shared_directories(nodes, size_mib):
    names = [f"n{number}" for number in range(nodes)]
    steps = {step.name: step for step in run.steps(site(*names, mode=Mode.QUICK))}

    assert f"size={size_mib * 2**20}\n" in steps["storage-scratch"].script
    assert f"size={1024 * 2**20}\n" in steps["storage-disk-tmp-n0"].script


def test_single_node_mode_measures_shared_directories_on_one_node():
    pair = site("n1", "n2")
    pair = replace(pair, options=replace(pair.options, single_node=True))
    steps = {step.name: step for step in run.steps(pair)}

    outcomes = failures(pair) | {"storage-scratch": (fio_output(64),)}
    labels = {label.key for label in run.findings(pair, outcomes).labels}

    assert steps["storage-scratch"].nodes == ("n1",)
    assert "storage.scratch.read.bw.mibps" in labels


def test_an_incomplete_output_about_the_processor_is_refused():
    single = site("n1")
    outcomes = failures(single) | {"processor-n1": ("debian-13\n",)}

    site_findings = run.findings(single, outcomes)

    reasons = {each.keys: each.reason for each in site_findings.omissions}
    assert "it has 1 parts, not 4" in reasons["os, arch, cpu, cpu.microarch"]


def test_a_report_has_the_labels_of_the_site_and_of_the_run_in_order():
    report = Report(
        mode=Mode.LAB,
        started_at=100,
        ended_at=160,
        nodes=("n1",),
        suite="gridstead-1-lab",
        findings=Findings(labels=[Label(key="os", value="debian-13")]),
    )

    assert report.labels == (
        Label(key="benchmark.suite", value="gridstead-1-lab"),
        Label(key="benchmark.time", value="160"),
        Label(key="os", value="debian-13"),
    )
    labels = {label.key: label.value for label in report.labels}
    assert PastRun.of(report) == PastRun(ended_at=160, labels=labels)


def test_a_shared_directory_needs_the_output_of_every_node():
    pair = site("n1", "n2")
    outcomes = failures(pair) | {"storage-scratch": (fio_output(64),)}

    reasons = {each.keys: each.reason for each in run.findings(pair, outcomes).omissions}

    assert "1 of 2 nodes printed something" in reasons["storage.scratch.*"]


def fio_output(size_mib):
    """Return an output of fio about a file of this size."""
    document = json.loads(recorded("fio.json"))
    for job in document["jobs"]:
        job[job["jobname"]]["io_bytes"] = size_mib * 2**20
    return json.dumps(document)


def test_storage_of_a_node_is_measured_for_each_node():
    pair = site("n1", "n2")
    outcomes = failures(pair) | {f"storage-disk-tmp-n{n}": (fio_output(64),) for n in (1, 2)}

    site_findings = run.findings(pair, outcomes)

    measured = [(each.node, each.metric.name) for each in site_findings.measurements]
    assert measured == [
        ("n1", "disk-tmp read"),
        ("n1", "disk-tmp write"),
        ("n2", "disk-tmp read"),
        ("n2", "disk-tmp write"),
    ]
    assert all(each.value > Decimal(0) for each in site_findings.measurements)


def test_messages_need_the_equipment_also_if_only_they_are_selected():
    pair = site("n1", "n2")
    pair = replace(pair, options=replace(pair.options, suites=("network",)))
    outcomes = failures(pair) | {
        f"processor-n{n}": (processor_output(equipment="4: ACTIVE\n"),) for n in (1, 2)
    }

    pair = run.with_equipment(pair, outcomes)

    assert [step.name for step in run.steps(pair)] == [
        "processor-n1",
        "processor-n2",
        "network-pingpong-n1-n2",
        "network-all-to-all",
    ]
    assert run.findings(pair, outcomes).transport == "ucx: all nodes have an active RDMA port"
    assert run.findings(pair, outcomes).labels == []


def test_a_single_node_needs_no_equipment():
    node = site("n1")
    node = replace(node, options=replace(node.options, suites=("network", "internet")))

    assert run.steps(node) == ()
    assert run.with_equipment(node, {}).equipment.transport == ""


def test_other_suites_need_no_equipment():
    node = site("n1")
    node = replace(node, options=replace(node.options, suites=("internet",), internet="librespeed"))

    assert [step.name for step in run.steps(node)] == ["internet"]
    assert run.with_equipment(node, {}) == node
