# SPDX-License-Identifier: Apache-2.0
"""A CA of the operator: no run changes the CA, and an unusable CA causes one message."""

import datetime as dt
import itertools
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.authority import faults
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from tests.roles.catalogue import ROOT, Role

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()


def name(text):
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A site"),
            x509.NameAttribute(NameOID.COMMON_NAME, text),
        ]
    )


class AuthorityFolder:
    """A site's root CA and an intermediate CA, in the folder that role pki uses."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.root_key, self.key = (
            rsa.generate_private_key(65537, 2048),
            rsa.generate_private_key(65537, 2048),
        )
        self.root = self.signed(name("Root"), self.root_key)
        self.certificate = self.signed(name("Cluster"), self.key)
        folder.mkdir(mode=0o700)
        self.write()

    def signed(
        self, subject, key, *, ca=True, may_sign=True, ends=NOW + 3000 * DAY, begins=NOW - DAY
    ):
        made = x509.CertificateBuilder(
            name("Root"), subject, key.public_key(), x509.random_serial_number(), begins, ends
        )
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        names = (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
        )
        usage = dict.fromkeys((*names, "crl_sign", "encipher_only", "decipher_only"), False) | {
            "key_cert_sign": may_sign
        }
        return made.add_extension(x509.KeyUsage(**usage), critical=True).sign(
            self.root_key, hashes.SHA256()
        )

    def write(self, *chain, key=None, encryption=PLAIN, file="ca"):
        shown = chain or (self.certificate, self.root)
        (self.folder / f"{file}.crt").write_bytes(
            b"".join(item.public_bytes(PEM) for item in shown)
        )
        (self.folder / f"{file}.key").write_bytes(
            (key or self.key).private_bytes(PEM, PKCS8, encryption)
        )
        (self.folder / f"{file}.key").chmod(0o600)

    def renew(self, **other):
        self.write(self.signed(name("Cluster"), self.key, **other), self.root)

    def files(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def faults(self, **run):
        return [
            f"{where.name}: {fault}"
            for where, fault, _ in faults(self.folder, NOW, NOW + 60 * DAY, **run)
        ]


@pytest.fixture
def site(tmp_path):
    return AuthorityFolder(tmp_path / "pki")


def play(site, *tasks, **variables):
    """Run tasks of role pki and return Ansible's output."""
    path = site.folder.parent / "play.yml"
    given = {
        "pki_authority_dir": str(site.folder),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    content = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": given | variables,
    }
    path.write_text(yaml.safe_dump([content | {"tasks": list(tasks)}]))
    argv = ["ansible-playbook", "--inventory", "localhost,", path]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def part(tasks_from):
    return {"ansible.builtin.import_role": {"name": "gridstead.site.pki", "tasks_from": tasks_from}}


def test_a_run_does_not_change_the_operators_ca(site):
    before = site.files()

    result = play(site, part("authority"))

    assert result.returncode == 0, result.stdout
    assert "changed=0" in result.stdout
    assert site.files() == before


def test_a_changed_ca_name_applies_to_the_next_ca(tmp_path):
    site = AuthorityFolder(tmp_path / "pki")
    [path.unlink() for path in site.folder.iterdir()]
    assert play(site, part("authority")).returncode == 0
    before = site.files()

    assert play(site, part("authority"), pki_authority_name="Another").returncode == 0

    assert site.files() == before


def test_a_missing_ca_key_is_not_created(site):
    (site.folder / "ca.key").unlink()
    before = site.files()

    assert play(site, part("authority")).returncode != 0
    assert site.files() == before


def test_a_generated_ca_does_not_replace_the_operators_ca(site):
    before = site.files()

    result = play(site, part("next_authority"))

    assert result.returncode != 0
    assert "next.crt" in result.stdout
    assert site.files() == before


def test_the_operators_next_ca_replaces_the_old_ca(site):
    first = site.files()
    site.key = ec.generate_private_key(ec.SECP384R1())
    site.certificate = site.signed(name("Cluster 2"), site.key)
    site.write(file="next")
    brought = site.files()

    result = play(site, part("next_authority"), part("change_authority"))

    assert result.returncode == 0, result.stdout
    assert site.files() == {
        "ca.crt": brought["next.crt"],
        "ca.key": brought["next.key"],
        "old.crt": first["ca.crt"],
    }


