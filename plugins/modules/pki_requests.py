# SPDX-License-Identifier: Apache-2.0
"""Creates the private keys of a host, and signing requests for its missing certificates.

One call of the module handles all certificates of a host, so that only one connection to the host
is needed. The module does not sign, because the key of the authority is never copied to a host.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DOCUMENTATION = """
module: pki_requests
short_description: Create private keys and request certificates
description:
  - Writes the authority's certificate, and one private key for each certificate.
  - Returns a signing request for each certificate that is missing, expires soon, or is no longer
    valid for the host.
options:
  directory: {type: path, required: true, description: Folder of the keys and certificates.}
  authority:
    type: str
    required: true
    description: Certificate of the authority in PEM, followed by the certificates of other
      authorities that the host trusts.
  certificates:
    type: list
    elements: dict
    required: true
    description: Name, owner and group of each certificate.
  subject_alt_names:
    type: list
    elements: str
    required: true
    description: C(DNS:name) or C(IP:address).
  renew_before_days:
    type: int
    required: true
    description: A certificate is requested again this number of days before it expires.
  new_keys:
    type: bool
    default: false
    description:
      - Whether all certificates are requested again with new keys. The file of a new key is
        C(NAME.key.next) until its certificate is installed.
"""
EXAMPLES = """
- name: Create the private keys
  gridstead.site.pki_requests:
    directory: /etc/gridstead/pki
    authority: "{{ lookup('ansible.builtin.file', 'ca.crt') }}"
    certificates: [{name: agent, owner: slurm, group: slurm}]
    subject_alt_names: [DNS:controller, IP:192.0.2.10]
    renew_before_days: 30
"""
RETURN = """
requests:
  type: list
  returned: always
  description: Name, owner, group, csr and reason of each request.
"""

CERTIFICATE_MODE = "0644"
KEY_MODE = "0640"


def general_names(names: list[str]) -> list[x509.GeneralName]:
    """Return names of the form ``DNS:name`` or ``IP:address`` as X.509 names, in order."""
    types = {"DNS": x509.DNSName, "IP": lambda text: x509.IPAddress(ipaddress.ip_address(text))}
    x509_names = []
    for name in names:
        name_type, _, text = name.partition(":")
        x509_names.append(types[name_type](text))
    return x509_names


def request(key: ec.EllipticCurvePrivateKey, common_name: str, names: list[str]) -> str:
    """Return a signing request in PEM for server and client use.

    Args:
        key: The private key.
        common_name: The common name of the certificate.
        names: The alternative names of the host.
    """
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .add_extension(x509.SubjectAlternativeName(general_names(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def reason_to_renew(
    pem: bytes,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    names: list[str],
    required_end: dt.datetime,
) -> str:
    """Return why a certificate must be signed again. Return "" if the certificate is valid.

    Args:
        pem: The certificate.
        key: The private key of the certificate.
        authority: The certificate of the authority that must have signed the certificate.
        names: The alternative names of the host, in any order.
        required_end: The time until which the certificate must be valid, with its time zone.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.verify_directly_issued_by(authority)
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except InvalidSignature:
        return "another authority signed it"
    except (ValueError, x509.ExtensionNotFound) as err:
        return f"it cannot be read: {err}"
    if certificate.public_key() != key.public_key():
        return "it belongs to another key"
    if set(extension.value) != set(general_names(names)):
        return "the host's names changed"
    if certificate.not_valid_after_utc < required_end:
        return f"it expires on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return ""


def ensure_file(
    module: AnsibleModule, path: Path, content: bytes, owner: str, group: str, mode: str
) -> bool:
    """Write a file if its content differs, set its access, and return whether anything changed."""
    is_changed = not path.exists() or path.read_bytes() != content
    if is_changed and not module.check_mode:
        write_whole(path, content)
    return set_access(module, path, owner, group, mode) or is_changed


def set_access(module: AnsibleModule, path: Path, owner: str, group: str, mode: str) -> bool:
    """Set owner, group and mode of a file that exists, and return whether anything changed."""
    if not path.exists():
        return False
    arguments = {
        "path": str(path),
        "owner": owner,
        "group": group,
        "mode": mode,
        "attributes": None,
    }
    arguments |= {"secontext": [None, None, None]}
    return bool(module.set_fs_attributes_if_different(arguments, changed=False))


def ensure_key(
    module: AnsibleModule, path: Path, owner: str, group: str
) -> tuple[ec.EllipticCurvePrivateKey, bool]:
    """Return the private key in a file, and whether anything changed. Create a missing key."""
    if path.exists():
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, password=None)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        encoding = (
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        content = key.private_bytes(*encoding)
    return key, ensure_file(module, path, content, owner, group, KEY_MODE)


def ensure_certificate(
    module: AnsibleModule, certificate: dict[str, str], authority: x509.Certificate
) -> tuple[dict[str, str] | None, bool]:
    """Return the signing request for a certificate, and whether anything changed.

    The request is None if the certificate on the host is valid.
    """
    options, directory = module.params, Path(module.params["directory"])
    name, owner, group = certificate["name"], certificate["owner"], certificate["group"]
    suffix = ".next" if options["new_keys"] else ""
    key, key_changed = ensure_key(module, directory / f"{name}.key{suffix}", owner, group)
    path = directory / f"{name}.crt"
    access_changed = set_access(module, path, owner, group, CERTIFICATE_MODE)
    names = options["subject_alt_names"]
    if options["new_keys"]:
        # The certificate is requested even if a valid one exists. An interrupted run may have
        # installed the certificate of the new key but not the new key.
        reason = "its key is new"
    elif path.exists():
        required_end = dt.datetime.now(dt.UTC) + dt.timedelta(days=options["renew_before_days"])
        reason = reason_to_renew(path.read_bytes(), key, authority, names, required_end)
    else:
        reason = "it is missing"
    is_changed = key_changed or access_changed
    if not reason:
        return None, is_changed
    new_request = {**certificate, "csr": request(key, name, names), "reason": reason}
    return new_request, is_changed


CERTIFICATE = {
    "name": {"type": "str", "required": True},
    "owner": {"default": "root"},
    "group": {"default": "root"},
}
ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "authority": {"type": "str", "required": True},
    "certificates": {"type": "list", "elements": "dict", "required": True, "options": CERTIFICATE},
    "subject_alt_names": {"type": "list", "elements": "str", "required": True},
    "renew_before_days": {"type": "int", "required": True},
    "new_keys": {"type": "bool", "default": False, "no_log": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(supports_check_mode=True, argument_spec=ARGUMENTS)
    authority_pem = (module.params["authority"].strip() + "\n").encode()
    authority = x509.load_pem_x509_certificate(authority_pem)
    path = Path(module.params["directory"]) / "ca.crt"
    changed = ensure_file(module, path, authority_pem, "root", "root", CERTIFICATE_MODE)
    requests = []
    for certificate in module.params["certificates"]:
        new_request, certificate_changed = ensure_certificate(module, certificate, authority)
        changed = changed or certificate_changed
        if new_request:
            requests.append(new_request)
    module.exit_json(changed=changed or bool(requests), requests=requests)


if __name__ == "__main__":
    main()
