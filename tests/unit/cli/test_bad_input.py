# SPDX-License-Identifier: Apache-2.0
"""Invalid input of users: the error message, its detail and hint, and the exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gridstead.config import SERVICES

USAGE, INPUT, CONFIG = 2, 65, 78
COMMAND = Path(sys.executable).with_name("gridstead")
GOOD = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 64}
steps:
  - name: a step
    run: {command: "true"}
"""
CLIENT = """\
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
BAD_WORKFLOWS = {
    "an unknown key": (
        GOOD.replace("cpusPerTask", "cpusPerTsk"),
        "line 1: resources.cpusPerTsk: is not a known field",
    ),
    "a negative number": (
        GOOD.replace("memPerCpu: 64", "memPerCpu: -64"),
        "must be at least 1, not -64",
    ),
    "a name of 1 MB": (GOOD.replace("a step", "x" * 2**20), "is larger than 256 KiB"),
    "a name that is too long": (GOOD.replace("a step", "x" * 129), "has more than 128 characters"),
    "broken YAML": (GOOD + "  - {", "is not valid YAML"),
    "an alias": ("a: &a [1]\nb: *a\n", "is an alias"),
    "an unknown network": (
        GOOD.replace('command: "true"', 'command: "true", network: bridge'),
        "must be 'host', 'slirp4netns' or 'pasta'",
    ),
    "an empty file": ("", "is empty"),
    "no text": (b"\xff\xfe\x00", "cannot read"),
}


@pytest.fixture
def workflow(tmp_path):
    def write(content):
        file = tmp_path / "workflow.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


@pytest.fixture
def settings(tmp_path):
    def write(text):
        file = tmp_path / "settings.toml"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize(
    "command", [("workflow", "validate"), ("workflow", "render"), ("submit", "--credits", "100")]
)
@pytest.mark.parametrize("kind", BAD_WORKFLOWS)
def test_invalid_workflow_is_refused_locally(gridstead, workflow, command, kind):
    content, expected = BAD_WORKFLOWS[kind]

    done = gridstead(*command, workflow(content))

    assert (done.code, done.out) == (INPUT, "")
    assert done.err.startswith("error: ")
    assert expected in done.err
    assert len(done.err) < 2000


def test_all_errors_of_a_workflow_are_printed(gridstead, workflow):
    done = gridstead("workflow", "validate", workflow(GOOD.replace("tasks: 1", "taks: 1")))

    lines = done.err.splitlines()
    assert lines[0] == "error: workflow breaks 2 rules"
    assert any("Did you mean tasks?" in line for line in lines[1:])


def test_misplaced_field_is_a_warning_or_with_strict_an_error(gridstead, workflow):
    file = workflow(GOOD + "network: host\n")

    done = gridstead("workflow", "validate", file)
    assert (done.code, done.out) == (0, f"{file}: valid\n")
    assert done.err.startswith("warning: line ")
    assert "network: " in done.err
    assert "steps[].run.network" in done.err

    for command in (
        ("workflow", "validate"),
        ("workflow", "render"),
        ("submit", "--credits", "100"),
    ):
        done = gridstead(*command, "--strict", file)
        assert (done.code, done.out) == (INPUT, "")
        assert "steps[].run.network" in done.err


def test_error_is_json_with_json_option(gridstead, workflow):
    done = gridstead("workflow", "validate", workflow(GOOD.replace("64", "-64")), "--json")

    error = json.loads(done.err)["error"]
    assert (error["code"], error["exit_code"]) == ("invalid-workflow", INPUT)
    assert error["problems"][0]["path"] == "resources.memPerCpu"


@pytest.mark.parametrize("file", ["absent.yaml", "/", "x" * 5000])
def test_unreadable_workflow_is_refused(gridstead, file):
    done = gridstead("workflow", "validate", file)

    assert done.code == INPUT
    assert done.err.startswith("error: cannot read")
    assert "hint: " in done.err


@pytest.mark.parametrize(
    "amount", ["", "-5", "abc", "1e3", "nan", "0.0000000000000000001", "9" * 61, str(2**256)]
)
def test_invalid_amount_is_refused_locally(gridstead, workflow, amount):
    done = gridstead("submit", workflow(GOOD), f"--credits={amount}")

    assert done.code == INPUT
    assert "invalid amount of credits" in done.err
    assert "hint: Give a number" in done.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--name", "x" * 33], "33 bytes, at most 32"),
        (["--name", "\udcff"], "it is not UTF-8"),
        (["--uses", "novalue"], "Write key=value."),
        (["--uses", "key=\udcff"], "it is not UTF-8"),
        (["--affinity", "key~value"], "Write key>=value"),
        (["--exit-code"], "needs --watch"),
    ],
)
def test_invalid_option_is_refused_locally(gridstead, workflow, options, expected):
    done = gridstead("submit", workflow(GOOD), "--credits", "100", *options)

    assert done.code == INPUT
    assert expected in done.err


@pytest.mark.parametrize("resources", ["tasks: 2000000", "tasks: 1000000, memPerCpu: 2147483647"])
def test_too_many_resources_are_refused_locally(gridstead, workflow, resources):
    text = GOOD.replace("tasks: 1, ", f"{resources}, ")
    if "mem" in resources:
        text = text.replace(", memPerCpu: 64", "")

    done = gridstead("submit", workflow(text), "--credits", "100")

    assert done.code == INPUT
    assert "requests more resources than the grid allows" in done.err


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "0xzz", str(2**256), "9" * 5000])
def test_invalid_job_number_is_refused(gridstead, number):
    for command in (("get",), ("history",), ("cancel",), ("watch",), ("logs",)):
        done = gridstead("job", *command, "--", number)

        assert done.code == INPUT
        assert "invalid job number" in done.err


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
    done = gridstead(*command, "0x12")

    assert done.code == INPUT
    assert "invalid address" in done.err


def test_missing_settings_file_is_an_error_with_a_hint(gridstead):
    for command in (("job", "list"), ("check-config", "client")):
        done = gridstead(*command)

        assert done.code == CONFIG
        assert "hint: Give --config FILE or set $GRIDSTEAD_CONFIG" in done.err


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
def test_error_in_client_settings_names_the_key(gridstead, settings, before, after, expected):
    for command in (("job", "list"), ("check-config", "client")):
        done = gridstead(*command, "--config", settings(CLIENT.replace(before, after)))

        assert done.code == CONFIG
        assert expected in done.err


def test_settings_that_are_not_utf8_are_refused(gridstead, tmp_path):
    (tmp_path / "settings.toml").write_bytes(b"\xff\xfe")

    assert (
        gridstead("check-config", "client", "--config", tmp_path / "settings.toml").code == CONFIG
    )


def test_valid_client_settings_pass_the_check(gridstead, settings):
    file = settings(CLIENT)

    done = gridstead("check-config", "client", "--config", file, "--json")

    assert done.code == 0
    assert json.loads(done.out) == {"service": "client", "file": str(file), "good": True}


@pytest.mark.parametrize("service", SERVICES)
def test_error_in_service_settings_names_the_key(gridstead, settings, service):
    for command in (("check-config", service), (service, "run")):
        done = gridstead(*command, "--config", settings("log_levle = 'info'\n"))

        assert done.code == CONFIG
        assert "log_levle: unknown key, did you mean log_level?" in done.err


def test_unknown_service_is_refused_with_the_known_ones(gridstead):
    done = gridstead("check-config", "slurm")

    assert done.code == INPUT
    assert "supervisor" in done.err


@pytest.mark.parametrize(
    "arguments", [("submit",), ("nonsense",), ("job", "get"), ("job", "list", "--colour")]
)
def test_wrong_usage_refers_to_help(gridstead, arguments):
    done = gridstead(*arguments)

    assert done.code == USAGE
    assert "--help" in done.err


def test_invalid_key_file_is_refused(gridstead, tmp_path):
    for content in ("", "[]", "{}", '{"address": "0x12"}'):
        (tmp_path / "key").write_text(content)

        done = gridstead("wallet", "address", "--keystore", tmp_path / "key")

        assert done.code == CONFIG, content[:20]
        assert done.err.startswith("error: cannot read wallet")


def test_closed_pipe_causes_no_traceback(tmp_path):
    """As in ``gridstead ... | head -1``."""
    (tmp_path / "workflow.yaml").write_text(GOOD)
    command = [COMMAND, "workflow", "render", tmp_path / "workflow.yaml"]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()

    assert errors == ""
