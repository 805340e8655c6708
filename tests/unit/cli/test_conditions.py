# SPDX-License-Identifier: Apache-2.0
"""`gridstead submit` refuses conditions that the grid's meta-scheduler does not understand."""

from types import SimpleNamespace

import pytest

from gridstead.adapters.matching import queue_view
from gridstead.cli.conditions import check_reserved_keys, parse_affinity
from gridstead.errors import InvalidInput

URL = "https://control:8447"


def client(queue_url=URL):
    return SimpleNamespace(settings=SimpleNamespace(queue_url=queue_url, ca_file=None))


@pytest.fixture
def grid(monkeypatch):
    """Return a function that sets the keys that the queue view publishes."""

    def publish(**operators_by_key):
        keys = {key.replace("_", "."): value for key, value in operators_by_key.items()}
        monkeypatch.setattr(queue_view, "understood_keys", lambda url, *, ca: keys)

    return publish


def test_condition_that_the_grid_understands_is_accepted(grid, capsys):
    grid(policy=["==", "="])

    check_reserved_keys(client(), [parse_affinity("policy=soonest"), parse_affinity("zone=eu")])

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("published", [{}, {"queue_wait_s": ["<"]}])
def test_condition_that_the_grid_does_not_understand_is_refused(grid, published):
    grid(**published)

    with pytest.raises(InvalidInput, match=r"does not understand --affinity queue\.wait\.s<="):
        check_reserved_keys(client(), [parse_affinity("queue.wait.s<=60")])


def test_conditions_on_labels_are_not_checked(monkeypatch):
    monkeypatch.delattr(queue_view, "understood_keys")

    check_reserved_keys(client(), [parse_affinity("compute.gflops>=1000")])


def test_without_a_queue_view_a_note_names_the_keys(capsys):
    check_reserved_keys(client(queue_url=None), [parse_affinity("price.per-min<=2.5")])

    note = capsys.readouterr().err
    assert "price.per-min" in note
    assert "Set queue_url" in note
