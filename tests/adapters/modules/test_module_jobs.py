# SPDX-License-Identifier: Apache-2.0
"""Jobs with modules from a real git server, from the workflow file to the job's output."""

from __future__ import annotations

import re
import sys

import pytest
from tests.adapters.modules.git_server import Repository
from tests.unit.workflow.node import Node

from gridstead.cli.main import main
from gridstead.workflow.parse import check_workflow

RESOURCES = "resources: {tasks: 2, cpusPerTask: 1, memPerCpu: 100}\n"
HEADER = """\
name: A module
description: For tests.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
"""
GREET = """\
inputs: [{key: WHO, description: Whom., default: World}]
outputs: [{key: RESULT, description: The greeting.}]
steps:
- run: {command: 'echo "RESULT=WORD $WHO" >>"$DEEPSQUARE_ENV"'}
"""


class ModuleJobs:
    """Checks and runs workflows whose modules come from the git server."""

    def __init__(self, fetcher, node):
        self.fetcher = fetcher
        self.node = node

    def check(self, text):
        """Return the checked workflow. ``HOST`` in the text is the host of the git server."""
        text = text.replace("HOST", self.fetcher.server.host)
        return check_workflow(text, fetch_module=self.fetcher.adapter.text)

    def output(self, steps):
        """Run a workflow of these steps, which must succeed, and return its output."""
        code, output = self.node.run(self.check(f"{RESOURCES}steps:\n{steps}").workflow)
        assert code == 0, output
        return output

    def repository(self, name, body, **files):
        """Return a new repository with a module, which may use other modules of the server."""
        text = f"{HEADER}{body}".replace("HOST", self.fetcher.server.host)
        return Repository(self.fetcher.server.root, name, {"module.yaml": text, **files})


@pytest.fixture
def jobs(fetcher, tmp_path):
    (tmp_path / "node").mkdir()
    node = Node(tmp_path / "node")
    yield ModuleJobs(fetcher, node)
    node.kill_jobs()


def test_a_job_of_the_module_template_runs(jobs, tmp_path, monkeypatch):
    file = tmp_path / "module.yaml"
    command = ["gridstead", "workflow", "init", "--template", "module", "--output", str(file)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        main()
    jobs.repository("me/greet", GREET.replace("WORD", "hello"))
    text = re.sub(r"source: \S+", "source: HOST/me/greet", file.read_text())
    text = text.replace("enableLogging: true\n", "")

    assert caught.value.code == 0
    assert jobs.node.run(jobs.check(text).workflow) == (0, "hello me\n")


def test_each_ref_selects_its_own_version_of_a_module(jobs):
    repository = jobs.repository("me/greet", GREET.replace("WORD", "first"))
    first_commit = repository.git("rev-parse", "HEAD")
    versions = {word: f"{HEADER}{GREET.replace('WORD', word)}" for word in ("tagged", "newest")}
    repository.commit({"module.yaml": versions["tagged"]}, tag="v1.2.0-rc.1")
    repository.commit({"sub/dir/module.yaml": versions["tagged"]}, tag="sub/dir/v2")
    repository.commit({"module.yaml": versions["newest"]})
    sources = (
        "HOST/me/greet", "HOST/me/greet@v1.2.0-rc.1", f"HOST/me/greet@{first_commit}",
        f"HOST/me/greet@{first_commit[:9]}", "HOST/me/greet/sub/dir@v2",
    )  # fmt: skip

    steps = [
        f"- use: {{source: {source}}}\n- run: {{command: echo $RESULT}}\n" for source in sources
    ]

    assert jobs.output("".join(steps)).splitlines() == [
        "newest World", "tagged World", "first World", "first World", "tagged World"
    ]  # fmt: skip


def test_a_module_uses_modules_of_other_repositories(jobs):
    jobs.repository("me/greet", GREET.replace("WORD", "hello")).git("tag", "v1")
    inner = jobs.repository(
        "you/twice",
        "inputs: [{key: A}]\noutputs: [{key: BOTH}]\nsteps:\n"
        "- use: {source: HOST/me/greet@v1, args: [{key: WHO, value: one}], exportEnvAs: X}\n"
        "- use: {source: HOST/me/greet@v1, exportEnvAs: Y}\n"
        '- run: {command: \'echo "BOTH=$X_RESULT, $Y_RESULT, $A" >>"$DEEPSQUARE_ENV"\'}\n',
    )
    commit = inner.git("rev-parse", "HEAD")
    jobs.repository(
        "you/outer",
        f"outputs: [{{key: ALL}}]\nsteps:\n- use:\n    source: HOST/you/twice@{commit}\n"
        "    args: [{key: A, value: '{{ .Job.Resources.Tasks }} tasks'}]\n    exportEnvAs: T\n"
        '- run: {command: \'echo "ALL=<$T_BOTH>" >>"$DEEPSQUARE_ENV"\'}\n',
    )

    output = jobs.output(
        "- use: {source: HOST/you/outer, exportEnvAs: OUTER}\n- run: {command: echo $OUTER_ALL}\n"
    )

    assert output == "<hello one, hello World, 2 tasks>\n"


def test_a_module_prints_lists_and_mappings_as_go_does(jobs):
    jobs.repository(
        "me/prints",
        "# {{ .Job }}\n"
        "inputs: [{key: A}, {key: B}]\nsteps:\n"
        "- run:\n    command: |\n"
        '      echo \'{{ list 1 "two" (list 3.5) }} {{ dict "k" (list true) }}\'\n'
        "      echo '{{ .Step.Use.Args | len }} {{ .Step.Name }}'\n"
        "{{- range $i, $arg := .Step.Use.Args }}\n"
        "- name: '{{ printf \"%03d\" $i }}'\n  run: {command: 'echo {{ $arg.Key }}=$A$B'}\n"
        "{{- end }}\n",
    )

    output = jobs.output(
        "- name: mine\n  use:\n    source: HOST/me/prints\n"
        "    args: [{key: A, value: a}, {key: B, value: b}]\n"
    )

    assert output == "[1 two [3.5]] map[k:[true]]\n2 mine\nA=ab\nB=ab\n"


def test_a_module_with_typos_runs_with_warnings(jobs):
    body = GREET.replace("WORD", "hello").replace("description: Whom.", "descripton: Whom.")
    jobs.repository("me/greet", f"autor: somebody\n{body}")

    checked = jobs.check(f"{RESOURCES}steps:\n- use: {{source: HOST/me/greet}}\n")

    input_warning, module_warning = (warning.reason for warning in checked.warnings)
    assert "line 5: inputs[0].descripton: is not a known field" in input_warning
    assert "line 4: autor: is not a known field" in module_warning
    assert jobs.node.run(checked.workflow)[0] == 0


def test_the_steps_of_the_caller_run_inside_the_module(jobs):
    jobs.repository(
        "me/around",
        "steps:\n- run: {command: echo before}\n{{ .Step.Use.Steps | toYaml }}\n"
        "- run: {command: echo after}\n",
    )

    output = jobs.output(
        "- use:\n    source: HOST/me/around\n    steps:\n"
        "    - for: {parallel: false, items: [a, b], steps: [{run: {command: 'echo \"$item\"'}}]}\n"
    )

    assert output == "before\na\nb\nafter\n"
