# SPDX-License-Identifier: Apache-2.0
"""Tests of invalid input: `gridstead` reports an error with an exit code and changes no state."""

import json
import os
import signal
import subprocess

import pytest
from tests.e2e import many_customers

pytestmark = pytest.mark.chain

INPUT_ERROR, CONFIG_ERROR, INTERRUPTED = 65, 78, 130  # exit codes
VALID_WORKFLOW = many_customers.one_step("true")
SCRIPTS_DATABASE = "/var/lib/gridstead/job-definitions/state.db"


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("careless")


@pytest.fixture(scope="module")
def customer_without_credits(grid):
    return grid.customer("poor", credits_=0)


def run(user, *arguments, text="", settings=None):
    environment = dict(user.environment)
    if settings:
        environment["GRIDSTEAD_CONFIG"] = str(settings)
    return subprocess.run(
        user.command(*arguments),
        env=environment,
        input=text,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def state_of(lab, *users):
    """Return the state that a submission would change.

    The state consists of the users' jobs, credits and transactions, and of the number of stored
    scripts.
    """
    query = "SELECT COUNT(*) FROM definitions"
    database = f"sqlite3.connect({SCRIPTS_DATABASE!r})"
    count = f"import sqlite3; print(*{database}.execute({query!r}).fetchone())"
    states = [lab.run("control", "python3", "-c", count).stdout]
    for user in users:
        connection = many_customers.connect(user)
        customer, node = connection.customer, connection.chain.node
        states += [customer.job_numbers(), customer.balance(), customer.allowance()]
        states += [node.ask("eth_getTransactionCount", user.address, "pending")]
        connection.close()
    return states


def write_changed_settings(user, file, before, after):
    """Write a copy of the user's settings in which one text is replaced by another."""
    text = user.settings.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_bad_input_is_reported_and_changes_no_state(
    lab, customer, customer_without_credits, tmp_path
):
    state_before = state_of(lab, customer, customer_without_credits)
    valid_text = json.dumps(VALID_WORKFLOW)
    wrong_password = tmp_path / "password"
    wrong_password.write_text("another\n")
    with_wrong_password = tmp_path / "wrong-password.toml"
    write_changed_settings(
        customer, with_wrong_password, str(customer.password), str(wrong_password)
    )
    with_typo = tmp_path / "typo.toml"
    write_changed_settings(customer, with_typo, "confirmations", "confirmation")
    submit = ("submit", "-", "--credits", "100")
    long_name = json.dumps(
        VALID_WORKFLOW | {"steps": [{"name": "x" * 2**20, "run": {"command": "true"}}]}
    )
    attempts = [
        (
            INPUT_ERROR,
            "resources.gpu: is not a known field (Did you mean gpus?)",
            run(customer, *submit, text=valid_text.replace('"tasks": 1', '"tasks": 1, "gpu": 1')),
        ),
        (
            INPUT_ERROR,
            "must be at least 1, not -1",
            run(customer, *submit, text=valid_text.replace('"tasks": 1', '"tasks": -1')),
        ),
        (INPUT_ERROR, "is larger than 256 KiB", run(customer, *submit, text=long_name)),
        (
            INPUT_ERROR,
            "33 bytes, at most 32",
            run(customer, *submit, "--name", "x" * 33, text=valid_text),
        ),
        (INPUT_ERROR, "is not valid YAML", run(customer, *submit, text=valid_text + "]")),
        (
            INPUT_ERROR,
            "has only 0 credits",
            run(customer_without_credits, *submit, text=valid_text),
        ),
        (
            CONFIG_ERROR,
            "cannot open wallet",
            run(customer, *submit, text=valid_text, settings=with_wrong_password),
        ),
        (
            CONFIG_ERROR,
            "confirmation: unknown key, did you mean",
            run(customer, *submit, text=valid_text, settings=with_typo),
        ),
    ]

    for exit_code, message, result in attempts:
        assert result.returncode == exit_code, result.stderr
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert message in result.stderr
        assert "Traceback" not in result.stderr
    assert state_of(lab, customer, customer_without_credits) == state_before


def test_check_config_reports_a_typo_in_the_settings_of_a_service(lab):
    """The command runs on the service's host, with the settings that the role wrote."""
    gridstead, file = "/opt/gridstead/venv/bin/gridstead", "/run/typo.toml"
    lab.sh("control", f"(echo 'tik_s = 1'; cat /etc/gridstead/supervisor.toml) >{file}")

    valid_result = lab.run("control", gridstead, "check-config", "supervisor")
    invalid_result = lab.run(
        "control", gridstead, "check-config", "supervisor", "--config", file, check=False
    )

    lab.run("control", "rm", file)
    assert valid_result.stdout == "/etc/gridstead/supervisor.toml: valid\n"
    assert invalid_result.returncode == CONFIG_ERROR
    assert "tik_s: unknown key" in invalid_result.stderr
    assert "Traceback" not in invalid_result.stderr


def test_a_job_continues_after_ctrl_c_in_submit_with_watch(grid, customer):
    # If a shell runs the tests in the background, all processes of the tests ignore SIGINT.
    # Therefore ``env`` restores the default.
    command = [
        "env",
        "--default-signal=INT",
        *customer.command("submit", "-", "--credits", "100", "--name", "watched", "--watch"),
    ]
    workflow = json.dumps(many_customers.one_step("echo seen; sleep 8") | {"enableLogging": True})
    is_output_seen, lines = False, []
    with subprocess.Popen(
        command,
        env=customer.environment | {"PYTHONUNBUFFERED": "1"},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(workflow)
        process.stdin.close()
        for line in process.stdout:
            lines.append(line)
            if line.strip() == "seen":
                is_output_seen = True
                break
        os.kill(process.pid, signal.SIGINT)
        errors = process.stderr.read()
    listed_jobs = json.loads(customer.run("job", "list", "--json").stdout)
    number = listed_jobs[-1]["number"]

    assert is_output_seen, lines
    assert process.returncode == INTERRUPTED
    assert f"job {number} is not affected" in errors
    assert "Traceback" not in errors
    assert "PENDING" in lines[0]
    grid.wait(customer, number, "FINISHED")
    grid.check_money(customer, number)
