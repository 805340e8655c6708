# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead provider benchmark`."""

import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console
from tests.fakes.benchmarks import FakeBenchmarkControl, report

from gridstead.cli import benchmark_progress
from gridstead.domain.benchmarks.progress import Progress, RunState, RunStatus
from gridstead.domain.benchmarks.report import Drain
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Diagnostic, Omission
from gridstead.errors import SchedulerUnavailable
from gridstead.wiring import agent as agent_wiring

RUNNING = Progress(
    started_at=100, steps_total=8, steps_done=3, steps_failed=1, steps_running=("a", "b", "c", "d")
)
SUCCEEDED = RunStatus(
    state=RunState.SUCCEEDED,
    progress=Progress(started_at=100, ended_at=160, steps_total=8, steps_done=8, steps_failed=1),
)


class FakeAgent(FakeBenchmarkControl):
    """An agent whose runs have the states of a list. An exception in the list is raised."""

    def __init__(self):
        super().__init__()
        self.statuses = []
        self.reports = ()

    def benchmark_status(self):
        if not self.selections:
            return self.status
        status = self.statuses.pop(0)
        if isinstance(status, BaseException):
            raise status
        return status

    def last_reports(self, count):
        return self.reports[-count:]


@pytest.fixture
def agent(monkeypatch):
    """Return the agent that the command line connects to."""
    agent = FakeAgent()
    monkeypatch.setattr(agent_wiring, "open_agent_of_supervisor", lambda _path: agent)
    monkeypatch.setattr(benchmark_progress, "POLL_S", 0)
    return agent


