# SPDX-License-Identifier: Apache-2.0
"""Tests of the metrics file of the drift check, which is read with the parser of Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gridstead.adapters.site.drift_metrics import DriftMetricsFile
from gridstead.errors import ConfigError, InvalidInput
from gridstead.wiring.site import open_drift_metrics


def read_samples(path):
    """Return the values of a metrics file by metric name and host."""
    samples = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            samples[sample.name, sample.labels.get("host")] = sample.value
    return samples


def test_file_contains_the_count_of_each_host(tmp_path):
    path = tmp_path / "drift.prom"

    DriftMetricsFile(path).publish({"compute1": 2, "db": 0}, checked_at=1_795_265_800)

    assert read_samples(path) == {
        ("gridstead_drift_check_success", None): 1,
        ("gridstead_drift_check_timestamp_seconds", None): 1_795_265_800,
        ("gridstead_drift_tasks", "compute1"): 2,
        ("gridstead_drift_tasks", "db"): 0,
    }
    assert list(tmp_path.iterdir()) == [path]


def test_failed_check_removes_the_counts_of_hosts(tmp_path):
    path = tmp_path / "drift.prom"
    metrics = DriftMetricsFile(path)
    metrics.publish({"db": 1}, checked_at=1)

    metrics.publish(None, checked_at=2)

    assert read_samples(path) == {
        ("gridstead_drift_check_success", None): 0,
        ("gridstead_drift_check_timestamp_seconds", None): 2,
    }


def test_unwritable_file_is_a_config_error(tmp_path):
    path = tmp_path / "drift.prom"
    path.mkdir()

    with pytest.raises(ConfigError, match=r"drift\.prom"):
        DriftMetricsFile(path).publish({}, checked_at=1)


@pytest.mark.parametrize("name", ["drift.txt", "drift", "none/drift.prom"])
def test_file_name_that_node_exporter_ignores_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"NAME\.prom"):
        open_drift_metrics(tmp_path / name)
