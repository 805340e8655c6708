# SPDX-License-Identifier: Apache-2.0
"""Role database validates MariaDB's settings with mariadbd before it replaces them."""

import shlex
import subprocess

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import Role
from tests.roles.content import tasks_with
from tests.yaml_files import read_yaml

ROLE = Role("database")
# Messages of `mariadbd --help --verbose`, MariaDB 11.8.6 of Debian 13.
FILE_LIMIT = (
    "2026-11-22 14:46:30 0 [Warning] Could not increase number of max_open_files"
    " to more than 1024 (request: 32184)"
)
UNKNOWN_VARIABLE = (
    "2026-11-22 14:46:30 0 [ERROR] /usr/sbin/mariadbd: unknown variable"
    " 'innodb_buffer_pool_sise=128M'"
)
INNODB_DISABLED = (
    "2026-11-22 14:46:30 0 [ERROR] Parsing options for plugin 'InnoDB' failed. Disabling plugin"
)


@pytest.fixture
def validate(site, tmp_path):
    """Return a function that runs the role's validation of settings with a fake mariadbd.

    The function's arguments are the exit code and the messages of the fake mariadbd. It returns the
    exit code and the messages of the validation.
    """
    tasks = read_yaml(ROLE.path / "tasks/configure.yml")
    (task,) = tasks_with("ansible.builtin.template", tasks)
    command = task["ansible.builtin.template"]["validate"]
    server = tmp_path / "mariadbd"
    arguments = tmp_path / "arguments"
    settings = tmp_path / "90-gridstead.cnf"
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], ansible_search_path=[str(ROLE.path)])
    templar.available_variables["__database_program"] = str(server)

    def run(exit_code, *messages):
        server.write_text(
            "#!/bin/sh\n"
            f'echo "$@" >{arguments}\n'
            "echo help\n"
            f"printf '%s\\n' {shlex.join(messages)} >&2\n"
            f"exit {exit_code}\n"
        )
        server.chmod(0o755)
        argv = shlex.split(templar.template(trust_as_template(command)) % settings)
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert (
            arguments.read_text() == f"--defaults-file={settings} --user=mysql --help --verbose\n"
        )
        return result.returncode, result.stderr

    return run


def test_an_unknown_mariadb_setting_is_refused_with_its_message(validate):
    code, output = validate(7, FILE_LIMIT, UNKNOWN_VARIABLE)

    assert code != 0
    assert UNKNOWN_VARIABLE in output


def test_a_value_that_would_disable_innodb_is_refused(validate):
    assert validate(0, FILE_LIMIT, INNODB_DISABLED) == (1, f"{INNODB_DISABLED}\n")


def test_a_valid_mariadb_configuration_is_accepted(validate):
    assert validate(0, FILE_LIMIT) == (0, "")
