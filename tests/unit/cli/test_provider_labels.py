# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider list|status` say which measured values a provider has signed."""

import json
import secrets
import time
from types import SimpleNamespace

import pytest
from tests.fakes.benchmarks import report

from gridstead.adapters.benchmarks import download
from gridstead.adapters.chain.wallet import wallet_of
from gridstead.cli import provider as provider_command
from gridstead.domain.benchmarks.public_report import digest, report_text, signed_file
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware, Label, Provider
from gridstead.errors import Transient

CHAIN_ID = 179188
URL = "https://provider.test/benchmark-report.json"
WALLET = wallet_of(secrets.token_bytes(32))


def provider_with(labels):
    return Provider(
        address=WALLET.address,
        hardware=Hardware(gpus_per_node=(0,), cpus_per_node=(4,), memory_per_node_mb=(1000,)),
        prices=Prices(gpu_per_min=1, cpu_per_min=2, memory_mb_per_min=3),
        labels=tuple(Label(key=key, value=value) for key, value in sorted(labels.items())),
        is_joined=True,
    )


def signed_report():
    """Return the file of a run that has just ended, and the labels about it."""
    a_report = report(int(time.time()))
    text = report_text(a_report, chain_id=CHAIN_ID, provider=WALLET.address)
    file = signed_file(text, WALLET.sign_text)
    labels = {label.key: label.value for label in a_report.labels}
    return file, labels | {"benchmark.report": digest(file), "benchmark.report.url": URL}


class ListedProvider:
    """A provider of a grid. Its report is a file, or an error that the download raises."""

    def __init__(self, monkeypatch, gridstead):
        self.labels = {}
        self.file = None
        self.downloads = []
        self.run = gridstead
        monkeypatch.setattr(provider_command, "open_client", lambda _config: self.client())
        monkeypatch.setattr(download, "download_report", self.download)

    def client(self):
        provider = provider_with(self.labels)
        return SimpleNamespace(
            settings=SimpleNamespace(chain=SimpleNamespace(chain_id=CHAIN_ID), ca_file=None),
            customer=SimpleNamespace(provider_addresses=lambda: [provider.address]),
            ledger=SimpleNamespace(
                head=lambda: None,
                providers=lambda _addresses, *, at_block: {provider.address: provider},
            ),
        )

    def download(self, url, *, ca, allow_private):
        self.downloads.append((url, ca, allow_private))
        if isinstance(self.file, Exception):
            raise self.file
        return self.file

    def details(self, *options):
        """Return what `provider status` says about each label."""
        result = self.run("provider", "status", WALLET.address, "--json", *options)
        return json.loads(result.out)["label_details"]


@pytest.fixture
def grid(monkeypatch, gridstead):
    return ListedProvider(monkeypatch, gridstead)


def test_values_in_the_signed_report_are_self_measured(grid):
    grid.file, grid.labels = signed_report()

    assert grid.details("--verify")["compute.gflops"] == {
        "unit": "Gflop/s",
        "trust": "self-measured",
        "reason": "",
    }
    assert grid.downloads == [(URL, None, False)]


def test_without_the_option_nothing_is_downloaded(grid):
    grid.file, grid.labels = signed_report()

    assert grid.details()["compute.gflops"] == {
        "unit": "Gflop/s",
        "trust": "claimed",
        "reason": "the report was not verified",
    }
    assert grid.downloads == []


def test_report_that_cannot_be_downloaded_has_its_reason(grid):
    _, grid.labels = signed_report()
    grid.file = Transient("the server answered with status 302")

    reason = grid.details("--verify", "--allow-private")["compute.gflops"]["reason"]

    assert reason == "the server answered with status 302"
    assert grid.downloads == [(URL, None, True)]


def test_units_of_a_provider_without_a_suite_are_unknown(grid):
    grid.labels = {"compute.gflops": "12.50", "cpu": "epyc", "zone": "eu"}

    assert grid.details("--verify") == {
        "compute.gflops": {
            "unit": "unknown",
            "trust": "claimed",
            "reason": "the provider publishes no report",
        },
        "cpu": {"unit": None, "trust": "claimed", "reason": "the provider publishes no report"},
    }
    assert grid.downloads == []


def test_status_prints_the_labels_with_units_and_trust(grid):
    grid.file, labels = signed_report()
    grid.labels = labels | {"zone": "eu", "gpu": "h100"}

    lines = grid.run("provider", "status", WALLET.address, "--verify").out.splitlines()

    cells = {line.split()[0]: line.split()[1:] for line in lines if line}
    assert cells["compute.gflops"] == ["12.50", "Gflop/s", "self-measured"]
    assert cells["gpu"] == ["h100", "claimed:", "the", "report", "has", "no", "such", "value"]
    assert cells["zone"] == ["eu"]


def test_list_counts_the_values_that_are_self_measured(grid):
    grid.file, labels = signed_report()
    grid.labels = labels | {"gpu": "h100"}

    assert "SELF-MEASURED" not in grid.run("provider", "list").out
    printed = grid.run("provider", "list", "--verify").out
    assert "SELF-MEASURED" in printed
    assert "3 of 4" in printed
    (record,) = json.loads(grid.run("provider", "list", "--verify", "--json").out)
    assert record["label_details"]["benchmark.time"]["trust"] == "self-measured"
    assert record["labels"] == grid.labels
