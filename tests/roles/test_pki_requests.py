# SPDX-License-Identifier: Apache-2.0
"""Module pki_requests: the conditions for a new certificate request."""

import datetime as dt
import subprocess
from functools import partial

import pytest
from ansible_collections.gridstead.site.plugins.modules import pki_requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module

REFERENCE_TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ALT_NAMES = ["DNS:controller", "DNS:localhost", "IP:192.0.2.10", "IP:127.0.0.1"]
CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(subject, public_key, signer, *, extensions=(), days=100) -> x509.Certificate:
    """Return a certificate that expires ``days`` days after REFERENCE_TIME.

    ``signer`` is the key that signs the certificate.
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(CA_NAME)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(REFERENCE_TIME - dt.timedelta(days=1))
        .not_valid_after(REFERENCE_TIME + dt.timedelta(days=days))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256())


@pytest.fixture(scope="module")
def authority_key():
    return make_key()


@pytest.fixture(scope="module")
def authority(authority_key):
    return certificate(CA_NAME, authority_key.public_key(), authority_key, days=3650)


@pytest.fixture
def service_key():
    return make_key()


def sign_request(service_key, authority_key, *, days=100) -> bytes:
    """Return a PEM certificate for a service key, signed by the CA as the module requests it."""
    request = x509.load_pem_x509_csr(pki_requests.request(service_key, "agent", ALT_NAMES).encode())
    signed_certificate = certificate(
        request.subject,
        request.public_key(),
        authority_key,
        extensions=[extension.value for extension in request.extensions],
        days=days,
    )
    return signed_certificate.public_bytes(serialization.Encoding.PEM)


def test_a_matching_certificate_is_retained(service_key, authority_key, authority):
    pem = sign_request(service_key, authority_key)

    assert (
        pki_requests.reason_to_renew(pem, service_key, authority, ALT_NAMES, REFERENCE_TIME) == ""
    )


def test_the_order_of_names_does_not_matter(service_key, authority_key, authority):
    pem = sign_request(service_key, authority_key)

    assert (
        pki_requests.reason_to_renew(pem, service_key, authority, ALT_NAMES[::-1], REFERENCE_TIME)
        == ""
    )


def test_a_certificate_of_another_ca_is_renewed(service_key, authority):
    pem = sign_request(service_key, make_key())

    assert (
        pki_requests.reason_to_renew(pem, service_key, authority, ALT_NAMES, REFERENCE_TIME)
        == "another authority signed it"
    )


def test_a_damaged_certificate_is_renewed(service_key, authority):
    assert pki_requests.reason_to_renew(
        b"nothing", service_key, authority, ALT_NAMES, REFERENCE_TIME
    ).startswith("it cannot be read")


def test_a_certificate_of_another_key_is_renewed(service_key, authority_key, authority):
    pem = sign_request(service_key, authority_key)

    assert (
        pki_requests.reason_to_renew(pem, make_key(), authority, ALT_NAMES, REFERENCE_TIME)
        == "it belongs to another key"
    )


def test_a_certificate_for_an_old_address_is_renewed(service_key, authority_key, authority):
    pem = sign_request(service_key, authority_key)

    reason = pki_requests.reason_to_renew(
        pem, service_key, authority, [*ALT_NAMES[:2], "IP:192.0.2.99"], REFERENCE_TIME
    )

    assert reason == "the host's names changed"


def test_a_certificate_that_expires_soon_is_renewed(service_key, authority_key, authority):
    pem = sign_request(service_key, authority_key, days=59)
    required_end = REFERENCE_TIME + dt.timedelta(days=60)

    reason = pki_requests.reason_to_renew(pem, service_key, authority, ALT_NAMES, required_end)

    assert reason == "it expires on 2026-03-01"


def test_a_certificate_is_requested_again_if_its_key_was_not_installed(
    authority_key, authority, tmp_path
):
    """A run ended after it had installed the new certificate and before it installed the new key.

    The certificate on the host does not belong to the key on the host, so the module must request
    another certificate.
    """
    entry = {"name": "agent", "owner": "root", "group": "root"}
    arguments = {
        "directory": str(tmp_path),
        "certificates": [entry],
        "subject_alt_names": ALT_NAMES,
        "new_keys": True,
        # Negative, so that the module never renews a certificate because of its age.
        "renew_before_days": -10_000,
        "authority": authority.public_bytes(serialization.Encoding.PEM).decode(),
    }
    run_pki_requests = partial(
        run_module, ROOT / "plugins/modules/pki_requests.py", arguments, tmp=tmp_path / "tmp"
    )
    assert run_pki_requests()["requests"]
    next_key = serialization.load_pem_private_key(
        (tmp_path / "agent.key.next").read_bytes(), password=None
    )
    (tmp_path / "agent.crt").write_bytes(sign_request(next_key, authority_key))

    (request,) = run_pki_requests()["requests"]

    assert (request["name"], request["reason"]) == ("agent", "its key is new")


def test_a_request_asks_for_a_certificate_for_servers_and_clients(service_key):
    request = x509.load_pem_x509_csr(pki_requests.request(service_key, "agent", ALT_NAMES).encode())

    usage = request.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


CHECK_CERTIFICATES = ROOT / "roles/pki/files/usr/local/sbin/gridstead-look-at-certificates"


# The certificate of agent expires between 30 and 31 days from now.
@pytest.mark.parametrize(("days", "expected_files", "code"), [(31, ["agent.crt"], 1), (29, [], 0)])
def test_certificates_that_expire_soon_are_reported(
    authority_key, tmp_path, days, expected_files, code
):
    # certificate() counts the days from REFERENCE_TIME.
    past_days = (dt.datetime.now(dt.UTC) - REFERENCE_TIME).days
    for name, days_left in (("agent", 30), ("logger", 300)):
        valid_days = past_days + days_left + 1
        signed_certificate = certificate(
            CA_NAME, authority_key.public_key(), authority_key, days=valid_days
        )
        (tmp_path / f"{name}.crt").write_bytes(
            signed_certificate.public_bytes(serialization.Encoding.PEM)
        )

    result = subprocess.run(
        [CHECK_CERTIFICATES, str(days), *sorted(tmp_path.glob("*.crt"))],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == code
    reported_files = []
    for line in result.stdout.splitlines():
        path, _, end = line.partition(": notAfter=")
        if end:
            reported_files.append(path)
    assert reported_files == [str(tmp_path / name) for name in expected_files]
    has_instruction = "Run on the Ansible controller" in result.stdout
    assert has_instruction == bool(expected_files)
