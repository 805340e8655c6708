# SPDX-License-Identifier: Apache-2.0
"""Tests of SSH access: the supervisor's SSH transport to Slurm, and its key for wallet users."""

import subprocess

import pytest
from tests.e2e.conftest import wait_until

SETTINGS = "/etc/gridstead/supervisor.toml"
UNIT = "gridstead-supervisor"
KEYS_FILE = "/etc/gridstead/supervisor_authorized_keys"
FETCH_KEYS = [
    "gridstead", "authorized-keys", "fetch",
    "--endpoint", "control:8446", "--ca", "/etc/gridstead/pki/ca.crt", "--output", KEYS_FILE,
]  # fmt: skip


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("ssh")


@pytest.fixture
def use_ssh_transport(lab):
    """Configure the supervisor to use the SSH transport, and restore its settings afterwards."""
    lab.sh(
        "control",
        f"""sed -i.before 's/^transport = "agent"$/transport = "ssh"/' {SETTINGS}
        grep -q '^transport = "ssh"$' {SETTINGS}
        gridstead check-config supervisor
        systemctl restart {UNIT}""",
    )
    yield
    lab.sh("control", f"mv {SETTINGS}.before {SETTINGS}; systemctl restart {UNIT}")


@pytest.fixture(scope="module")
def wallet_user(grid, lab, customer):
    """Return the address of a customer. A job has run, so the login host knows the user."""
    number = grid.submit(customer, "true")
    grid.wait(customer, number, "FINISHED")
    wait_until(
        lambda: lab.run("login", "test", "-s", KEYS_FILE, check=False).returncode == 0, timeout=60
    )
    return customer.address


def log_in(lab, user, *command):
    """Log in from the supervisor's host with the supervisor's key, as the supervisor does."""
    options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes"]
    options += ["UserKnownHostsFile=/etc/gridstead/ssh/known_hosts"]
    argv = ["ssh", "-i", "/etc/gridstead/ssh/supervisor"]
    for option in options:
        argv += ["-o", option]
    return lab.run("control", *argv, f"{user}@login", *command, check=False)


def test_jobs_run_and_are_settled_over_ssh(grid, lab, customer, stop_unit, use_ssh_transport):
    with stop_unit("controller", "gridstead-agent"):
        finished_job = grid.submit(customer, 'sleep 2; id -un >"$HOME/over-ssh"')
        failed_job = grid.submit(customer, "sleep 1; exit 3")
        cancelled_job = grid.submit(customer, "sleep 300")
        grid.wait(customer, cancelled_job, "RUNNING")
        customer.run("job", "cancel", str(cancelled_job))
        grid.wait(customer, finished_job, "FINISHED")
        grid.wait(customer, failed_job, "FAILED")
        grid.wait(customer, cancelled_job, "CANCELLED")

    job = grid.check_money(customer, finished_job)
    written_name = lab.run("infra", "cat", f"/home/ldap-users/{customer.address}/over-ssh").stdout
    assert written_name.strip() == customer.address
    assert grid.check_money(customer, failed_job)["exit_code"] == 3
    assert grid.check_money(customer, cancelled_job)["cost_wei"] > 0
    (record,) = lab.sacct(job["id"])
    assert record["user"] == customer.address


def test_the_supervisors_key_runs_a_command_as_a_wallet_user(lab, wallet_user):
    result = log_in(lab, wallet_user, "id", "-un")

    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == wallet_user


def test_the_supervisors_key_allows_no_terminal_and_no_forwarding(lab, wallet_user):
    result = log_in(lab, wallet_user, "echo", "$SSH_TTY")

    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""
    line = lab.run("login", "/usr/lib/gridstead/ssh/gridstead-authorized-keys", wallet_user).stdout
    assert line.startswith("restrict ssh-ed25519 ")


def test_an_authorized_keys_file_of_a_job_grants_no_access(grid, lab, customer, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    public_key = key.with_suffix(".pub").read_text().strip()
    command = (
        f"mkdir -p -m 700 ~/.ssh; (umask 077; echo '{public_key}' >~/.ssh/authorized_keys); "
        "cat ~/.ssh/authorized_keys"
    )
    grid.wait(customer, grid.submit(customer, command), "FINISHED")
    argv = ["ssh", "-F", lab.folder / "ssh_config", "-i", key, "-o", "BatchMode=yes"]
    argv += ["-l", customer.address]

    for host in lab.hosts:
        login = subprocess.run([*argv, host, "id"], check=False, capture_output=True, text=True)

        assert login.returncode == 255, host
        assert "Permission denied (publickey)" in login.stderr, host


def test_the_supervisors_key_does_not_allow_a_login_as_root(lab, wallet_user):
    result = log_in(lab, "root", "id")

    assert result.returncode == 255
    assert "Permission denied" in result.stderr


def test_a_login_host_retains_its_keys_while_the_supervisor_is_down(lab, stop_unit, wallet_user):
    keys_before = lab.run("login", "cat", KEYS_FILE).stdout
    with stop_unit("control", UNIT):
        result = lab.run("login", *FETCH_KEYS, check=False)

        assert result.returncode == 75
        assert "could not fetch keys from control:8446" in result.stderr
        assert lab.run("login", "cat", KEYS_FILE).stdout == keys_before
        assert log_in(lab, wallet_user, "true").returncode == 0


def test_the_authorized_keys_service_restores_a_removed_key_of_the_supervisor(lab, wallet_user):
    expected = lab.run("control", "cat", "/etc/gridstead/ssh/supervisor.pub").stdout
    lab.run("login", "rm", KEYS_FILE)

    lab.run("login", "systemctl", "start", "gridstead-authorized-keys.service")

    assert lab.run("login", "cat", KEYS_FILE).stdout == expected
    timer = lab.run("login", "systemctl", "is-active", "gridstead-authorized-keys.timer")
    assert timer.stdout.strip() == "active"
