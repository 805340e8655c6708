# SPDX-License-Identifier: Apache-2.0
"""Tests of the errors that `gridstead simulate` prints for invalid scenarios."""

from __future__ import annotations

import pytest

PROVIDER = "{name: one, nodes: [{cpus: 4, memory_mb: 8000}], cpu_credits_per_min: 0.001}"
SCENARIO = f"""
duration: 2h
providers: [{PROVIDER}]
customers: {{count: 2}}
jobs: {{load: 0.8, shapes: [{{share: 1}}]}}
"""


@pytest.fixture
def error_of(gridstead, tmp_path):
    """Return a function that returns the error text of a scenario, without a traceback."""

    def run(text):
        path = tmp_path / "scenario.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = gridstead("simulate", path)
        assert (result.code, result.out) == (65, "")
        return result.err

    return run


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("2h", "2", "duration: must be a duration from 1s to 3650d, such as 90s, 30m, 6h or 2d"),
        ("2h", "2w", "found '2w'"),
        ("2h", "0s", "found '0s'"),
        ("2h", "9999d", "found '9999d'"),
        ("duration: 2h", "", "duration: missing"),
        ("duration", "durations", "durations: unknown key, did you mean duration?"),
        ("0.8", "inf", "jobs.load: Input should be a finite number, found 'inf'"),
        ("0.8", "0", "jobs.load: Input should be greater than 0, found '0'"),
        ("cpus: 4", "cpus: 0x4", "providers.0.nodes.0.cpus: Input should be a valid integer"),
        ("0.001", "-1", "providers.0.cpu_credits_per_min: Input should be greater than or equal"),
        ("0.001", "1e-19", "no more than 18 decimal places, found '1e-19'"),
        ("name: one", "name: <b>", "providers.0.name: String should match pattern"),
        ("{share: 1}", "", "jobs.shapes: Tuple should have at least 1 item"),
        (PROVIDER, f"{PROVIDER}, {PROVIDER}", "two providers have the name one"),
        ("{count: 2}", "{}", "customers.count is required with jobs"),
        ("duration", "policies: [best]\nduration", "policies.0: Input should be 'cheapest-first'"),
        (
            "duration",
            "policies: [soonest, soonest]\nduration",
            "policies: must not contain the same policy twice",
        ),
        ("duration", "half_life: 1s\nduration", "half_life must be at least block_s"),
        ("duration", "trace: {file: a.swf}\nduration", "requires either jobs or trace"),
        ("jobs:", "flood:", "requires either jobs or trace"),
        ("share: 1", "share: 1, cpus_per_task: 5", "jobs.shapes.0: no provider can run jobs of"),
        ("share: 1", "share: 1, labels: {a: b}", "labels {'a': 'b'}"),
        ("name: one", "name: one, count: 10000, labels: {a: b}", "more than 200000 nodes"),
    ],
)
def test_invalid_value_is_named(error_of, old, new, expected):
    text = SCENARIO.replace(old, new)
    if "nodes" in expected and "200000" in expected:
        text = text.replace("{cpus: 4", "{count: 100, cpus: 4")
    if new == "flood:":
        text = text.replace("{load: 0.8, shapes: [{share: 1}]}", "{customer: eve, factor: 1}")

    assert expected in error_of(text)


@pytest.mark.parametrize("name", ["one-2", "customer-1"])
def test_names_of_providers_and_customers_must_differ(error_of, name):
    several = PROVIDER.replace("name: one", "name: one, count: 2")
    other = PROVIDER.replace("name: one", f"name: {name}")

    error = error_of(SCENARIO.replace(PROVIDER, f"{several}, {other}"))

    assert f"two providers, or a provider and a customer, have the name {name}" in error


def test_all_invalid_keys_are_named_at_once(error_of):
    error = error_of(SCENARIO.replace("2h", "2").replace("cpus: 4", "cpus: x"))

    assert "duration" in error
    assert "providers.0.nodes.0.cpus" in error
    # The list without its invalid item is not too short.
    assert "at least 1 item" not in error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("[1]", "the file is not a mapping of keys"),
        ("duration: 2h\nduration: 3h", "line 2: duplicate key 'duration'"),
        ("a: &a [1]\nb: *a", "aliases are not supported"),
        ("{[1]: 2}", "a key that is not a text"),
        ("a: [", "is not valid YAML"),
        ("a: 1\n---\nb: 1", "is not valid YAML"),
        (b"\xff", "is not valid YAML"),
        ("a: \0", "is not valid YAML"),
        ("[" * 5000, "is not valid YAML"),
        (b"#" * (1 << 21), "larger than"),
    ],
)
def test_invalid_yaml_is_refused(error_of, text, expected):
    assert expected in error_of(text)


def test_missing_file_is_refused(gridstead, tmp_path):
    result = gridstead("simulate", tmp_path / "missing.yaml")

    assert result.code == 65
    assert "cannot read" in result.err
    assert "gridstead simulate --example" in result.err


def test_missing_argument_is_wrong_usage(gridstead):
    result = gridstead("simulate")

    assert result.code == 2
    assert "SCENARIO is missing" in result.err
