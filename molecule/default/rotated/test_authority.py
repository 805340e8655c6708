# SPDX-License-Identifier: Apache-2.0
"""Tests that authority.yml replaces the site's CA in two steps while a paid job writes to its log.

The job starts between the two steps. It writes to its log before and after the second step.
"""

import socket
import ssl

import pytest

PORTS = (8443, 8445, 8447)  # the ports for customers: job definitions, logs, queue
WAITING_COMMAND = 'echo {0}; until test -e "$HOME/{0}"; do sleep 0.5; done'
# The two runs of the playbook take most of this time.
pytestmark = pytest.mark.timeout(1200)


class CaReader:
    """A reader of the CA that the site uses and of the CAs that hosts and customers trust."""

    def __init__(self, lab):
        self._lab = lab

    def site_ca(self):
        """Return the CA certificate that the site uses."""
        return (self._lab.secrets / "pki" / "ca.crt").read_text()

    def trusted_cas(self):
        """Return the different texts of the hosts' CA files; one text if all files are equal."""
        texts = set()
        for host in self._lab.hosts:
            texts.add(self._lab.sh(host, "cat /etc/gridstead/pki/ca.crt"))
        return texts

    def verified_ports(self, ca):
        """Return the ports whose certificate a customer can verify with only this CA."""
        context = ssl.create_default_context(cadata=ca)
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


def test_jobs_and_customers_keep_working_while_the_ca_is_replaced(lab, grid, run_playbook):
    cas = CaReader(lab)
    customer = grid.customer("trusting")
    storage = lab.group("storage")[0]
    home = f"/home/ldap-users/{customer.address}"
    old_ca = cas.site_ca()

    code, output = run_playbook("authority", "--tags", "trust")

    assert code == 0, output
    new_ca = (lab.secrets / "pki" / "next.crt").read_text()
    (trusted_cas,) = cas.trusted_cas()
    assert old_ca in trusted_cas
    assert new_ca in trusted_cas
    assert cas.site_ca() == old_ca
    assert cas.verified_ports(old_ca) == list(PORTS)
    assert cas.verified_ports(new_ca) == []
    number = grid.submit(
        customer, f"{WAITING_COMMAND.format('exchanged')}; echo after", logging=True
    )
    grid.wait(customer, number, "RUNNING")

    code, output = run_playbook("authority")

    assert code == 0, output
    assert cas.site_ca() == new_ca
    assert cas.trusted_cas() == {new_ca}
    assert cas.verified_ports(old_ca) == []
    assert cas.verified_ports(new_ca) == list(PORTS)
    assert not (lab.secrets / "pki" / "next.crt").exists()
    lab.run(storage, "touch", f"{home}/exchanged")
    grid.wait(customer, number, "FINISHED")
    grid.check_money(customer, number)
    assert customer.run("job", "logs", str(number)).stdout == "exchanged\nafter\n"
