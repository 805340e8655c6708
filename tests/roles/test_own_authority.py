# SPDX-License-Identifier: Apache-2.0
"""Role pki with a CA that the operator created.

The role does not change this CA. The check of the inventory reports an unusable CA.
"""

import datetime as dt
import itertools
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.authority import (
    authority_faults,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from tests.roles.catalogue import ROOT, Role
from tests.roles.content import named, texts_below
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
UNENCRYPTED = serialization.NoEncryption()


def name(text):
    """Return a subject with a common name."""
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A site")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, text)])


class AuthorityFolder:
    """A root CA, and an intermediate CA in the folder that role pki uses.

    The operator has created both CAs. ``key`` and ``certificate`` are those of the intermediate CA,
    which signs the certificates of services.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.root_key = rsa.generate_private_key(65537, 2048)
        self.key = rsa.generate_private_key(65537, 2048)
        self.root = self.sign(name("Root"), self.root_key)
        self.certificate = self.sign(name("Cluster"), self.key)
        folder.mkdir(mode=0o700)
        self.write()

    def sign(
        self, subject, key, *, ca=True, may_sign=True, ends=NOW + 3000 * DAY, begins=NOW - DAY
    ):
        """Return a certificate for a key. The root CA signs the certificate."""
        builder = x509.CertificateBuilder(
            name("Root"), subject, key.public_key(), x509.random_serial_number(), begins, ends
        )
        constraints = x509.BasicConstraints(ca=ca, path_length=None)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=may_sign,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(constraints, critical=True)
        builder = builder.add_extension(usage, critical=True)
        return builder.sign(self.root_key, hashes.SHA256())

    def write(self, *chain, key=None, encryption=UNENCRYPTED, file="ca"):
        """Write a chain and a key; by default, those of the intermediate CA."""
        chain = chain or (self.certificate, self.root)
        key = key or self.key
        (self.folder / f"{file}.crt").write_bytes(
            b"".join(certificate.public_bytes(PEM) for certificate in chain)
        )
        (self.folder / f"{file}.key").write_bytes(key.private_bytes(PEM, PKCS8, encryption))
        (self.folder / f"{file}.key").chmod(0o600)

    def replace_certificate(self, **properties):
        """Replace the intermediate CA's certificate. ``properties`` are arguments of ``sign``."""
        self.write(self.sign(name("Cluster"), self.key, **properties), self.root)

    def files(self):
        """Return the text of each file by its name."""
        return texts_below(self.folder)

    def authority_faults(self, **options):
        """Return the messages of the inventory check about the CA."""
        diagnostics = authority_faults(self.folder, NOW, NOW + 60 * DAY, **options)
        return [f"{path.name}: {fault}" for path, fault, _ in diagnostics]


@pytest.fixture
def site(tmp_path):
    """The CAs of a site, created by its operator."""
    return AuthorityFolder(tmp_path / "pki")


def run_tasks(site, *tasks, **variables):
    """Run tasks of role pki and return the result of Ansible."""
    path = site.folder.parent / "play.yml"
    defaults = {
        "pki_authority_dir": str(site.folder),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": defaults | variables,
        "tasks": list(tasks),
    }
    path.write_text(yaml.safe_dump([play]))
    argv = ["ansible-playbook", "--inventory", "localhost,", path]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def import_role(tasks_from):
    """Return a task that imports an entry point of role pki."""
    return {"ansible.builtin.import_role": {"name": "gridstead.site.pki", "tasks_from": tasks_from}}


def test_a_run_does_not_change_the_operators_ca(site):
    before = site.files()

    result = run_tasks(site, import_role("authority"))

    assert result.returncode == 0, result.stdout
    assert "changed=0" in result.stdout
    assert site.files() == before


def test_a_changed_ca_name_does_not_change_the_existing_ca(tmp_path):
    site = AuthorityFolder(tmp_path / "pki")
    for path in site.folder.iterdir():
        path.unlink()
    assert run_tasks(site, import_role("authority")).returncode == 0
    before = site.files()

    assert run_tasks(site, import_role("authority"), pki_authority_name="Another").returncode == 0

    assert site.files() == before


def test_a_missing_ca_key_is_not_created(site):
    (site.folder / "ca.key").unlink()
    before = site.files()

    assert run_tasks(site, import_role("authority")).returncode != 0
    assert site.files() == before


def test_a_generated_ca_does_not_replace_the_operators_ca(site):
    before = site.files()

    result = run_tasks(site, import_role("next_authority"))

    assert result.returncode != 0
    assert "next.crt" in result.stdout
    assert site.files() == before


def test_the_operators_next_ca_replaces_the_old_ca(site):
    before = site.files()
    site.key = ec.generate_private_key(ec.SECP384R1())
    site.certificate = site.sign(name("Cluster 2"), site.key)
    site.write(file="next")
    files_with_next = site.files()

    result = run_tasks(site, import_role("next_authority"), import_role("change_authority"))

    assert result.returncode == 0, result.stdout
    assert site.files() == {
        "ca.crt": files_with_next["next.crt"],
        "ca.key": files_with_next["next.key"],
        "old.crt": before["ca.crt"],
    }


def test_certificates_include_the_chain_up_to_the_root(site, tmp_path):
    """A client that trusts only the root can verify a service."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name("agent"))
        .sign(key, hashes.SHA256())
    )
    # The tasks that the role runs on a host that requests one certificate.
    tasks = read_yaml(Role("pki").path / "tasks/configure.yml")
    sign = named("Sign the missing certificates", tasks)
    install = named("Install the signed certificates", tasks)
    del install["ansible.builtin.copy"]["owner"]
    del install["ansible.builtin.copy"]["group"]
    requested_certificate = {
        "name": "agent",
        "csr": request.public_bytes(PEM).decode(),
        "reason": "it is missing",
        "owner": "",
        "group": "",
    }
    variables = {
        "__pki_directory": str(tmp_path),
        "__pki_requests_result": {"requests": [requested_certificate]},
        "pki_valid_days": 365,
    }

    result = run_tasks(
        site, import_role("forget_authority"), {"block": [sign, install], "vars": variables}
    )

    assert result.returncode == 0, result.stdout
    (tmp_path / "root.crt").write_bytes(site.root.public_bytes(PEM))
    chain = x509.load_pem_x509_certificates((tmp_path / "agent.crt").read_bytes())
    assert [certificate.subject for certificate in chain] == [name("agent"), name("Cluster")]
    root, agent = tmp_path / "root.crt", tmp_path / "agent.crt"
    argv = ["openssl", "verify", "-CAfile", root, "-untrusted", agent, agent]
    subprocess.run(argv, check=True, capture_output=True)


# For each mistake: a function that makes the CA in a folder unusable, and the start of the message.
MISTAKES = {
    "no-certificate": (
        lambda s: (s.folder / "ca.crt").write_text("x"),
        "ca.crt: not a certificate",
    ),
    "no-key": (lambda s: (s.folder / "ca.key").unlink(), "ca.key: missing"),
    "invalid-key": (lambda s: (s.folder / "ca.key").write_text("x"), "ca.key: not a private key"),
    "encrypted": (
        lambda s: s.write(encryption=serialization.BestAvailableEncryption(b"passphrase")),
        "ca.key: the key is encrypted",
    ),
    "another-key": (lambda s: s.write(key=s.root_key), "ca.key: the key does not belong to ca.crt"),
    "not-a-ca": (lambda s: s.replace_certificate(ca=False), "ca.crt: the certificate may not sign"),
    "may-not-sign": (
        lambda s: s.replace_certificate(may_sign=False),
        "ca.crt: the certificate may not sign",
    ),
    "expired": (
        lambda s: s.replace_certificate(ends=NOW - DAY / 2),
        "ca.crt: the authority expired on",
    ),
    "next-expires-soon": (
        lambda s: s.write(s.sign(name("Cluster"), s.key, ends=NOW + 20 * DAY), s.root, file="next"),
        "next.crt: the authority expires on",
    ),
    "not-yet-valid": (
        lambda s: s.replace_certificate(begins=NOW + DAY),
        "ca.crt: the authority is not valid before",
    ),
    "without-its-root": (
        lambda s: s.write(s.certificate),
        'ca.crt: the certificate of "CN=Root,O=A site" is missing',
    ),
    "wrong-order": (
        lambda s: s.write(s.certificate, s.certificate, s.root),
        "ca.crt: certificate 2 in the file did not sign",
    ),
    "next-without-key": (
        lambda s: (s.write(file="next", key=s.root_key), (s.folder / "next.key").unlink()),
        "next.key: missing",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_unusable_ca_has_one_message(mistake, site):
    make_unusable, message = MISTAKES[mistake]

    make_unusable(site)

    (fault,) = site.authority_faults()
    assert fault.startswith(message)


def test_an_expiring_ca_is_accepted(site):
    site.replace_certificate(ends=NOW + DAY)

    assert site.authority_faults() == []


def test_an_expired_ca_is_accepted_by_its_replacement_run(site):
    site.replace_certificate(ends=NOW - DAY / 2)

    assert site.authority_faults(is_replaced=True) == []


def test_an_unsupported_key_type_has_one_message(site):
    key = ed25519.Ed25519PrivateKey.generate()
    site.write(site.sign(name("Cluster"), key), site.root, key=key)

    assert site.authority_faults() == ["ca.key: not an RSA or EC key"]


@pytest.mark.parametrize("move_count", range(4))
def test_a_valid_ca_has_no_message_even_during_a_replacement(move_count, site):
    """An interrupted change-authority.sh has made only the first ``move_count`` moves."""
    assert site.authority_faults() == []
    site.key = ec.generate_private_key(ec.SECP384R1())
    site.certificate = site.sign(name("Cluster 2"), site.key)
    site.write(file="next")
    moves = [("ca.crt", "old.crt"), ("next.key", "ca.key"), ("next.crt", "ca.crt")]

    for source, target in itertools.islice(moves, move_count):
        (site.folder / target).write_bytes((site.folder / source).read_bytes())
        if source != "ca.crt":
            (site.folder / source).unlink()

    assert site.authority_faults() == []
