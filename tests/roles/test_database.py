# SPDX-License-Identifier: Apache-2.0
"""Settings that MariaDB refuses never replace the active settings."""

import shlex
import subprocess

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import roles

ROLE = next(role for role in roles() if role.name == "database")
# The words and exits of `mariadbd --help --verbose`, MariaDB 11.8.6 of Debian 13.
LIMITS = "2026-11-22 14:46:30 0 [Warning] Could not increase number of max_open_files to more than 1024 (request: 32184)"
UNKNOWN = "2026-11-22 14:46:30 0 [ERROR] /usr/sbin/mariadbd: unknown variable 'innodb_buffer_pool_sise=128M'"
DISABLED = (
    "2026-11-22 14:46:30 0 [ERROR] Parsing options for plugin 'InnoDB' failed. Disabling plugin"
)


@pytest.fixture
def check(site, tmp_path):
    """A function that validates a file with a fake mariadbd and returns exit code and output."""
    tasks = yaml.safe_load((ROLE.path / "tasks/configure.yml").read_text())
    (task,) = (
        task["ansible.builtin.template"] for task in tasks if "ansible.builtin.template" in task
    )
    server, seen, settings = tmp_path / "mariadbd", tmp_path / "seen", tmp_path / "90-gridstead.cnf"
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], ansible_search_path=[str(ROLE.path)])
    templar.available_variables["__database_server"] = str(server)

    def run(code, *lines):
        server.write_text(
            f"#!/bin/sh\necho \"$@\" >{seen}\necho help\nprintf '%s\\n' {shlex.join(lines)} >&2\nexit {code}\n"
        )
        server.chmod(0o755)
        argv = shlex.split(templar.template(trust_as_template(task["validate"])) % settings)
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert seen.read_text() == f"--defaults-file={settings} --user=mysql --help --verbose\n"
        return result.returncode, result.stderr

    return run


def test_an_unknown_mariadb_setting_is_refused_with_its_message(check):
    code, output = check(7, LIMITS, UNKNOWN)

    assert code != 0
    assert UNKNOWN in output


def test_a_value_that_would_disable_innodb_is_refused(check):
    assert check(0, LIMITS, DISABLED) == (1, f"{DISABLED}\n")


def test_a_valid_mariadb_configuration_is_accepted(check):
    assert check(0, LIMITS) == (0, "")
