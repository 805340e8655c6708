# SPDX-License-Identifier: Apache-2.0
"""The site's authority is exchanged in two steps, under a paid job that writes its log before,
between and after.
"""

import socket
import ssl

import pytest

PORTS = (8443, 8445, 8447)  # where customers ask: job definitions, logs, queue
STEP = 'echo {0}; until test -e "$HOME/{0}"; do sleep 0.5; done'
# What takes long are the two runs of the playbook, and those as long as the machine is busy.
pytestmark = pytest.mark.timeout(1200)


class Site:
    """The site's authority, as hosts trust it and as customers do."""

    def __init__(self, lab):
        self._lab = lab

    def authority(self):
        """Return the certificate that is in use."""
        return (self._lab.secrets / "pki" / "ca.crt").read_text()

    def trusted(self):
        """Return what each host trusts, as a set of files: one if they agree."""
        return {self._lab.sh(host, "cat /etc/gridstead/pki/ca.crt") for host in self._lab.hosts}

    def believed(self, authority):
        """Return the ports at which a customer who trusts this authority alone finds whom it
        vouches for.
        """
        context = ssl.create_default_context(cadata=authority)
        (host,) = self._lab.group("control_plane")
        return [port for port in PORTS if self._answers(context, self._lab.address(host), port)]

    @staticmethod
    def _answers(context, address, port):
        try:
            with (
                socket.create_connection((address, port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=address),
            ):
                return True
        except ssl.SSLCertVerificationError:
            return False


def test_jobs_and_customers_hardly_see_that_the_authority_is_another(lab, grid, play):
    site, customer = Site(lab), grid.customer("trusting")
    storage, home = lab.group("storage")[0], f"/home/ldap-users/{customer.address}"
    old = site.authority()

    code, said = play("authority", "--tags", "trust")

    assert code == 0, said
    new = (lab.secrets / "pki" / "next.crt").read_text()
    (trusted,) = site.trusted()
    assert (old in trusted, new in trusted) == (True, True)
    assert (site.authority(), site.believed(old), site.believed(new)) == (old, list(PORTS), [])
    number = grid.submit(customer, f"{STEP.format('exchanged')}; echo after", logging=True)
    grid.wait(customer, number, "RUNNING")

    code, said = play("authority")

    assert code == 0, said
    assert (site.authority(), site.trusted()) == (new, {new})
    assert (site.believed(old), site.believed(new)) == ([], list(PORTS))
    assert not (lab.secrets / "pki" / "next.crt").exists()
    lab.run(storage, "touch", f"{home}/exchanged")
    grid.wait(customer, number, "FINISHED")
    grid.check_money(customer, number)
    assert customer.run("job", "logs", str(number)).stdout == "exchanged\nafter\n"
