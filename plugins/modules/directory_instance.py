# SPDX-License-Identifier: Apache-2.0
"""Creates an instance of 389 Directory Server and imports its certificate."""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: directory_instance
short_description: Create an instance of 389 Directory Server
description:
  - Creates and starts the instance if it does not exist. The tree of a new instance contains only
    its root entry. The directory manager gets a random password that is not stored. User root of
    the host has the rights of the directory manager over the server's local socket.
  - Imports the CA certificate, and the server's certificate with its key, into the key store of the
    instance. A certificate that the key store already contains is not imported again.
  - Reports a change if C(nsslapd-backend-opt-level) in dse.ldif has a value other than 0. With such
    a value the server does not store its replica update vector with each change. The drop-in of
    the server's systemd unit sets the value to 0 at the next start.
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  hostname:
    description: Host name of the server.
    type: str
    required: true
  suffix:
    description: Root of the tree.
    type: str
    required: true
  certificate:
    description: Certificate of the server, PEM.
    type: path
    required: true
  certificate_key:
    description: Key of the certificate, PEM.
    type: path
    required: true
  ca_certificate:
    description: Certificate of the authority, PEM.
    type: path
    required: true
  pending_changes_file:
    description:
      - A file that shows that the server must restart. The module creates the file before it
        imports a certificate, and if C(nsslapd-backend-opt-level) has a wrong value. While the file
        exists, the module reports a change. A handler restarts the server and removes the file.
    type: path
    required: true
author: Gridstead contributors
"""

EXAMPLES = r"""
- name: Create the directory of the site
  gridstead.site.directory_instance:
    name: site
    hostname: ldap1
    suffix: dc=example,dc=org
    certificate: /etc/ssl/ldap1.crt
    certificate_key: /etc/ssl/private/ldap1.key
    ca_certificate: /etc/ssl/ca.crt
    pending_changes_file: /var/lib/site/directory.unsettled
"""

RETURN = r"""
changes:
  description: "What changed: C(instance), C(authority), C(certificate), or C(start) if the server
    must restart to correct C(nsslapd-backend-opt-level)."
  type: list
  elements: str
  returned: always
"""

CONFIGURATION = Path("/etc/dirsrv")
SERVER_NICKNAME = "Server-Cert"
CA_NICKNAME = "Gridstead CA"
# A setting in dse.ldif with which the server may lose the record of its changes (see
# ``stores_update_vector``). The drop-in of the server's systemd unit sets it to 0.
UNSAFE_SETTING = re.compile(r"^nsslapd-backend-opt-level: (?!0$)", re.MULTILINE)
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def dscreate_answers(name: str, hostname: str, suffix: str, password: str) -> str:
    """Return the answer file for dscreate."""
    return f"""\
[general]
config_version = 2
full_machine_name = {hostname}
start = True
strict_host_checking = False
selinux = False
[slapd]
instance_name = {name}
root_password = {password}
port = 389
secure_port = 636
self_sign_cert = False
[backend-userroot]
suffix = {suffix}
create_suffix_entry = True
sample_entries = no
"""


def first_certificate(text: str) -> str:
    """Return the Base64 text of the first certificate in PEM text. Return "" if there is none."""
    _, _, text_after_begin = text.partition(BEGIN)
    base64_lines, end, _ = text_after_begin.partition(END)
    if not end:
        return ""
    return "".join(base64_lines.split())


class Instance:
    """An instance of the directory server on this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._name = module.params["name"]
        self._folder = CONFIGURATION / f"slapd-{self._name}"
        self._pending_changes_file = Path(module.params["pending_changes_file"])

    def exists(self) -> bool:
        """Return whether the instance exists."""
        return (self._folder / "dse.ldif").exists()

    def create(self) -> None:
        """Create and start the instance."""
        params = self._module.params
        answers = dscreate_answers(
            self._name, params["hostname"], params["suffix"], secrets.token_urlsafe(32)
        )
        with tempfile.NamedTemporaryFile("w", suffix=".inf") as file:
            file.write(answers)
            file.flush()
            self._module.run_command(["dscreate", "from-file", file.name], check_rc=True)

    def has_certificate(self, nickname: str, path: str) -> bool:
        """Return whether the certificate ``nickname`` of the key store equals that in a file."""
        _, out, _ = self._module.run_command(
            ["certutil", "-L", "-d", str(self._folder), "-n", nickname, "-a"]
        )
        return first_certificate(out) == first_certificate(Path(path).read_text(encoding="ascii"))

    def import_authority(self, path: str) -> None:
        """Replace the CA certificate in the key store by the CA certificate in a file."""
        self.request_restart()
        folder = str(self._folder)
        store_options = ["-d", folder, "-n", CA_NICKNAME, "-f", f"{folder}/pwdfile.txt"]
        # In the first run, this command fails because the key store has no CA certificate yet.
        self._module.run_command(["certutil", "-D", *store_options])
        add = ["certutil", "-A", *store_options, "-t", "CT,,", "-a", "-i", path]
        self._module.run_command(add, check_rc=True)

    def import_server_certificate(self, certificate: str, key: str) -> None:
        """Import the server's certificate and key into the key store."""
        self.request_restart()
        command = ["dsctl", self._name, "tls", "import-server-key-cert", certificate, key]
        self._module.run_command(command, check_rc=True)

    def stores_update_vector(self) -> bool:
        """Return whether the server stores its replica update vector with each change.

        The vector records which changes the server has. A server that stores the vector later can
        lose this record when it is killed.
        """
        return not UNSAFE_SETTING.search((self._folder / "dse.ldif").read_text(encoding="utf-8"))

    def request_restart(self) -> None:
        """Create the file that shows that the server must restart.

        A handler of the role removes the file after the restart.
        """
        self._pending_changes_file.parent.mkdir(parents=True, exist_ok=True)
        self._pending_changes_file.touch()


def ensure(instance: Instance, module: AnsibleModule) -> list[str]:
    """Create or change the instance, unless in check mode; return what was or would be changed."""
    params = module.params
    changes = []
    if not instance.exists():
        changes.append("instance")
        if module.check_mode:
            return changes
        instance.create()
    if not instance.has_certificate(CA_NICKNAME, params["ca_certificate"]):
        changes.append("authority")
        if not module.check_mode:
            instance.import_authority(params["ca_certificate"])
    if not instance.has_certificate(SERVER_NICKNAME, params["certificate"]):
        changes.append("certificate")
        if not module.check_mode:
            instance.import_server_certificate(params["certificate"], params["certificate_key"])
    if not instance.stores_update_vector():
        changes.append("start")
        if not module.check_mode:
            instance.request_restart()
    return changes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "hostname": {"type": "str", "required": True},
            "suffix": {"type": "str", "required": True},
            "certificate": {"type": "path", "required": True},
            "certificate_key": {"type": "path", "required": True, "no_log": False},
            "ca_certificate": {"type": "path", "required": True},
            "pending_changes_file": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        changes = ensure(Instance(module), module)
    except OSError as error:
        module.fail_json(msg=f"could not read {error.filename}: {error.strerror}")
    module.exit_json(
        changed=bool(changes) or Path(module.params["pending_changes_file"]).exists(),
        changes=changes,
    )


if __name__ == "__main__":
    main()
