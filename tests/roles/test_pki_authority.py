# SPDX-License-Identifier: Apache-2.0
"""The replacement of a CA: the trusted CAs and the signing CA at each step."""

import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.roles.catalogue import ROOT
from tests.roles.content import names_in, texts_below

pytestmark = pytest.mark.slow

# This playbook replaces a CA and writes the trusted CAs to a file after each step. The second
# imports of next_authority and change_authority must change nothing.
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    pki_authority_dir: "{{ playbook_dir }}/pki"
  tasks:
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: authority
    - ansible.builtin.copy:
        content: "{{ __pki_trusted_certificates }}"
        dest: "{{ playbook_dir }}/before"
        mode: "0600"
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: next_authority
    - ansible.builtin.copy:
        content: "{{ __pki_trusted_certificates }}"
        dest: "{{ playbook_dir }}/next"
        mode: "0600"
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: change_authority
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: next_authority
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: change_authority
    - ansible.builtin.copy:
        content: "{{ __pki_trusted_certificates }}"
        dest: "{{ playbook_dir }}/changed"
        mode: "0600"
    - ansible.builtin.copy:
        content: "{{ __pki_trusted_certificates }}"
        dest: "{{ playbook_dir }}/without_old"
        mode: "0600"
      vars:
        pki_trust_old: false
    - ansible.builtin.import_role:
        name: gridstead.site.pki
        tasks_from: forget_authority
    - ansible.builtin.copy:
        content: "{{ __pki_trusted_certificates }}"
        dest: "{{ playbook_dir }}/old_removed"
        mode: "0600"
"""
PUBLIC_PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder that contains the CA, and a file with the trusted CAs after each step."""
    folder = tmp_path_factory.mktemp("authority")
    (folder / "play.yml").write_text(PLAY)
    result = subprocess.run(
        ["ansible-playbook", "--inventory", "localhost,", folder / "play.yml"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def trusted_keys(folder, step):
    """Return the public keys of the CAs that hosts trust after a step. The signing CA is first."""
    text = (folder / step).read_text()
    certificates = x509.load_pem_x509_certificates(text.encode())
    # gRPC rejects the whole bundle if one certificate does not begin on its own line.
    assert text.splitlines().count("-----BEGIN CERTIFICATE-----") == len(certificates)
    return [certificate.public_key().public_bytes(*PUBLIC_PEM) for certificate in certificates]


def test_hosts_trust_the_next_and_the_old_ca_before_and_after_the_change(folder):
    (old_key,) = trusted_keys(folder, "before")
    signing_key, next_key = trusted_keys(folder, "next")

    assert signing_key == old_key
    assert next_key != old_key
    assert trusted_keys(folder, "changed") == [next_key, old_key]


def test_only_the_new_ca_is_trusted_at_the_end(folder):
    next_key = trusted_keys(folder, "next")[1]

    assert trusted_keys(folder, "without_old") == [next_key]
    assert trusted_keys(folder, "old_removed") == [next_key]
    assert names_in(folder / "pki") == {"ca.crt", "ca.key"}


def test_the_key_of_the_new_ca_is_retained(folder):
    key = serialization.load_pem_private_key((folder / "pki/ca.key").read_bytes(), password=None)

    assert trusted_keys(folder, "old_removed") == [key.public_key().public_bytes(*PUBLIC_PEM)]


# The files in the CA's folder after an interruption, in addition to ca.crt and next.crt.
INTERRUPTED = {
    "before the first step": {"next.key": "new"},
    "during the copy of the old certificate": {"next.key": "new", "old.crt.new": "o"},
    "after the copy of the old certificate": {"next.key": "new", "old.crt": "old"},
    "after the move of the new key": {"ca.key": "new", "old.crt": "old"},
}


@pytest.mark.parametrize("files", INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_the_next_run_completes_an_interrupted_change_of_the_ca(tmp_path, files):
    for name, text in {"ca.crt": "old", "next.crt": "new", **files}.items():
        (tmp_path / name).write_text(text)

    subprocess.run([ROOT / "roles/pki/files/change-authority.sh", tmp_path], check=True)

    assert texts_below(tmp_path) == {"ca.crt": "new", "ca.key": "new", "old.crt": "old"}
