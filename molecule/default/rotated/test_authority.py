# SPDX-License-Identifier: Apache-2.0
"""Test that the site's CA is replaced in two steps while a paid job writes to its log.

The job writes before the exchange, between the steps and afterwards.
"""

import socket
import ssl

import pytest

PORTS = (8443, 8445, 8447)  # the ports for customers: job definitions, logs, queue
STEP = 'echo {0}; until test -e "$HOME/{0}"; do sleep 0.5; done'
# The two runs of the playbook take most of the time, and longer on a busy machine.
pytestmark = pytest.mark.timeout(1200)


class AuthorityCheck:
    """Read which CA the site uses and which CA hosts and customers trust."""

    def __init__(self, lab):
        self._lab = lab

    def authority(self):
        """Return the CA certificate that the site uses."""
        return (self._lab.secrets / "pki" / "ca.crt").read_text()

    def trusted(self):
        """Return the set of the CA files of all hosts: one item if the files are equal."""
        texts = set()
        for host in self._lab.hosts:
            texts.add(self._lab.sh(host, "cat /etc/gridstead/pki/ca.crt"))
        return texts

    def verified_ports(self, authority):
        """Return the ports whose certificate a customer can verify with this CA alone."""
        context = ssl.create_default_context(cadata=authority)
        (host,) = self._lab.group("control_plane")
        address = self._lab.address(host)
        return [port for port in PORTS if self._verifies(context, address, port)]

    @staticmethod
    def _verifies(context, address, port):
        try:
            with (
                socket.create_connection((address, port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=address),
            ):
                return True
        except ssl.SSLCertVerificationError:
            return False


def test_the_ca_is_replaced_without_loss_for_jobs_and_customers(lab, grid, play):
    check, customer = AuthorityCheck(lab), grid.customer("trusting")
    storage, home = lab.group("storage")[0], f"/home/ldap-users/{customer.address}"
    old = check.authority()

    code, output = play("authority", "--tags", "trust")

    assert code == 0, output
    new = (lab.secrets / "pki" / "next.crt").read_text()
    (trusted,) = check.trusted()
    assert (old in trusted, new in trusted) == (True, True)
    assert check.authority() == old
    assert (check.verified_ports(old), check.verified_ports(new)) == (list(PORTS), [])
    number = grid.submit(customer, f"{STEP.format('exchanged')}; echo after", logging=True)
    grid.wait(customer, number, "RUNNING")

    code, output = play("authority")

    assert code == 0, output
    assert (check.authority(), check.trusted()) == (new, {new})
    assert (check.verified_ports(old), check.verified_ports(new)) == ([], list(PORTS))
    assert not (lab.secrets / "pki" / "next.crt").exists()
    lab.run(storage, "touch", f"{home}/exchanged")
    grid.wait(customer, number, "FINISHED")
    grid.check_money(customer, number)
    assert customer.run("job", "logs", str(number)).stdout == "exchanged\nafter\n"
