# SPDX-License-Identifier: Apache-2.0
"""Bad input to `gridstead`: one clear error, the exit code of its kind, and no changed state."""

import json
import os
import shutil
import signal
import subprocess
import threading

import pytest
from tests.e2e import many_customers

pytestmark = pytest.mark.jobs

INPUT, CONFIG, INTERRUPTED = 65, 78, 130
GOOD = many_customers.one_step("true")
SCRIPTS = "/var/lib/gridstead/job-definitions/state.db"


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("careless")


@pytest.fixture(scope="module")
def poor(grid):
    return grid.customer("poor", credits_=0)


def run(person, *arguments, text="", settings=None):
    environment = person.environment | ({"GRIDSTEAD_CONFIG": str(settings)} if settings else {})
    return subprocess.run(
        person.command(*arguments),
        env=environment,
        input=text,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def state_of(lab, grid, *people):
    """Return the state that a submission changes: the users' jobs, credits and transactions, and
    the number of stored scripts.
    """
    query = "SELECT COUNT(*) FROM definitions"
    count = f"import sqlite3; print(*sqlite3.connect({SCRIPTS!r}).execute({query!r}).fetchone())"
    states = [lab.run("control", "python3", "-c", count).stdout]
    for person in people:
        member = many_customers.join(person)
        customer, node = member.customer, member.chain.node
        states += [customer.job_numbers(), customer.balance(), customer.allowance()]
        states += [node.ask("eth_getTransactionCount", person.address, "pending")]
        member.close()
    return states


def altered(person, tmp_path, **changes):
    """Write a copy of the user's settings with replaced texts and return its path."""
    text = person.settings.read_text()
    for before, after in changes.values():
        assert before in text
        text = text.replace(before, after)
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return file


def test_bad_input_is_reported_and_changes_no_state(lab, grid, someone, poor, tmp_path):
    before = state_of(lab, grid, someone, poor)
    good = json.dumps(GOOD)
    wrong_password = tmp_path / "password"
    wrong_password.write_text("another\n")
    keys = altered(someone, tmp_path, password=(str(someone.password), str(wrong_password)))
    keys = shutil.copy(keys, tmp_path / "wrong-key.toml")
    typo = altered(someone, tmp_path, typo=("confirmations", "confirmation"))
    submit = ("submit", "-", "--credits", "100")
    long_name = json.dumps(GOOD | {"steps": [{"name": "x" * 2**20, "run": {"command": "true"}}]})
    attempts = [
        (
            INPUT,
            "is not a known field",
            run(someone, *submit, text=good.replace("memPerCpu", "memPerCpus")),
        ),
        (
            INPUT,
            "must be at least 1, not -1",
            run(someone, *submit, text=good.replace('"tasks": 1', '"tasks": -1')),
        ),
        (INPUT, "is larger than 256 KiB", run(someone, *submit, text=long_name)),
        (INPUT, "33 bytes, at most 32", run(someone, *submit, "--name", "x" * 33, text=good)),
        (INPUT, "is not valid YAML", run(someone, *submit, text=good + "]")),
        (INPUT, "has only 0 credits", run(poor, *submit, text=good)),
        (CONFIG, "cannot open wallet", run(someone, *submit, text=good, settings=keys)),
        (
            CONFIG,
            "confirmation: unknown key, did you mean",
            run(someone, *submit, text=good, settings=typo),
        ),
    ]

    for code, message, done in attempts:
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert state_of(lab, grid, someone, poor) == before


def test_check_config_reports_a_typo_in_a_services_settings(lab):
    """The command runs on the service's host, with the settings that the role wrote."""
    gridstead, file = "/opt/gridstead/venv/bin/gridstead", "/run/typo.toml"
    lab.sh("control", f"(echo 'tik_s = 1'; cat /etc/gridstead/supervisor.toml) >{file}")

    good = lab.run("control", gridstead, "check-config", "supervisor")
    bad = lab.run("control", gridstead, "check-config", "supervisor", "--config", file, check=False)

    lab.run("control", "rm", file)
    assert good.stdout == "/etc/gridstead/supervisor.toml: good\n"
    assert bad.returncode == CONFIG
    assert "tik_s: unknown key" in bad.stderr
    assert "Traceback" not in bad.stderr


def test_an_interrupted_watch_does_not_stop_the_job(grid, someone):
    # The tests may run in the background of a shell, which makes its children ignore SIGINT.
    command = [
        "env",
        "--default-signal=INT",
        *someone.command("submit", "-", "--credits", "100", "--name", "watched", "--watch"),
    ]
    workflow = json.dumps(many_customers.one_step("echo seen; sleep 8") | {"enableLogging": True})
    seen, lines = threading.Event(), []
    with subprocess.Popen(
        command, env=someone.environment | {"PYTHONUNBUFFERED": "1"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(workflow)
        process.stdin.close()
        for line in process.stdout:
            lines.append(line)
            if line.strip() == "seen":
                seen.set()
                break
        os.kill(process.pid, signal.SIGINT)
        errors = process.stderr.read()
    number = json.loads(someone.run("job", "list", "--json").stdout)[-1]["number"]

    assert seen.is_set(), lines
    assert process.returncode == INTERRUPTED
    assert f"job {number} is not affected" in errors
    assert "Traceback" not in errors
    assert "PENDING" in lines[0]
    grid.wait(someone, number, "FINISHED")
    grid.check_money(someone, number)
