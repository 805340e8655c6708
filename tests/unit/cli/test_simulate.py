# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead simulate`."""

from __future__ import annotations

import json
import os
import re
import signal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gridstead.cli import simulation_progress
from gridstead.cli.simulate import PolicyName
from gridstead.cli.simulation_output import duration_text, money_text
from gridstead.config.scenario_file import load_scenario
from gridstead.domain.matching.policies import POLICIES
from gridstead.services.simulation.simulator import CHEAPEST_FIRST, Simulator
from gridstead.wiring.simulation import open_scenario

EXAMPLES = sorted(Path("examples/simulations").glob("*.yaml"))
PROVIDER = "{name: one, nodes: [{cpus: 4, memory_mb: 8000}], cpu_credits_per_min: 0.001}"
SCENARIO = f"""
duration: 2h
providers: [{PROVIDER}]
customers: {{count: 2}}
jobs: {{load: 0.8, median_run: 5m, shapes: [{{share: 1}}]}}
"""
TRACE_SCENARIO = f"duration: 1h\nproviders: [{PROVIDER}]\ntrace: {{file: jobs.swf}}\n"


@pytest.fixture
def scenario(tmp_path):
    """Return the path of a small scenario."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def test_policies_of_the_option_are_those_of_the_matcher():
    assert {policy.value for policy in PolicyName} == {CHEAPEST_FIRST, *POLICIES}


def test_table_compares_the_policies_of_the_scenario(gridstead, scenario):
    result = gridstead("simulate", scenario)

    assert (result.code, result.err) == (0, "")
    header, *lines = result.out.splitlines()
    assert header.split() == ["FIGURE", "cheapest-first", "balanced"]
    assert any(line.startswith("utilisation of CPUs") for line in lines)
    assert "balanced: customers" in lines
    assert "INCOMPLETE" not in result.out


def test_the_same_seed_gives_the_same_json(gridstead, scenario):
    first = gridstead("simulate", scenario, "--json", "--seed", "7")
    second = gridstead("simulate", scenario, "--json", "--seed", "7")
    other = gridstead("simulate", scenario, "--json", "--seed", "8")

    assert first.out == second.out
    assert first.out != other.out
    document = json.loads(first.out)
    assert document["seed"] == 7
    assert document["complete"] is True
    assert [policy["policy"] for policy in document["policies"]] == ["cheapest-first", "balanced"]


def test_option_policy_replaces_the_policies_of_the_scenario(gridstead, scenario):
    options = ("--policy", "soonest", "--policy", "cheapest", "--policy", "soonest")

    result = gridstead("simulate", scenario, "--json", *options)

    policies = json.loads(result.out)["policies"]
    assert [policy["policy"] for policy in policies] == ["soonest", "cheapest"]


def test_unknown_policy_is_refused(gridstead, scenario):
    result = gridstead("simulate", scenario, "--policy", "fastest")

    assert result.code == 2
    assert "cheapest-first" in result.err


def test_example_is_a_valid_scenario(gridstead, tmp_path):
    path = tmp_path / "example.yaml"
    path.write_text(gridstead("simulate", "--example").out)

    assert open_scenario(load_scenario(path), tmp_path).unsuitable_jobs == 0


def test_example_names_every_key(gridstead):
    result = gridstead("simulate", "--example")

    for key in re.findall(
        r"^    (\w+): Annotated",
        Path("control/gridstead/config/simulation.py").read_text(),
        re.MULTILINE,
    ):
        assert re.search(rf"\b{key}:", result.out), key


def test_values_in_comments_of_the_example_are_the_defaults(gridstead, tmp_path):
    text = gridstead("simulate", "--example").out
    head, _, _ = text.partition("# Recorded jobs")
    path = tmp_path / "example.yaml"
    path.write_text(text)
    all_keys = tmp_path / "all_keys.yaml"
    all_keys.write_text(re.sub(r"^( *)# (?=\w+: )", r"\1", head, flags=re.MULTILINE))

    assert load_scenario(all_keys) == load_scenario(path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_file_in_examples_is_a_valid_scenario(path):
    scenario = open_scenario(load_scenario(path), path.parent)

    first_provider = scenario.grid.providers[0]
    cpus = [sum(provider.hardware.cpus_per_node) for provider in scenario.grid.providers]
    assert cpus[0] / sum(cpus) == pytest.approx(0.4, abs=0.01)
    assert first_provider.prices.cpu_per_min == 10**15


def test_there_are_examples():
    assert len(EXAMPLES) == 3


class Page(HTMLParser):
    """Collects the tags, the attributes and the texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = set()
        self.attributes = set()
        self.texts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.texts.append(data)


