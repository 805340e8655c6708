# SPDX-License-Identifier: Apache-2.0
"""Invalid input by users: tests of the error message, its detail and hint, and the exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridstead.config import SERVICE_SETTINGS

USAGE_EXIT = 2
INPUT_EXIT = 65
CONFIG_EXIT = 78
COMMAND = Path(sys.executable).with_name("gridstead")
VALID_RESOURCES = "tasks: 1, cpusPerTask: 1, memPerCpu: 64"
VALID_WORKFLOW = f"""\
resources: {{{VALID_RESOURCES}}}
steps:
  - name: a step
    run: {{command: "true"}}
"""
CLIENT_SETTINGS = """\
job_definitions_url = "https://control:8443/graphql"
[chain]
rpc_url = "http://127.0.0.1:8545"
chain_id = 179188
contract = "0xabababababababababababababababababababab"
confirmations = 6
[wallet]
keystore_file = "/nonexistent/key"
password_file = "/nonexistent/password"
[logger]
endpoint = "control:8445"
ca_file = "/nonexistent/ca"
"""
# For each case: the content of the workflow file, and a part of the error message.
BAD_WORKFLOWS = {
    "a misspelled field": (
        VALID_WORKFLOW.replace("cpusPerTask", "cpusPerTsk"),
        "warning: line 1: resources.cpusPerTsk: is not a known field. Did you mean cpusPerTask?",
    ),
    "a negative number": (
        VALID_WORKFLOW.replace("memPerCpu: 64", "memPerCpu: -64"),
        "must be at least 1, not -64",
    ),
    "a name of 1 MB": (VALID_WORKFLOW.replace("a step", "x" * 2**20), "is larger than 256 KiB"),
    "a name that is too long": (
        VALID_WORKFLOW.replace("a step", "x" * 129),
        "has more than 128 characters",
    ),
    "broken YAML": (VALID_WORKFLOW + "  - {", "is not valid YAML"),
    "an unknown alias": ("b: *a\n", "is the alias *a without an anchor before it"),
    "an unknown network": (
        VALID_WORKFLOW.replace('command: "true"', 'command: "true", network: bridge'),
        "must be 'host', 'slirp4netns' or 'pasta'",
    ),
    "an empty file": ("", "is empty"),
    "a file that is not text": (b"\xff\xfe\x00", "cannot read"),
}
COMMANDS_THAT_READ_A_WORKFLOW = [
    ("workflow", "validate"),
    ("workflow", "render"),
    ("submit", "--credits", "100"),
]


@pytest.fixture
def write_workflow(tmp_path):
    """Return a function that writes a workflow file and returns its path."""

    def write(content):
        file = tmp_path / "workflow.yaml"
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content)
        return file

    return write


@pytest.fixture
def write_settings(tmp_path):
    """Return a function that writes a settings file and returns its path."""

    def write(text):
        file = tmp_path / "settings.toml"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("command", COMMANDS_THAT_READ_A_WORKFLOW)
@pytest.mark.parametrize("case", BAD_WORKFLOWS)
def test_invalid_workflow_is_refused_locally(gridstead, write_workflow, command, case):
    content, expected = BAD_WORKFLOWS[case]

    result = gridstead(*command, write_workflow(content))

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert result.err.startswith(("error: ", "warning: "))
    assert expected in result.err
    assert len(result.err) < 2000


def test_all_errors_of_a_workflow_are_printed(gridstead, write_workflow):
    file = write_workflow(VALID_WORKFLOW.replace("tasks: 1", "tasks: 0, gpus: -1"))

    result = gridstead("workflow", "validate", file)

    lines = result.err.splitlines()
    assert lines[0] == "error: workflow breaks 2 rules"
    assert [line.split(":")[1] for line in lines[1:]] == [" resources.tasks", " resources.gpus"]


@pytest.fixture
def workflow_with_misplaced_field(write_workflow):
    return write_workflow(VALID_WORKFLOW + "network: host\n")


def test_misplaced_field_is_a_warning(gridstead, workflow_with_misplaced_field):
    file = workflow_with_misplaced_field

    result = gridstead("workflow", "validate", file)
    assert result.code == 0
    assert result.out == f"{file}: valid\n"
    assert result.err.startswith("warning: line ")
    assert "network: " in result.err
    assert "steps[].run.network" in result.err


@pytest.mark.parametrize("command", COMMANDS_THAT_READ_A_WORKFLOW)
def test_misplaced_field_is_an_error_with_strict_option(
    gridstead, workflow_with_misplaced_field, command
):
    result = gridstead(*command, "--strict", workflow_with_misplaced_field)

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert "steps[].run.network" in result.err


def test_error_is_json_with_json_option(gridstead, write_workflow):
    file = write_workflow(VALID_WORKFLOW.replace("64", "-64"))

    result = gridstead("workflow", "validate", file, "--json")

    error = json.loads(result.err)["error"]
    assert error["code"] == "invalid-workflow"
    assert error["exit_code"] == INPUT_EXIT
    assert error["problems"][0]["path"] == "resources.memPerCpu"


@pytest.mark.parametrize("file", ["absent.yaml", "/", "x" * 5000])
def test_unreadable_workflow_is_refused(gridstead, file):
    result = gridstead("workflow", "validate", file)

    assert result.code == INPUT_EXIT
    assert result.err.startswith("error: cannot read")
    assert "hint: " in result.err


@pytest.mark.parametrize(
    "amount", ["", "-5", "abc", "1e3", "nan", "0.0000000000000000001", "9" * 61, str(2**256)]
)
def test_invalid_amount_is_refused_locally(gridstead, write_workflow, amount):
    result = gridstead("submit", write_workflow(VALID_WORKFLOW), f"--credits={amount}")

    assert result.code == INPUT_EXIT
    assert "invalid amount of credits" in result.err
    assert "hint: Give a number" in result.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--name", "x" * 33], "33 bytes, at most 32"),
        (["--name", "\udcff"], "it is not UTF-8"),
        (["--uses", "novalue"], "Write key=value."),
        (["--uses", "key=\udcff"], "it is not UTF-8"),
        (["--affinity", "key~value"], "Write key>=value"),
        (["--affinity", "key>= 1000"], "Write a number such as 1000"),
        (["--affinity", "key<1e3"], "Write a number such as 1000"),
        (["--affinity", "price.per-min>2"], "permits only the operators < and <="),
        (["--affinity", "policy=dear"], "policy must be cheapest, balanced or soonest"),
        (["--affinity", "queue.wait.s<=10m"], "queue.wait.s must be a number"),
        (["--affinity", "deadline.unix<1000000"], "the time is in the past"),
        (["--uses", "policy=soonest"], "Use --affinity for this key."),
        (["--exit-code"], "needs --watch"),
    ],
)
def test_invalid_option_is_refused_locally(gridstead, write_workflow, options, expected):
    result = gridstead("submit", write_workflow(VALID_WORKFLOW), "--credits", "100", *options)

    assert result.code == INPUT_EXIT
    assert expected in result.err


# The first job exceeds MAX_CPUS, the second MAX_MEMORY_MB (domain/jobs/billing.py).
@pytest.mark.parametrize(
    "resources",
    [
        "tasks: 2000000, cpusPerTask: 1, memPerCpu: 64",
        "tasks: 1000000, cpusPerTask: 1, memPerCpu: 2147483647",
    ],
)
def test_too_many_resources_are_refused_locally(gridstead, write_workflow, resources):
    file = write_workflow(VALID_WORKFLOW.replace(VALID_RESOURCES, resources))

    result = gridstead("submit", file, "--credits", "100")

    assert result.code == INPUT_EXIT
    assert "requests more resources than the grid allows" in result.err


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "0xzz", str(2**256), "9" * 5000])
@pytest.mark.parametrize("command", ["get", "history", "cancel", "watch", "logs"])
def test_invalid_job_number_is_refused(gridstead, command, number):
    result = gridstead("job", command, "--", number)

    assert result.code == INPUT_EXIT
    assert "invalid job number" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("credit", "balance"),
        ("provider", "status"),
        ("provider", "approve"),
        ("provider", "remove"),
    ],
)
def test_invalid_address_is_refused(gridstead, command):
    result = gridstead(*command, "0x12")

    assert result.code == INPUT_EXIT
    assert "invalid address" in result.err


def test_missing_settings_file_is_an_error_with_a_hint(gridstead):
    for command in (("job", "list"), ("check-config", "client")):
        result = gridstead(*command)

        assert result.code == CONFIG_EXIT
        assert "hint: Give --config FILE or set $GRIDSTEAD_CONFIG" in result.err


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "confirmations",
            "confirmation",
            "chain.confirmation: unknown key, did you mean confirmations?",
        ),
        ("rpc_url", "rpcurl", "chain.rpc_url: missing"),
        ("[wallet]", "[walet]", "walet: unknown key, did you mean wallet?"),
        ("= 179188", "= -1", "chain.chain_id"),
        ("http://127.0.0.1:8545", "http://[", "chain.rpc_url: must be a URL"),
        ("https://control:8443", "https://control:port", "job_definitions_url: must be a URL"),
        ("[chain]", "[chain", "is not TOML"),
        ("[chain]", "[chain]\nx = " + "[" * 5000, "is not TOML"),
    ],
)
def test_error_in_client_settings_names_the_key(gridstead, write_settings, before, after, expected):
    file = write_settings(CLIENT_SETTINGS.replace(before, after))
    for command in (("job", "list"), ("check-config", "client")):
        result = gridstead(*command, "--config", file)

        assert result.code == CONFIG_EXIT
        assert expected in result.err


def test_settings_that_are_not_utf8_are_refused(gridstead, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xff\xfe")

    result = gridstead("check-config", "client", "--config", file)

    assert result.code == CONFIG_EXIT


def test_valid_client_settings_pass_the_check(gridstead, write_settings):
    file = write_settings(CLIENT_SETTINGS)

    result = gridstead("check-config", "client", "--config", file, "--json")

    assert result.code == 0
    assert json.loads(result.out) == {"service": "client", "file": str(file), "good": True}


@pytest.mark.parametrize("service", SERVICE_SETTINGS)
def test_error_in_service_settings_names_the_key(gridstead, write_settings, service):
    file = write_settings("log_levle = 'info'\n")
    for command in (("check-config", service), (service, "run")):
        result = gridstead(*command, "--config", file)

        assert result.code == CONFIG_EXIT
        assert "log_levle: unknown key, did you mean log_level?" in result.err


def test_unknown_service_is_refused_with_a_list_of_services(gridstead):
    result = gridstead("check-config", "slurm")

    assert result.code == INPUT_EXIT
    assert "supervisor" in result.err


@pytest.mark.parametrize(
    "arguments", [("submit",), ("nonsense",), ("job", "get"), ("job", "list", "--colour")]
)
def test_usage_error_refers_to_help(gridstead, arguments):
    result = gridstead(*arguments)

    assert result.code == USAGE_EXIT
    assert "--help" in result.err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"address": "0x12"}'])
def test_invalid_keystore_file_is_refused(gridstead, tmp_path, content):
    (tmp_path / "key").write_text(content)

    result = gridstead("wallet", "address", "--keystore", tmp_path / "key")

    assert result.code == CONFIG_EXIT
    assert result.err.startswith("error: cannot read wallet")


def test_closed_pipe_causes_no_traceback(tmp_path):
    """The reader closes the pipe early, as in ``gridstead ... | head -1``."""
    (tmp_path / "workflow.yaml").write_text(VALID_WORKFLOW)
    command = [COMMAND, "workflow", "render", tmp_path / "workflow.yaml"]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()

    assert errors == ""
