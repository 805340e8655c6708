# SPDX-License-Identifier: Apache-2.0
"""Tests of the program that the login node's sshd calls for the authorized keys of a user."""

import os
import subprocess

import pytest

WALLET = "0x" + "a1" * 20
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8cX9zq1fGhZ2oYv3mJ7l0bqg4tq3k0h5Q8mP1d9sYz supervisor"


@pytest.fixture
def list_keys(plugins_dir, tmp_path):
    """A function that runs the program for a user, with a file of the supervisor's keys."""
    program = plugins_dir / "authorized-keys" / "gridstead-authorized-keys"
    file = tmp_path / "keys"

    def run(*arguments, content=KEY + "\n"):
        if content is not None:
            file.write_text(content)
        return subprocess.run(
            [program, *arguments, file], capture_output=True, text=True, check=False
        )

    return run


# User names that are not the address of a wallet.
NOT_WALLETS = [
    "root",
    "operator",
    "nobody",
    "0x",
    WALLET.upper(),
    "0x" + "A1" * 20,
    WALLET[:-1],
    WALLET + "0",
    WALLET + "\nroot",
    "root\n" + WALLET,
    " " + WALLET,
    "0x" + "g1" * 20,
    "$(id)",
    "-n",
]


@pytest.mark.parametrize("user", NOT_WALLETS)
def test_user_that_is_not_a_wallet_gets_no_key(list_keys, user):
    result = list_keys(user)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_call_without_a_user_name_is_an_error(plugins_dir):
    program = plugins_dir / "authorized-keys" / "gridstead-authorized-keys"

    result = subprocess.run([program], capture_output=True, text=True, check=False)

    assert result.returncode != 0
    assert result.stdout == ""


def test_a_missing_file_of_keys_is_an_error(list_keys):
    result = list_keys(WALLET, content=None)

    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot read" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# a comment",
        'command="/bin/sh" ' + KEY,
        "restrict " + KEY,
        " " + KEY,
        "ssh-dss AAAAB3NzaC1kc3M= old",
        "ssh-ed25519",
        "ssh-ed25519 !!!",
        "ssh-rsa-cert-v01@openssh.com AAAA",
    ],
)
def test_a_line_without_a_plain_key_is_skipped(list_keys, line):
    result = list_keys(WALLET, content=f"{line}\n{KEY}\n")

    assert (result.returncode, result.stdout) == (0, f"restrict {KEY}\n")


def test_a_wallet_gets_the_supervisors_key_with_restrictions(list_keys):
    assert list_keys(WALLET).stdout == f"restrict {KEY}\n"


def test_the_last_line_may_end_without_a_newline(list_keys):
    assert list_keys(WALLET, content=f"{KEY}\n{KEY}").stdout == f"restrict {KEY}\nrestrict {KEY}\n"


def test_the_output_is_valid_for_sshd(tool, list_keys, tmp_path):
    generate = [tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "supervisor"]
    subprocess.run([*generate, "-f", tmp_path / "id"], check=True)

    result = list_keys(WALLET, content=(tmp_path / "id.pub").read_text())
    listing = subprocess.run(
        [tool("ssh-keygen"), "-l", "-f", "-"],
        input=result.stdout,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "supervisor (ED25519)" in listing.stdout


def test_shellcheck_reports_nothing(tool, plugins_dir):
    program = plugins_dir / "authorized-keys" / "gridstead-authorized-keys"

    result = subprocess.run(
        [tool("shellcheck"), program], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_the_program_is_executable(plugins_dir):
    assert os.access(plugins_dir / "authorized-keys" / "gridstead-authorized-keys", os.X_OK)
