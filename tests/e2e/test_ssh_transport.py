# SPDX-License-Identifier: Apache-2.0
"""The way over ssh: the supervisor's own into Slurm, and its key for wallet users on the login
host.
"""

import subprocess

import pytest
from tests.e2e.conftest import wait_until

SETTINGS = "/etc/gridstead/supervisor.toml"
UNIT = "gridstead-supervisor"
KEYS = "/etc/gridstead/supervisor_authorized_keys"
FETCH = [
    "gridstead", "authorized-keys", "fetch",
    "--endpoint", "control:8446", "--ca", "/etc/gridstead/pki/ca.crt", "--output", KEYS,
]  # fmt: skip


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("ssh")


@pytest.fixture
def over_ssh(lab):
    """The supervisor goes over ssh, as its settings say."""
    lab.sh(
        "control",
        f"""sed -i.before 's/^transport = "agent"$/transport = "ssh"/' {SETTINGS}
        grep -q '^transport = "ssh"$' {SETTINGS}; gridstead check-config supervisor; systemctl restart {UNIT}""",
    )
    yield
    lab.sh("control", f"mv {SETTINGS}.before {SETTINGS}; systemctl restart {UNIT}")


@pytest.fixture(scope="module")
def wallet_user(grid, lab, someone):
    """A customer who has an account on the login host, because of a job."""
    number = grid.submit(someone, "true")
    grid.wait(someone, number, "FINISHED")
    wait_until(
        lambda: lab.run("login", "test", "-s", KEYS, check=False).returncode == 0, timeout=60
    )
    return someone.address


def log_in(lab, user, *command):
    """Log in from the supervisor's host with its key, as the supervisor would."""
    options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes"]
    options += ["UserKnownHostsFile=/etc/gridstead/ssh/known_hosts"]
    flags = [word for option in options for word in ("-o", option)]
    return lab.run(
        "control",
        "ssh",
        "-i",
        "/etc/gridstead/ssh/supervisor",
        *flags,
        f"{user}@login",
        *command,
        check=False,
    )


def test_a_job_goes_the_whole_way_over_ssh(grid, lab, someone, stopped, over_ssh):
    with stopped("controller", "gridstead-agent"):
        finished = grid.submit(someone, 'sleep 2; id -un >"$HOME/over-ssh"')
        failed = grid.submit(someone, "sleep 1; exit 3")
        cancelled = grid.submit(someone, "sleep 300")
        grid.wait(someone, cancelled, "RUNNING")
        someone.run("job", "cancel", str(cancelled))
        grid.wait(someone, finished, "FINISHED")
        grid.wait(someone, failed, "FAILED")
        grid.wait(someone, cancelled, "CANCELLED")

    job = grid.check_money(someone, finished)
    assert (
        lab.run("infra", "cat", f"/home/ldap-users/{someone.address}/over-ssh").stdout.strip()
        == someone.address
    )
    assert grid.check_money(someone, failed)["exit_code"] == 3
    assert grid.check_money(someone, cancelled)["cost_wei"] > 0
    (record,) = lab.sacct(job["id"])
    assert record["user"] == someone.address


def test_the_supervisors_key_opens_a_wallet_users_account_for_a_command(lab, wallet_user):
    done = log_in(lab, wallet_user, "id", "-un")

    assert (done.returncode, done.stdout.strip()) == (0, wallet_user), done.stderr


def test_the_supervisors_key_opens_no_terminal_and_no_forwarding(lab, wallet_user):
    done = log_in(lab, wallet_user, "echo", "$SSH_TTY")

    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
    line = lab.run("login", "/usr/lib/gridstead/ssh/gridstead-authorized-keys", wallet_user).stdout
    assert line.startswith("restrict ssh-ed25519 ")


def test_a_key_that_a_job_wrote_opens_no_host(grid, lab, someone, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    own = key.with_suffix(".pub").read_text().strip()
    command = f"mkdir -p -m 700 ~/.ssh; (umask 077; echo '{own}' >~/.ssh/authorized_keys); cat ~/.ssh/authorized_keys"
    grid.wait(someone, grid.submit(someone, command), "FINISHED")
    log_in_as = [
        "ssh",
        "-F",
        lab.folder / "ssh_config",
        "-i",
        key,
        "-o",
        "BatchMode=yes",
        "-l",
        someone.address,
    ]

    done = {
        host: subprocess.run([*log_in_as, host, "id"], check=False, capture_output=True, text=True)
        for host in lab.hosts
    }

    assert {host: one.returncode for host, one in done.items()} == dict.fromkeys(lab.hosts, 255)
    assert [
        host for host, one in done.items() if "Permission denied (publickey)" not in one.stderr
    ] == []


def test_the_supervisors_key_does_not_open_root(lab, wallet_user):
    done = log_in(lab, "root", "id")

    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_a_login_host_keeps_the_keys_it_has_while_the_supervisor_is_away(lab, stopped, wallet_user):
    before = lab.run("login", "cat", KEYS).stdout
    with stopped("control", UNIT):
        done = lab.run("login", *FETCH, check=False)

        assert done.returncode == 75
        assert "could not fetch keys from control:8446" in done.stderr
        assert lab.run("login", "cat", KEYS).stdout == before
        assert log_in(lab, wallet_user, "true").returncode == 0


def test_the_timers_service_puts_the_supervisors_key_where_it_was(lab, wallet_user):
    expected = lab.run("control", "cat", "/etc/gridstead/ssh/supervisor.pub").stdout
    lab.run("login", "rm", KEYS)

    lab.run("login", "systemctl", "start", "gridstead-authorized-keys.service")

    assert lab.run("login", "cat", KEYS).stdout == expected
    assert (
        lab.run("login", "systemctl", "is-active", "gridstead-authorized-keys.timer").stdout.strip()
        == "active"
    )
