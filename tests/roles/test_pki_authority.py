# SPDX-License-Identifier: Apache-2.0
"""The replacement of a CA: the trusted CAs and the signing CA at each step."""

import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.roles.catalogue import ROOT

PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  vars: {pki_authority_dir: "{{ playbook_dir }}/pki", ansible_python_interpreter: "{{ ansible_playbook_python }}"}
  tasks:
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: authority}
    - ansible.builtin.copy: {content: "{{ __pki_trusted }}", dest: "{{ playbook_dir }}/before", mode: "0600"}
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: next_authority}
    - ansible.builtin.copy: {content: "{{ __pki_trusted }}", dest: "{{ playbook_dir }}/next", mode: "0600"}
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: change_authority}
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: next_authority}
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: change_authority}
    - ansible.builtin.copy: {content: "{{ __pki_trusted }}", dest: "{{ playbook_dir }}/changed", mode: "0600"}
    - ansible.builtin.copy: {content: "{{ __pki_trusted }}", dest: "{{ playbook_dir }}/alone", mode: "0600"}
      vars: {pki_trust_old: false}
    - ansible.builtin.import_role: {name: gridstead.site.pki, tasks_from: forget_authority}
    - ansible.builtin.copy: {content: "{{ __pki_trusted }}", dest: "{{ playbook_dir }}/forgotten", mode: "0600"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority")
    (folder / "play.yml").write_text(PLAY)
    done = subprocess.run(
        ["ansible-playbook", "--inventory", "localhost,", folder / "play.yml"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def trusted(folder, step):
    """Return the keys of the CAs that hosts trust at a step. The first CA signs."""
    text = (folder / step).read_text()
    certificates = x509.load_pem_x509_certificates(text.encode())
    assert text.splitlines().count("-----BEGIN CERTIFICATE-----") == len(
        certificates
    )  # or gRPC takes none of them
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return [certificate.public_key().public_bytes(*form) for certificate in certificates]


def test_hosts_trust_the_next_ca_before_it_signs_and_the_old_ca_after(folder):
    (old,) = trusted(folder, "before")
    signs, following = trusted(folder, "next")

    assert signs == old != following
    assert trusted(folder, "changed") == [following, old]


def test_only_the_new_ca_is_trusted_at_the_end(folder):
    following = trusted(folder, "next")[1]

    assert trusted(folder, "alone") == trusted(folder, "forgotten") == [following]
    assert sorted(path.name for path in (folder / "pki").iterdir()) == ["ca.crt", "ca.key"]


def test_the_key_of_the_new_ca_is_retained(folder):
    key = serialization.load_pem_private_key((folder / "pki/ca.key").read_bytes(), password=None)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    assert trusted(folder, "forgotten") == [key.public_key().public_bytes(*form)]


@pytest.mark.parametrize("done", range(4))
def test_an_interrupted_change_continues(tmp_path, done):
    """The change is interrupted before the first step, after a partial copy, after the copy, and
    after the key.
    """
    (tmp_path / "ca.crt").write_text("old")
    (tmp_path / "next.crt").write_text("new")
    (tmp_path / ("ca.key" if done == 3 else "next.key")).write_text("new")
    if done:
        (tmp_path / ("old.crt.new" if done == 1 else "old.crt")).write_text(
            "o" if done == 1 else "old"
        )

    subprocess.run([ROOT / "roles/pki/files/change-authority.sh", tmp_path], check=True)

    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"ca.crt": "new", "ca.key": "new", "old.crt": "old"}
