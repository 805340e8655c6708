# SPDX-License-Identifier: Apache-2.0
"""gridstead-submit, which the operator account may run as root, refuses all unknown input."""

import importlib.machinery
import importlib.util
import json
import pwd

import pytest
from tests.roles.catalogue import ROOT

FILE = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-submit"
LOADER = importlib.machinery.SourceFileLoader("gridstead_submit", str(FILE))
program = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("gridstead_submit", LOADER)
)

ADDRESS = "0x" + "ab" * 20
JOB_KEY = f"179188/0x{'1' * 40}/0x{7:064x}/abc_-9"
SETTINGS = {"uid_min": 200001, "uid_max": 999999, "gid": 100000, "homes": "/home/ldap-users"}
CANCEL = ["cancel", "--slurm-job-id", "12", "--proof", JOB_KEY]


@pytest.fixture(autouse=True, scope="module")
def load_program():
    """Execute the program's text in the module. No bytecode file is written."""
    exec(compile(FILE.read_text(), str(FILE), "exec"), program.__dict__)


def exit_code_of(function, *arguments):
    """Return the exit code with which a function stops the program."""
    with pytest.raises(program.CommandError) as stop:
        function(*arguments)
    return stop.value.args[0]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["delete"],
        ["cancel"],
        CANCEL[:-1],
        [*CANCEL, "--proof", JOB_KEY],
        ["cancel", "--proof", JOB_KEY, "--proof", JOB_KEY],
        ["cancel", "--slurm-job-id=12", "--proof", JOB_KEY],
        [*CANCEL, "--force", "1"],
        ["cancel", "--slurm-job-id", "12\n", "--proof", JOB_KEY],
        ["cancel", "--slurm-job-id", "-1", "--proof", JOB_KEY],
        ["cancel", "--slurm-job-id", "٣", "--proof", JOB_KEY],  # an Arabic digit
        ["cancel", "--slurm-job-id", "12", "--proof", JOB_KEY + " x"],
        ["associate", "--user", "root"],
        ["associate", "--user", ADDRESS.upper()],
        ["associate", "--user", ADDRESS + ",root"],
    ],
)
def test_unknown_arguments_are_refused(words):
    assert exit_code_of(program.parse, words) == program.EXIT_USAGE


def test_options_are_accepted_in_any_order():
    expected = ("cancel", {"proof": JOB_KEY, "slurm-job-id": "12"})

    assert expected == program.parse(["cancel", "--proof", JOB_KEY, "--slurm-job-id", "12"])


@pytest.mark.parametrize(
    "job",
    [
        [],
        {"script": "#!/bin/sh\n"},
        {"script": "#!/bin/sh\n", "environment": {}, "uid": 0},
        {"script": 1, "environment": {}},
        {"script": "#!/bin/sh\n\0", "environment": {}},
        {"script": "#!/bin/sh\n", "environment": {"A": 1}},
        {"script": "#!/bin/sh\n", "environment": {"A=B": "x"}},
        {"script": "#!/bin/sh\n", "environment": {"A": "x\0LD_PRELOAD=y"}},
        {"script": "#!/bin/sh\n", "environment": []},
    ],
)
def test_an_invalid_job_is_refused(job):
    assert exit_code_of(program.read_job, json.dumps(job)) == program.EXIT_USAGE


def test_broken_json_is_a_value_error():
    with pytest.raises(ValueError, match="Expecting"):
        program.read_job("{")


@pytest.mark.parametrize(
    ("uid", "gid"), [("200000", "100000"), ("1000000", "100000"), ("200001", "100001")]
)
def test_an_account_outside_the_range_of_wallets_is_refused(uid, gid):
    options = {"user": ADDRESS, "uid": uid, "gid": gid}

    assert exit_code_of(program.require_wallet, options, SETTINGS) == program.EXIT_USAGE


def test_a_user_whose_account_has_another_uid_is_refused(monkeypatch):
    entry = pwd.struct_passwd((ADDRESS, "x", 200002, 100000, "", "/", "/bin/sh"))
    monkeypatch.setattr(program.pwd, "getpwnam", lambda _name: entry)
    options = {"user": ADDRESS, "uid": "200001", "gid": "100000"}

    assert exit_code_of(program.require_wallet, options, SETTINGS) == program.EXIT_USAGE


def test_a_user_without_an_account_is_refused():
    options = {"user": ADDRESS, "uid": "200001", "gid": "100000"}

    assert exit_code_of(program.require_wallet, options, SETTINGS) == program.EXIT_USAGE


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("10:00", 10),
        ("1:00:00", 60),
        ("1-01:30:00", 1530),
        ("30", 0.5),
        ("UNLIMITED", float("inf")),
    ],
)
def test_a_time_limit_of_slurm_is_converted_to_minutes(limit, expected):
    assert expected == program.limit_in_minutes(limit)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("sbatch: error: Unable to contact slurm controller", 75),
        ("sbatch: error: invalid partition", 69),
    ],
)
def test_an_unreachable_controller_and_a_refusal_have_different_exit_codes(reason, expected):
    assert exit_code_of(program.run, "sh", "-c", f"echo '{reason}' >&2; exit 1") == expected


def test_commands_do_not_get_the_variables_of_the_caller(monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/tmp/evil")

    assert "SLURM_CONF" not in program.run("env")