class Page(HTMLParser):
    """The parts of a page: its tags, its texts and its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.texts = []
        self.styles = {}
        self._style = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._style = dict(attributes).get("style", "")

    def handle_data(self, data):
        self.texts.append(data)
        if self._style:
            self.styles[data] = self._style
        self._style = ""


def slow_report(ended_at):
    """Return a report in which node n2 is slow and could not be drained."""
    from gridstead.domain.benchmarks.comparison import slow_nodes_of  # noqa: PLC0415

    speeds = ({"n1": "100", "n2": "101"},) * 2 + ({"n1": "100", "n2": "50"},) * 2
    reports = [report(1_000 + n, speeds=each) for n, each in enumerate(speeds)]
    return report(
        ended_at,
        speeds=speeds[-1],
        slow_nodes=slow_nodes_of(reports),
        drains=(Drain(node="n2", failure="permission denied"),),
    )


def test_a_run_shows_each_change_and_ends_with_a_summary(gridstead, agent):
    running = RunStatus(state=RunState.RUNNING, progress=RUNNING)
    agent.statuses = [RunStatus(state=RunState.REQUESTED), running, running, SUCCEEDED]
    agent.reports = (report(160),)

    result = gridstead("provider", "benchmark", "run")

    assert result.code == 0
    assert result.err.splitlines() == [
        "benchmarks: requested",
        "benchmarks: running, 3 of 8 steps done, 1 failed; a, b, c and 1 more",
        "benchmarks: succeeded, 8 of 8 steps done, 1 failed",
    ]
    assert result.out.splitlines() == [
        "3 labels, 1 left out",
        "details: gridstead provider benchmark report",
    ]
    assert agent.selections == [Selection()]


def test_a_terminal_shows_the_steps_in_one_line(gridstead, agent, monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(benchmark_progress, "stderr_console", terminal)
    agent.statuses = [RunStatus(state=RunState.RUNNING, progress=RUNNING), SUCCEEDED]
    agent.reports = (report(160),)

    result = gridstead("provider", "benchmark", "run")

    assert (result.code, result.err) == (0, "")
    assert "succeeded, 8 of 8 steps done, 1 failed" in terminal.file.getvalue()


def test_a_run_measures_the_selected_nodes_and_suites(gridstead, agent):
    agent.statuses = [SUCCEEDED]
    agent.reports = (report(160),)

    arguments = ("--nodes", "n1, n2", "--suite", "compute", "--suite", "network")
    gridstead("provider", "benchmark", "run", *arguments)

    selection = Selection(nodes=("n1", "n2"), suites=("compute", "network"))
    assert agent.selections == [selection]


def test_json_has_an_object_for_each_change_and_the_summary(gridstead, agent):
    agent.statuses = [RunStatus(state=RunState.RUNNING, progress=RUNNING), SUCCEEDED]
    agent.reports = (slow_report(160),)

    result = gridstead("provider", "benchmark", "run", "--json")

    running, succeeded, summary = result.out.split("\n", 2)
    assert json.loads(running)["steps_running"] == ["a", "b", "c", "d"]
    assert json.loads(succeeded)["state"] == "succeeded"
    assert json.loads(summary)["labels"]["compute.gflops"] == "12.50"
    (outlier,) = json.loads(summary)["outliers"]
    assert (outlier["node"], outlier["expected"]) == ("n2", "101")


def test_a_second_run_is_refused(gridstead, agent):
    agent.status = RunStatus(state=RunState.RUNNING)

    result = gridstead("provider", "benchmark", "run")

    assert result.code == 69
    assert "they are running" in result.err


def test_an_unknown_suite_is_refused_with_the_known_ones(gridstead, agent):
    result = gridstead("provider", "benchmark", "run", "--suite", "speed")

    assert result.code == 65
    assert "compute" in result.err
    assert agent.selections == []


@pytest.mark.parametrize(
    ("state", "failure", "text"),
    [
        (RunState.FAILED, "no node accepts jobs", "no node accepts jobs"),
        (RunState.INTERRUPTED, "", "was interrupted"),
    ],
)
def test_a_run_without_a_report_is_an_error(gridstead, agent, state, failure, text):
    progress = Progress(started_at=100, ended_at=160, failure=failure)
    agent.statuses = [RunStatus(state=state, progress=progress)]

    result = gridstead("provider", "benchmark", "run")

    assert result.code == 75
    assert text in result.err


def test_an_agent_that_does_not_answer_is_asked_again(gridstead, agent):
    agent.statuses = [SchedulerUnavailable("could not read the progress"), SUCCEEDED]
    agent.reports = (report(160),)

    result = gridstead("provider", "benchmark", "run")

    assert result.code == 0
    assert "could not read the progress; retrying" in result.err


def test_ctrl_c_stops_the_display_but_not_the_run(gridstead, agent):
    agent.statuses = [RunStatus(state=RunState.REQUESTED), KeyboardInterrupt()]

    result = gridstead("provider", "benchmark", "run")

    assert result.code == 130
    assert "the benchmarks continue" in result.err


def test_a_request_that_nothing_takes_is_explained_once(gridstead, agent, monkeypatch):
    monkeypatch.setattr(benchmark_progress, "NOT_STARTED_S", -1)
    agent.statuses = [RunStatus(state=RunState.REQUESTED)] * 3 + [SUCCEEDED]
    agent.reports = (report(160),)

    result = gridstead("provider", "benchmark", "run")

    assert result.err.count("gridstead-benchmarks.path") == 1


def test_the_report_shows_nodes_omissions_and_slow_nodes(gridstead, agent):
    agent.reports = (slow_report(4_000),)

    result = gridstead("provider", "benchmark", "report")

    lines = [line.split() for line in result.out.splitlines()]
    assert result.code == 0
    assert ["NODE", "compute", "(Gflop/s)"] in lines
    assert ["n2", "50.00"] in lines
    assert ["gpu", "there", "is", "none"] in lines
    assert "n2: compute is 50 Gflop/s, 50.5 % slower" in result.out
    assert "n2 could not be drained: permission denied" in result.out


def test_the_report_shows_problems_of_nodes_and_the_transport(gridstead, agent, tmp_path):
    troubled = report(4_000)
    troubled.findings.diagnostics = [Diagnostic(node="n3", reason="it did not start in time")]
    troubled.findings.transport = "tcp"
    agent.reports = (troubled,)

    result = gridstead("provider", "benchmark", "report", "--html", tmp_path / "page.html")

    assert "n3: it did not start in time" in result.out
    assert ["transport", "tcp"] in [line.split() for line in result.out.splitlines()]
    page = Page((tmp_path / "page.html").read_text())
    assert "n3: it did not start in time" in page.texts


def test_a_report_without_slow_nodes_says_so(gridstead, agent):
    drained = report(4_000, drains=(Drain(node="n2"),))
    agent.reports = (report(4_000), drained)

    assert "n2 was drained" in gridstead("provider", "benchmark", "report").out
    agent.reports = (report(4_000),)
    assert "no node is slow" in gridstead("provider", "benchmark", "report").out


def test_several_reports_add_the_history_of_whole_runs(gridstead, agent):
    part = report(3_000, gflops="3.00", partial=Selection(nodes=("n1",)))
    agent.reports = (report(1_000, gflops="10.00"), report(2_000, gflops="11.00"), part)

    result = gridstead("provider", "benchmark", "report", "--last", "3")

    lines = [line.split() for line in result.out.splitlines()]
    assert ["compute.gflops", "10.00", "11.00"] in lines
    assert "nodes n1; all suites; the labels are not published" in result.out


def test_json_has_the_whole_reports(gridstead, agent):
    agent.reports = (report(1_000), report(2_000))

    result = gridstead("provider", "benchmark", "report", "--last", "2", "--json")

    assert [each["ended_at"] for each in json.loads(result.out)] == [1_000, 2_000]


def test_without_reports_the_error_names_the_command_to_run(gridstead, agent):
    result = gridstead("provider", "benchmark", "report")

    assert result.code == 65
    assert "gridstead provider benchmark run" in result.err


def test_the_page_is_self_contained_and_colours_slow_values(gridstead, agent, tmp_path):
    agent.reports = (report(1_000, gflops="10.00"), slow_report(2_000))

    result = gridstead("provider", "benchmark", "report", "--html", tmp_path / "page.html")

    assert result.err == f"wrote {tmp_path / 'page.html'}\n"
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "http" not in text
    assert "polyline" in page.tags  # the history of compute.gflops
    assert "200, 50, 40" in page.styles["50.00"]
    assert "40, 100, 190" in page.styles["100.00"]
    assert page.texts.count("1.50") == 2  # the latency, in both directions
    assert any("could not be drained" in each for each in page.texts)


def test_the_page_escapes_texts_and_marks_a_run_of_a_part(gridstead, agent, tmp_path):
    part = report(2_000, partial=Selection(suites=("compute",)))
    part.findings.omissions.append(Omission(keys="os", reason="<script>alert(1)</script>"))
    agent.reports = (part,)

    gridstead("provider", "benchmark", "report", "--html", tmp_path / "page.html")

    page = Page((tmp_path / "page.html").read_text())
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.texts
    assert any("only a part of the site: all nodes; suites compute" in each for each in page.texts)


def test_a_supervisor_without_the_agent_is_an_error(gridstead, tmp_path):
    page = Path("docs/reference/settings.md").read_text()
    _, _, section = page.partition("A complete `/etc/gridstead/supervisor.toml`:\n\n```toml\n")
    text, _, _ = section.partition("\n```")
    settings = tmp_path / "supervisor.toml"
    settings.write_text(text.replace('transport = "agent"', 'transport = "ssh"'))

    result = gridstead("provider", "benchmark", "report", "--config", settings)

    assert result.code == 78
    assert "slurm.transport" in result.err
    assert "only 'agent' is allowed" in result.err


def test_a_page_that_cannot_be_written_is_an_error(gridstead, agent):
    agent.reports = (report(1_000),)

    result = gridstead("provider", "benchmark", "report", "--html", "/nonexistent/page.html")

    assert result.code == 65
    assert "cannot write /nonexistent/page.html" in result.err