def test_page_contains_the_figures_and_no_script_and_no_link(gridstead, scenario, tmp_path):
    result = gridstead("simulate", scenario, "--html", tmp_path / "page.html")

    assert result.err == f"wrote {tmp_path / 'page.html'}\n"
    page = Page((tmp_path / "page.html").read_text())
    assert {"table", "svg", "rect"} <= page.tags
    assert page.tags & {"script", "link", "img", "iframe", "object"} == set()
    assert page.attributes & {"src", "href", "onclick", "onload"} == set()
    assert "customer-1" in page.texts
    assert not any("INCOMPLETE" in text for text in page.texts)


def test_page_escapes_names(gridstead, scenario, tmp_path):
    path = scenario.rename(tmp_path / "<script>alert(1)</script>.yaml".replace("/", "&"))

    gridstead("simulate", path, "--html", tmp_path / "page.html")

    page = Page((tmp_path / "page.html").read_text())
    assert "script" not in page.tags
    assert "Simulation of <script>alert(1)<&script>.yaml" in page.texts


def test_page_in_a_missing_folder_is_refused_before_the_simulation(gridstead, scenario):
    result = gridstead("simulate", scenario, "--html", "/nonexistent/page.html")

    assert (result.code, result.out) == (65, "")
    assert "cannot write /nonexistent/page.html" in result.err


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupt the simulation of the second policy after half an hour of simulated time."""
    run = Simulator.run

    def run_and_interrupt(simulator, until_s):
        if simulator.outcome.policy == "balanced" and until_s == 1800:
            os.kill(os.getpid(), signal.SIGINT)
        return run(simulator, until_s)

    monkeypatch.setattr(Simulator, "run", run_and_interrupt)


@pytest.mark.usefixtures("interrupted")
def test_interrupted_simulation_prints_what_was_reached(gridstead, scenario, tmp_path):
    page = tmp_path / "page.html"

    text_result = gridstead("simulate", scenario, "--html", page)
    json_result = gridstead("simulate", scenario, "--json")

    assert text_result.code == json_result.code == 130
    assert text_result.out.startswith("INCOMPLETE")
    assert "INCOMPLETE" in page.read_text()
    document = json.loads(json_result.out)
    assert document["complete"] is False
    assert [policy["simulated_s"] for policy in document["policies"]] == [7200, 1800]


@pytest.mark.usefixtures("interrupted")
def test_signal_handlers_are_restored(gridstead, scenario):
    handler = signal.getsignal(signal.SIGINT)

    gridstead("simulate", scenario)

    assert signal.getsignal(signal.SIGINT) is handler


def test_second_interrupt_ends_the_command():
    with simulation_progress.interruptible() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.is_requested

        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_progress_is_printed_on_stderr(gridstead, scenario, monkeypatch):
    monkeypatch.setattr(simulation_progress, "QUIET_S", 0)
    monkeypatch.setattr(simulation_progress, "LINE_INTERVAL_S", 0)

    result = gridstead("simulate", scenario, "--json")

    assert json.loads(result.out)["complete"] is True
    lines = result.err.splitlines()
    assert lines[0] == "cheapest-first: 0 % simulated"
    assert lines[-1] == "balanced: 100 % simulated"


def test_trace_is_simulated(gridstead, tmp_path):
    path = tmp_path / "trace.yaml"
    path.write_text(TRACE_SCENARIO)
    jobs = ["; a trace"]
    for number, cpus in enumerate((1, 2, 99, 4)):
        jobs.append(f"{number} {number * 60} -1 300 {cpus} -1 -1 -1 600 -1 1 7 -1 -1 -1 -1 -1 -1")
    jobs.append("5 9999 -1 300 1 -1 -1 -1 600 -1 1 7 -1 -1 -1 -1 -1 -1")
    (tmp_path / "jobs.swf").write_text("\n".join(jobs))

    result = gridstead("simulate", path, "--json")

    document = json.loads(result.out)
    assert document["unsuitable_jobs"] == 1
    assert [policy["jobs_ended"] for policy in document["policies"]] == [3, 3]


@pytest.mark.parametrize("text", [None, "1 2 3\n"])
def test_trace_that_cannot_be_read_is_refused(gridstead, tmp_path, text):
    path = tmp_path / "trace.yaml"
    path.write_text(TRACE_SCENARIO)
    if text is not None:
        (tmp_path / "jobs.swf").write_text(text)

    result = gridstead("simulate", path)

    assert result.code == 65
    assert ("jobs.swf" if text is None else "invalid line 1 of the trace") in result.err


def test_flood_adds_the_jobs_of_one_customer(gridstead, scenario):
    scenario.write_text(SCENARIO + "flood: {customer: eve, factor: 2, start: 1h}\n")

    result = gridstead("simulate", scenario, "--json")

    for policy in json.loads(result.out)["policies"]:
        assert "eve" in [customer["customer"] for customer in policy["customers"]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3660, "1h 1m"), (93_784, "1d 2h")],
)
def test_duration_text(seconds, text):
    assert duration_text(seconds) == text


def test_money_text():
    assert money_text(123_456 * 10**15) == "123.45"
