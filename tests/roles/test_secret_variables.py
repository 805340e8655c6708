# SPDX-License-Identifier: Apache-2.0
"""Tests of secrets in an inventory: white space around a secret, and the move to Ansible Vault.

The inventory check refuses white space around a secret. A page documents the command that moves a
secret to a vault.
"""

import re
import subprocess

import pytest
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.diagnostic import (
    Diagnostic,
)
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.inventory import (
    Host,
    Inventory,
)
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.vault_secrets import (
    check_secrets,
)
from tests.roles.catalogue import ROOT
from tests.roles.inventories import copy_inventory

PAGE = (ROOT / "inventory/README.md").read_text()
SECRET = "Zm9vYmFy"
# A variable is a secret if the wiring reads it from a file in gridstead_secrets_dir.
WIRING = {
    "munge_key": "{{ lookup('ansible.builtin.password', gridstead_secrets_dir ~ '/munge_key') }}",
    "munge_held_port": "6817",
}


def problems(**variables):
    """Return the problems of an inventory with two hosts and these variables."""
    hosts = {name: Host(name, WIRING | variables, None) for name in ("ash", "birch")}
    return list(check_secrets(Inventory({"all": list(hosts)}, hosts, "/srv/secrets"), WIRING))


@pytest.mark.parametrize("value", [f"{SECRET}\n", f" {SECRET}", f"{SECRET}\t"])
def test_the_refusal_of_a_secret_with_white_space_around_it_does_not_show_the_secret(value):
    (problem,) = problems(munge_key=value)

    assert isinstance(problem, Diagnostic)
    assert str(problem).startswith("variable munge_key of ash: begins or ends with white space")
    assert SECRET not in str(problem)


@pytest.mark.parametrize(
    "variables", [{}, {"munge_key": f"{SECRET}\n{SECRET}"}, {"munge_held_port": "6817\n"}]
)
def test_valid_secrets_and_other_variables_are_accepted(variables):
    assert problems(**variables) == []


@pytest.fixture
def vault(tmp_path, monkeypatch):
    """A folder with secrets that a test may move to Ansible Vault."""
    (tmp_path / "password").write_text("of the vault")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    return tmp_path


@pytest.mark.parametrize("text", [f"{SECRET}\n", f"{SECRET}\nolder\n"])
def test_the_documented_move_to_a_vault_does_not_change_a_secret(vault, text):
    """A secret may have several lines. An example is the file of keys for stored scripts."""
    (vault / ".secrets").mkdir()
    (vault / ".secrets/munge_key").write_text(text)
    (vault / "group_vars/all").mkdir(parents=True)
    (command,) = re.findall(r"^    (.*ansible-vault encrypt_string .*)$", PAGE, re.MULTILINE)

    subprocess.run(["bash", "-c", command], cwd=vault, check=True, capture_output=True)

    is_equal = "munge_key == lookup('ansible.builtin.password', '.secrets/munge_key')"
    argv = ["ansible", "localhost", "--inventory=localhost,", "-e", "@group_vars/all/vault.yml"]
    argv += ["-m", "assert", "-a", f'that="{is_equal}"']
    result = subprocess.run(argv, cwd=vault, check=False, capture_output=True, text=True)
    assert "All assertions passed" in result.stdout, result.stdout


def test_the_refusal_of_a_vaulted_secret_with_a_newline_does_not_show_the_secret(vault):
    argv = ["ansible-vault", "encrypt_string", "--stdin-name", "munge_key"]
    encryption = subprocess.run(
        argv, input=f"{SECRET}\n", check=True, capture_output=True, text=True
    )
    (vault / "vault.yml").write_text(encryption.stdout)

    site = copy_inventory("example", vault / "site")
    command = [
        "ansible-playbook",
        "-i",
        site,
        ROOT / "playbooks/validate.yml",
        "-e",
        f"@{vault / 'vault.yml'}",
    ]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    assert result.returncode == 2
    assert "The inventory has 1 mistake; no host was changed." in result.stdout
    assert "variable munge_key of controller: begins or ends with white space" in result.stdout
    assert SECRET not in result.stdout + result.stderr
