# SPDX-License-Identifier: Apache-2.0
"""The certificate of the grid's CA: the check of the inventory, and the file on the hosts."""

import datetime as dt
import subprocess
import sys

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from tests.roles.catalogue import ROOT, Role
from tests.roles.conftest import trust_templates
from tests.roles.inventories import NOW
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

PKI = Role("pki")
CA_FILE = "/etc/gridstead/grid-ca.crt"


def certificate(ends=NOW + dt.timedelta(days=300)):
    """Return a self-signed certificate with an empty subject, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    begins = NOW - dt.timedelta(days=300)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begins, ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def write_ca_file(folder, text):
    """Run the task that writes the CA file, in ``folder``, and return Ansible's output."""
    tasks = read_yaml(PKI.path / "tasks/configure.yml")[:1]
    variables = PKI.vars | {
        "pki_grid_authority": text,
        "__pki_grid_authority": str(folder / "grid-ca.crt"),
        "ansible_python_interpreter": sys.executable,
    }
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "tasks": tasks,
    }
    path = folder / "play.yml"
    path.write_text(yaml.safe_dump([play]))
    argv = ["ansible-playbook", "--inventory=localhost,", path]
    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_ca_file_is_world_readable(tmp_path):
    file, text = tmp_path / "grid-ca.crt", certificate()

    write_ca_file(tmp_path, text.rstrip())
    assert file.read_text() == text
    assert file.stat().st_mode & 0o777 == 0o644
    assert "changed=0" in write_ca_file(tmp_path, text)


def test_the_ca_file_is_removed_if_no_certificate_is_set(tmp_path):
    file = tmp_path / "grid-ca.crt"
    write_ca_file(tmp_path, certificate())
    assert file.exists()

    write_ca_file(tmp_path, "")
    assert not file.exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ca_certificates": "PEM"}, CA_FILE),
        ({"ca_file": "/etc/ssl/certs/ca-certificates.crt"}, "/etc/ssl/certs/ca-certificates.crt"),
        ({}, "/etc/gridstead/pki/ca.crt"),
    ],
)
def test_the_supervisor_and_its_jobs_trust_the_ca(variables, expected, site):
    grid = site.templar(PKI, "control").available_variables["gridstead_grid"]
    grid = {key: value for key, value in grid.items() if key != "ca_file"} | variables
    templar = site.templar(Role("control_plane"), "control", gridstead_grid=grid)

    settings = templar.template(templar.available_variables["control_plane_settings"]["supervisor"])

    assert settings["job_definitions"]["ca_file"] == expected
    assert settings["logger_ca_file"] == expected


def test_every_host_gets_the_ca_file(site):
    assert PKI.vars["__pki_grid_authority"] == CA_FILE
    for host in ("control", "compute1"):
        templar = site.templar(PKI, host, gridstead_grid={"ca_certificates": "PEM"})
        assert templar.template(templar.available_variables["pki_grid_authority"]) == "PEM"


def test_verification_checks_the_ca_file_only_if_a_certificate_is_set(site):
    (task,) = read_yaml(PKI.path / "tasks/verify.yml")
    for text, checked_files in (("", []), ("PEM", [CA_FILE])):
        templar = site.templar(PKI, "control", pki_grid_authority=text)
        # Keep only the check of the CA file. The other checks of the role are in this variable.
        templar.available_variables |= {"__pki_commands": []}
        checks = templar.template(trust_templates(task["gridstead.site.inspection"]["commands"]))
        assert [check["argv"][-1] for check in checks] == checked_files


@pytest.fixture
def inventory(inventory):
    """The example inventory with an operator's values, but without the grid's CA."""
    inventory.set_grid(ca_file=None)
    return inventory


def test_a_valid_ca_certificate_is_accepted(inventory):
    inventory.set_grid(ca_certificates=certificate())

    assert inventory.problems() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (certificate(ends=NOW - dt.timedelta(days=1)), "a certificate expired on 2029-12-31"),
        (
            certificate() + certificate(ends=NOW - dt.timedelta(days=2)),
            "a certificate expired on 2029-12-30",
        ),
        (certificate() + "-----BEGIN PRIVATE KEY-----", "the text contains a private key"),
        ("", "not a certificate: "),
    ],
)
def test_an_invalid_ca_certificate_is_reported_in_one_message(text, message, inventory):
    inventory.set_grid(ca_certificates=text)

    (line,) = inventory.problems()
    assert line.startswith(f"gridstead_grid.ca_certificates: {message}")


def test_an_inventory_must_set_exactly_one_of_ca_certificates_and_ca_file(inventory):
    (message_without_ca,) = inventory.problems()
    inventory.set_grid(ca_certificates=certificate(), ca_file="/etc/ssl/certs/ca-certificates.crt")
    (message_with_two,) = inventory.problems()

    assert message_without_ca.startswith(
        "gridstead_grid.ca_certificates: this key and ca_file are both missing"
    )
    assert (
        "To be fixed by the author of this inventory, with values from the grid's operator"
        in message_without_ca
    )
    assert message_with_two.startswith(
        "gridstead_grid.ca_certificates: this key and ca_file are both set"
    )


def test_a_site_with_group_grid_needs_no_ca_certificate(inventory):
    inventory.set_group("grid", "infra")

    assert inventory.problems() == []
