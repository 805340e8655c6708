# SPDX-License-Identifier: Apache-2.0
"""Role benchmarks: its settings, and the preemption of the jobs of its partition."""

import re
import tomllib

import pytest
from tests.roles.catalogue import Role

from gridstead.config import BenchmarksSettings

ROLE = Role("benchmarks")
SLURM = Role("slurm")


def slurm_conf(site, **variables):
    """Return the text of slurm.conf, and the parameters of each partition by its name."""
    (host,) = [name for name in site.hosts_of(SLURM) if name == "controller"]
    text = site.render(SLURM, SLURM.path / "templates/etc/slurm/slurm.conf.j2", host, **variables)
    parameters = {}
    for name, rest in re.findall(r"^PartitionName=(\S+) (.*)$", text, re.MULTILINE):
        parameters[name] = dict(re.findall(r"(\S+)=(\S+)", rest))
    return text, parameters


@pytest.mark.parametrize("schedule", ["Sun 03:00", ""])
def test_the_settings_of_the_example_inventory_are_valid(schedule, site):
    (host,) = [name for name in site.hosts_of(ROLE) if name == "controller"]
    text = site.render(
        ROLE,
        ROLE.path / "templates/etc/gridstead/benchmarks.toml.j2",
        host,
        benchmarks_schedule=schedule,
        benchmarks_settings={"jobs_at_once": 7, "directories": {"scratch": "/mnt/fast"}},
    )

    settings = BenchmarksSettings.model_validate(tomllib.loads(text))

    assert settings.jobs_at_once == 7
    assert str(settings.directories.scratch) == "/mnt/fast"
    assert str(settings.directories.disk_tmp) == "/opt/cache/disk/world-tmp"


def test_only_jobs_of_background_partitions_are_preempted(site):
    text, parameters = slurm_conf(site)

    assert "\nPreemptType=preempt/partition_prio\n" in text
    assert "\nPreemptMode=CANCEL\n" in text
    assert parameters["main"]["PreemptMode"] == "OFF"
    assert parameters["benchmarks"]["PriorityTier"] == "0"
    assert "PreemptMode" not in parameters["benchmarks"]


def test_a_partition_of_the_site_can_allow_preemption(site):
    _, parameters = slurm_conf(site, slurm_partitions={"low": {"PreemptMode": "REQUEUE"}})

    assert parameters["low"]["PreemptMode"] == "REQUEUE"


def test_without_background_partitions_nothing_is_preempted(site):
    text, parameters = slurm_conf(site, slurm_background_partitions={})

    assert "Preempt" not in text
    assert "benchmarks" not in parameters