def test_certificates_include_the_chain_up_to_the_root(site, tmp_path):
    """A client that trusts only the root can verify a service."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name("agent"))
        .sign(key, hashes.SHA256())
    )
    # The tasks of the role, as they are on a host that asks for one certificate.
    tasks = {
        task["name"]: task
        for task in yaml.safe_load((Role("pki").path / "tasks/configure.yml").read_text())
    }
    sign, put = (
        tasks["Sign the missing certificates"],
        tasks["Install the signed certificates"],
    )
    del put["ansible.builtin.copy"]["owner"], put["ansible.builtin.copy"]["group"]
    asked = {
        "name": "agent",
        "csr": request.public_bytes(PEM).decode(),
        "reason": "it is missing",
        "owner": "",
        "group": "",
    }
    here = {
        "__pki_directory": str(tmp_path),
        "__pki_requests_result": {"requests": [asked]},
        "pki_valid_days": 365,
    }

    result = play(site, part("forget_authority"), {"block": [sign, put], "vars": here})

    assert result.returncode == 0, result.stdout
    (tmp_path / "root.crt").write_bytes(site.root.public_bytes(PEM))
    shown = x509.load_pem_x509_certificates((tmp_path / "agent.crt").read_bytes())
    assert [item.subject for item in shown] == [name("agent"), name("Cluster")]
    argv = [
        "openssl",
        "verify",
        "-CAfile",
        tmp_path / "root.crt",
        "-untrusted",
        tmp_path / "agent.crt",
        tmp_path / "agent.crt",
    ]
    subprocess.run(argv, check=True, capture_output=True)


MISTAKES = {
    "no-certificate": (lambda s: (s.folder / "ca.crt").write_text("x"), "ca.crt: no certificate"),
    "no-key": (lambda s: (s.folder / "ca.key").unlink(), "ca.key: missing"),
    "key-is-none": (lambda s: (s.folder / "ca.key").write_text("x"), "ca.key: no private key"),
    "encrypted": (
        lambda s: s.write(encryption=serialization.BestAvailableEncryption(b"passphrase")),
        "ca.key: it is encrypted",
    ),
    "another-key": (lambda s: s.write(key=s.root_key), "ca.key: it is not the key of ca.crt"),
    "no-authority": (lambda s: s.renew(ca=False), "ca.crt: it may not sign"),
    "may-not-sign": (lambda s: s.renew(may_sign=False), "ca.crt: it may not sign"),
    "ended": (lambda s: s.renew(ends=NOW - DAY / 2), "ca.crt: the authority expired on"),
    "next-ends-soon": (
        lambda s: s.write(s.signed(name("Cluster"), s.key, ends=NOW + 20 * DAY), s.root, file="next"),
        "next.crt: the authority expires on",
    ),
    "begins-later": (
        lambda s: s.renew(begins=NOW + DAY),
        "ca.crt: it is valid from",
    ),
    "without-its-root": (lambda s: s.write(s.certificate), 'ca.crt: "CN=Root,O=A site", which signed the last'),
    "in-another-order": (lambda s: s.write(s.certificate, s.certificate, s.root), "ca.crt: number 2 did not sign"),
    "next-without-key": (
        lambda s: (s.write(file="next", key=s.root_key), (s.folder / "next.key").unlink()),
        "next.key: missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_unusable_ca_has_one_message(mistake, site):
    spoil, message = MISTAKES[mistake]

    spoil(site)

    (fault,) = site.faults()
    assert fault.startswith(message)


def test_an_expiring_ca_is_accepted(site):
    site.renew(ends=NOW + DAY)

    assert site.faults() == []


def test_an_expired_ca_is_accepted_by_its_replacement_run(site):
    site.renew(ends=NOW - DAY / 2)

    assert site.faults(exchanged=True) == []


def test_an_unsupported_key_type_has_one_message(site):
    key = ed25519.Ed25519PrivateKey.generate()
    site.write(site.signed(name("Cluster"), key), site.root, key=key)

    assert site.faults() == ["ca.key: neither an RSA nor an EC key"]


@pytest.mark.parametrize("steps", range(4))
def test_a_valid_ca_has_no_message_even_during_a_replacement(steps, site):
    """The files are those of an interrupted change-authority.sh."""
    assert site.faults() == []
    site.key = ec.generate_private_key(ec.SECP384R1())
    site.certificate = site.signed(name("Cluster 2"), site.key)
    site.write(file="next")
    moves = [("ca.crt", "old.crt"), ("next.key", "ca.key"), ("next.crt", "ca.crt")]

    for source, target in itertools.islice(moves, steps):
        (site.folder / target).write_bytes((site.folder / source).read_bytes())
        if source != "ca.crt":
            (site.folder / source).unlink()

    assert site.faults() == []
