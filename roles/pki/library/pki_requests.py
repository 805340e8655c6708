# SPDX-License-Identifier: Apache-2.0
"""Keep a host's private keys and ask for the certificates it lacks.

One module call instead of a key, a request and a check task per certificate: a site has a dozen
certificates and a second run should cost one round trip per host. Signing is not done here; the
authority's key never visits a host.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DOCUMENTATION = """
module: pki_requests
short_description: Keep private keys and list certificates to sign
description:
  - Writes the authority's certificate and one private key per certificate.
  - Returns a signing request for each certificate that is absent, ends soon, or no longer fits.
options:
  directory: {type: path, required: true, description: Where keys and certificates are.}
  authority:
    type: str
    required: true
    description: The authority's certificate in PEM; after it, those of others that the host trusts as well.
  certificates: {type: list, elements: dict, required: true, description: Name, owner and group of each.}
  subject_alt_names: {type: list, elements: str, required: true, description: As C(DNS:name) or C(IP:address).}
  renew_before_days: {type: int, required: true, description: A certificate ending sooner is asked for again.}
  new_keys:
    type: bool
    default: false
    description:
      - Whether every certificate is asked for again, with a new key, which waits for it as C(NAME.key.next).
"""
EXAMPLES = """
- name: Ensure the private keys exist
  pki_requests:
    directory: /etc/gridstead/pki
    authority: "{{ lookup('ansible.builtin.file', 'ca.crt') }}"
    certificates: [{name: agent, owner: slurm, group: slurm}]
    subject_alt_names: [DNS:controller, IP:192.0.2.10]
    renew_before_days: 30
"""
RETURN = """
requests: {type: list, returned: always, description: Name, owner, group, csr and reason of each certificate to sign.}
"""

CERTIFICATE_MODE = "0644"
KEY_MODE = "0640"


def general_names(names: list[str]) -> list[x509.GeneralName]:
    """Return the X.509 form of names written as ``DNS:name`` or ``IP:address``, in the same order."""
    kinds = {"DNS": x509.DNSName, "IP": lambda text: x509.IPAddress(ipaddress.ip_address(text))}
    return [kinds[kind](text) for kind, _, text in (name.partition(":") for name in names)]


def request(key: ec.EllipticCurvePrivateKey, name: str, names: list[str]) -> str:
    """Return a signing request in PEM for server and client use."""
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_extension(x509.SubjectAlternativeName(general_names(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def reason_to_renew(
    pem: bytes,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    names: list[str],
    end: dt.datetime,
) -> str:
    """Return why a certificate must be signed again, or an empty text.

    Args:
        pem: The certificate.
        key: The key it must belong to.
        authority: Who must have signed it.
        names: The alternative names it must carry, in any order.
        end: It must be valid until then. Aware, UTC.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except InvalidSignature:
        return "another authority signed it"
    except (ValueError, x509.ExtensionNotFound) as err:
        return f"it cannot be read: {err}"
    if certificate.public_key() != key.public_key():
        return "it belongs to another key"
    if set(found) != set(general_names(names)):
        return "the host's names changed"
    if certificate.not_valid_after_utc < end:
        return f"it ends {certificate.not_valid_after_utc:%Y-%m-%d}"
    return ""


def ensure_file(
    module: AnsibleModule, path: Path, content: bytes, owner: str, group: str, mode: str
) -> bool:
    """Write a file unless it holds this already, set who may read it, and return whether anything
    changed.
    """
    changed = not path.exists() or path.read_bytes() != content
    if changed and not module.check_mode:
        write_whole(path, content)
    return set_access(module, path, owner, group, mode) or changed


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
    """Return the private key in a file, made when absent, and whether anything changed."""
    if path.exists():
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, password=None)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        form = (
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        content = key.private_bytes(*form)
    return key, ensure_file(module, path, content, owner, group, KEY_MODE)


def main() -> None:
    """Run as an Ansible module."""
    entry = {
        "name": {"type": "str", "required": True},
        "owner": {"default": "root"},
        "group": {"default": "root"},
    }
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "directory": {"type": "path", "required": True},
            "authority": {"type": "str", "required": True},
            "certificates": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": entry,
            },
            "subject_alt_names": {"type": "list", "elements": "str", "required": True},
            "renew_before_days": {"type": "int", "required": True},
            "new_keys": {"type": "bool", "default": False, "no_log": False},
        },
    )
    options = module.params
    directory, names = Path(options["directory"]), options["subject_alt_names"]
    authority_pem = (options["authority"].strip() + "\n").encode()
    authority = x509.load_pem_x509_certificate(authority_pem)
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=options["renew_before_days"])
    changed = ensure_file(
        module, directory / "ca.crt", authority_pem, "root", "root", CERTIFICATE_MODE
    )
    requests = []
    for certificate in options["certificates"]:
        name, owner, group = (certificate[field] for field in ("name", "owner", "group"))
        waiting = ".next" if options["new_keys"] else ""
        key, key_changed = ensure_key(module, directory / f"{name}.key{waiting}", owner, group)
        path = directory / f"{name}.crt"
        access_changed = set_access(module, path, owner, group, CERTIFICATE_MODE)
        changed = changed or key_changed or access_changed
        if options["new_keys"]:
            # Also if the certificate is this key's: the run that brought it ended before the key
            # was in its place.
            reason = "its key is new"
        else:
            reason = (
                reason_to_renew(path.read_bytes(), key, authority, names, end)
                if path.exists()
                else "it is absent"
            )
        if reason:
            requests.append({**certificate, "csr": request(key, name, names), "reason": reason})
    module.exit_json(changed=changed or bool(requests), requests=requests)


if __name__ == "__main__":
    main()
