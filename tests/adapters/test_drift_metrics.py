# SPDX-License-Identifier: Apache-2.0
"""The file that monitoring reads is read here by the same library's parser."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gridstead.adapters.drift_metrics import DriftMetricsFile
from gridstead.errors import ConfigError, InvalidInput
from gridstead.wiring.site import open_drift_metrics


def read(path):
    families = text_string_to_metric_families(path.read_text())
    return {
        (one.name, one.labels.get("host")): one.value
        for family in families
        for one in family.samples
    }


def test_the_hosts_are_counted(tmp_path):
    path = tmp_path / "drift.prom"

    DriftMetricsFile(path).publish({"compute1": 2, "db": 0}, checked_at=1_795_265_800)

    assert read(path) == {
        ("gridstead_drift_check_success", None): 1,
        ("gridstead_drift_check_timestamp_seconds", None): 1_795_265_800,
        ("gridstead_drift_tasks", "compute1"): 2,
        ("gridstead_drift_tasks", "db"): 0,
    }
    assert list(tmp_path.iterdir()) == [path]


def test_of_a_site_that_could_not_be_looked_at_no_host_is_told(tmp_path):
    path = tmp_path / "drift.prom"
    metrics = DriftMetricsFile(path)
    metrics.publish({"db": 1}, checked_at=1)

    metrics.publish(None, checked_at=2)

    assert read(path) == {
        ("gridstead_drift_check_success", None): 0,
        ("gridstead_drift_check_timestamp_seconds", None): 2,
    }


def test_a_file_that_cannot_be_written_is_the_operators(tmp_path):
    path = tmp_path / "drift.prom"
    path.mkdir()

    with pytest.raises(ConfigError, match=r"drift\.prom"):
        DriftMetricsFile(path).publish({}, checked_at=1)


@pytest.mark.parametrize("name", ["drift.txt", "drift", "none/drift.prom"])
def test_a_name_that_nobody_would_read_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"NAME\.prom"):
        open_drift_metrics(tmp_path / name)
