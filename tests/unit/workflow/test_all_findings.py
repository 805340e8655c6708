# SPDX-License-Identifier: Apache-2.0
"""One check of a workflow reports all errors and warnings, each at its key."""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.unit.workflow.fields import paths_in, with_value_at
from tests.unit.workflow.random_workflows import DIVISOR, random_mapping
from tests.unit.workflow.strategies import problems_of

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.parse import check_workflow, from_graphql
from gridstead.workflow.paths import format_path

PATHS_PER_WORKFLOW = 40 // DIVISOR
RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"


def findings(text):
    """Return the errors of an invalid workflow."""
    return [str(problem) for problem in problems_of(check_workflow, text)]


def test_warnings_are_reported_together_with_errors():
    text = (
        "inputMode: 0400\nenv: 1\n"
        + RESOURCES
        + "steps:\n- network: host\n  run: {command: x, dns: [10.0.0.1]}\nx-a: 1\n---\n"
    )

    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(text)

    assert [str(problem) for problem in caught.value.problems] == [
        "line 2: env: must be a list, not a number"
    ]
    assert [str(warning) for warning in caught.value.warnings] == [
        "line 1: inputMode: has a leading zero; 0400 is read as octal, which is 256",
        "line 5: steps[0].network: is in a wrong place and has no effect",
        "line 6: steps[0].run.dns: has no effect on the host network",
        "line 7: x-a: is ignored, because the name starts with x-",
        "line 8: workflow: has a second document, which is ignored",
    ]


def test_rules_over_several_fields_are_checked_although_other_fields_have_errors():
    text = (
        RESOURCES
        + """\
env: [{key: PATH, value: x}]
continuousOutputSync: true
virtualNetworks:
- {name: a, gatewayAddress: 10.0.0.1/24}
- {name: a, gatewayAddress: 10.0.0.1/24}
steps:
- run:
    command: x
    shell: ENTRYPOINT
    workDir: here
    resources: {tasks: 3}
- run: {command: x}
  if: ''
  launch: {steps: [{run: {command: x, mapUid: -1}}]}
- dependsOn: [b]
  run:
    command: x
    container: {image: x, username: u, mounts: 5}
    customNetworkInterfaces:
    - vnet: {name: b, address: 10.0.0.2/24}
"""
    )
    vnet = "steps[2].run.customNetworkInterfaces[0].vnet"
    several_networks = "is already the name of another network"

    assert findings(text) == [
        "line 2: env[0].key: cannot be set by a workflow; it is 'PATH'",
        f"line 6: virtualNetworks[1].name: {several_networks}",
        "line 10: steps[0].run: has the shell ENTRYPOINT, which is allowed only in a container",
        "line 11: steps[0].run.workDir: must be an absolute path; it is 'here'",
        "line 12: steps[0].run.resources: needs 6 CPU threads, but the job has 4",
        "line 12: steps[0].run.resources: needs 600 MB of memory, but the job has 400",
        "line 15: steps[1].launch.steps[0].run.mapUid: must be at least 0, not -1",
        "line 15: steps[1]: has both run and launch; only one of them is allowed",
        "line 16: steps[2].dependsOn[0]: is not the handle of an earlier launched step",
        "line 19: steps[2].run.container.mounts: must be a list, not a number",
        "line 19: steps[2].run.container: needs both username and password, or neither",
        f"line 21: {vnet}.name: is not the name of a virtual network",
    ]


# Each workflow has one error. Rules that read the wrong field would report another error.
ONE_ERROR = {
    "wrong resources of the job": "resources: {tasks: 0, cpusPerTask: 1, memPerCpu: 1}\n"
    "steps: [{run: {command: x, resources: {tasks: 9}}}]",
    "no resources": "steps: [{run: {command: x, resources: {tasks: 9}}}]",
    "an unknown resource": RESOURCES.replace("100}", "100, gpu: 1}")
    + "steps: [{run: {command: x, resources: {gpusPerTask: 1}}}]",
    "wrong resources of a step": RESOURCES
    + "steps: [{run: {command: x, resources: {tasks: 4, cpusPerTask: [1]}}}]",
    "a wrong launch": RESOURCES
    + "steps: [{launch: {handleName: a, steps: 5}}, {run: {command: x}, dependsOn: [a]}]",
    "a misspelt launch": RESOURCES
    + "steps: [{lanch: {handleName: a}}, {run: {command: x}, dependsOn: [a]}]",
    "a step that is a text": RESOURCES + "steps: [x, {run: {command: x}, dependsOn: [a]}]",
    "a wrong network": RESOURCES
    + "virtualNetworks: [{name: a, gatewayAddress: x}]\nsteps: [{run: {command: x, network: pasta,"
    " customNetworkInterfaces: [{vnet: {name: a, address: 10.0.0.2/24}}]}}]",
    "two networks, one without a name": RESOURCES
    + "virtualNetworks: [{gatewayAddress: 10.0.0.1/24}, {name: '', gatewayAddress: 10.0.0.1/24}]\n"
    "steps: [{}]",
    "a wrong address": RESOURCES
    + "virtualNetworks: [{name: a, gatewayAddress: 10.0.0.1/24}]\nsteps: [{run: {command: x,"
    " network: pasta, customNetworkInterfaces: [{vnet: {name: a, address: x}}]}}]",
    "wrong items of a loop": RESOURCES + "steps: [{for: {parallel: true, items: 5, steps: [{}]}}]",
    "a wrong range of a loop": RESOURCES
    + "steps: [{for: {parallel: true, range: {begin: x, end: 9},"
    " steps: [{run: {command: x, resources: {tasks: 2}}}]}}]",
    "a wrong password": RESOURCES
    + "steps: [{run: {command: x, container: {image: x, username: u, password: [x]}}}]",
    "a wrong run": RESOURCES + "steps: [{run: 5, steps: [{}]}]",
    "a wrong command": RESOURCES + "steps: [{run: {command: [x], shell: /bin/ash}}]",
}


@pytest.mark.parametrize("name", ONE_ERROR)
def test_rules_that_read_a_wrong_field_report_nothing(name):
    assert len(findings(ONE_ERROR[name])) == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_wrong_value_causes_findings_only_at_its_own_path(seed):
    random = Random(seed)
    # The JSON has no shared lists, so that each change concerns one path.
    mapping = json.loads(json.dumps(random_mapping(random)))
    paths = list(paths_in(mapping))[1:]
    for path in random.sample(paths, min(len(paths), PATHS_PER_WORKFLOW)):
        for wrong_value in ([3], "\0", {"nome": 1}):
            changed_mapping = with_value_at(mapping, path, wrong_value)
            for problem in problems_of(from_graphql, changed_mapping):
                assert problem.path.startswith(format_path(path))


def test_a_misspelt_resource_of_the_job_is_reported_without_errors_about_its_sum():
    text = RESOURCES.replace("cpusPerTask", "cpusPerTsk")

    assert findings(text + "steps: [{run: {command: x, resources: {tasks: 3}}}]\n") == [
        "line 1: resources.cpusPerTask: is required"
    ]


def test_rules_over_several_fields_are_checked_on_the_wire_too():
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}
    steps = [{"nome": "x"}, {"run": {"command": "x", "resources": {"tasks": 2}, "workDir": "x"}}]
    problems = problems_of(from_graphql, {"resources": resources, "steps": steps[1:]})
    problems_with_unknown_field = problems_of(
        from_graphql, {"resources": resources, "steps": steps}
    )

    assert [problem.path for problem in problems] == [
        "steps[0].run.workDir",
        "steps[0].run.resources",
        "steps[0].run.resources",
    ]
    assert [problem.path for problem in problems_with_unknown_field] == [
        "steps[1].run.workDir",
        "steps[0].nome",
        "steps[1].run.resources",
        "steps[1].run.resources",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("steps:\n- name: a\n  steps: [{}]\n  run: {command: x}", 6),
        ("steps:\n- for:\n    parallel: true\n    steps: [{}]\n    items: []\n    range: *r", 8),
        ("steps:\n- run:\n    shell: /bin/bash\n    command: ''", 6),
        ("steps:\n- run:\n    command: x\n    shell: /bin/ash", 6),
        ("steps:\n- run:\n    command: x\n    container:\n      image: x\n      username: u", 8),
    ],
)  # fmt: skip
def test_a_rule_over_several_fields_of_a_mapping_has_the_line_of_its_key(lines, expected):
    (problem,) = problems_of(
        check_workflow, f"x-range: &r {{begin: 1, end: 2}}\n{RESOURCES}{lines}\n"
    )

    assert problem.line == expected


def test_the_report_of_a_workflow_with_many_errors_is_limited():
    text = f"{RESOURCES}steps: [{'[],' * 80_000}]\n"

    assert len(findings(text)) == 101
