# SPDX-License-Identifier: Apache-2.0
"""Role slurm_plugins: its variables decide what the plugins of Slurm accept and report."""

import shutil
import subprocess
from collections.abc import Callable

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import Role
from tests.roles.conftest import LoadedInventory

ROLE = Role("slurm_plugins")
JOB_KEY = f"179188/0x{'a1' * 20}/0x{'2f' * 32}/hash"
FAKE_SLURM = "slurm = { SUCCESS = 0, ERROR = -1, log_user = print, log_error = print }"


@pytest.fixture
def render_file(site: LoadedInventory) -> Callable[..., str]:
    """Return a function that renders a template for the controller of the example inventory.

    Keyword arguments of the function are variables that replace those of the inventory.
    """

    def render(name: str, **variables: object) -> str:
        templar = site.templar(ROLE, "controller")
        templar.available_variables = {**templar.available_variables, **variables}
        text = trust_as_template((ROLE.path / "templates" / name).read_text())
        return str(templar.template(text, convert_data=False))

    return render


def exit_code_of_submit(plugin: str, *, uid: int, gid: int) -> int:
    """Submit a job with a job key as root. Return 0 if the plugin accepts the job, otherwise 1."""
    lua = shutil.which("lua5.1")
    assert lua, "lua5.1 is not installed (plugins/slurm/requirements.apt)"
    request = f'{{ user_id = {uid}, group_id = {gid}, admin_comment = "{JOB_KEY}" }}'
    call = f"os.exit(slurm_job_submit({request}, nil, 0) == slurm.SUCCESS and 0 or 1)"
    program = f"{FAKE_SLURM}\n{plugin}\n{call}"
    result = subprocess.run([lua, "-"], input=program, text=True, capture_output=True, check=False)
    return result.returncode


@pytest.mark.parametrize(
    ("uid", "gid", "expected"),
    [(4999, 77, 1), (5000, 77, 0), (5999, 77, 0), (6000, 77, 1), (5000, 100000, 1)],
)
def test_job_submit_accepts_exactly_the_wallets_in_the_variables_of_the_role(
    render_file: Callable[..., str], uid: int, gid: int, expected: int
):
    plugin = render_file(
        "etc/slurm/job_submit.lua.j2",
        slurm_plugins_wallets={"uid_min": 5000, "uid_max": 5999, "gid": 77},
    )

    assert exit_code_of_submit(plugin, uid=uid, gid=gid) == expected


@pytest.mark.parametrize(
    ("uid", "gid", "expected"), [(900, 901, 0), (902, 903, 0), (900, 903, 1), (904, 904, 1)]
)
def test_job_submit_accepts_the_extra_accounts_in_the_variables_of_the_role(
    render_file: Callable[..., str], uid: int, gid: int, expected: int
):
    accounts = [{"uid": 900, "gid": 901}, {"uid": 902, "gid": 903}]

    plugin = render_file("etc/slurm/job_submit.lua.j2", slurm_plugins_extra_accounts=accounts)

    assert exit_code_of_submit(plugin, uid=uid, gid=gid) == expected


@pytest.mark.parametrize(
    ("address", "agent"), [("10.0.0.2", "10.0.0.2:7000"), ("fd00::2", "[fd00::2]:7000")]
)
def test_nodes_report_to_the_agent(render_file: Callable[..., str], address: str, agent: str):
    lines = render_file(
        "etc/slurm/plugstack.conf.j2",
        slurm_plugins_agent_address=address,
        slurm_plugins_agent_port=7000,
    ).splitlines()

    assert lines[-1] == f"optional /usr/lib/gridstead/spank/gridstead.so agent={agent}"


@pytest.mark.parametrize("value", [False, "false", "no"])
def test_nodes_load_no_plugin_if_reports_are_disabled(
    render_file: Callable[..., str], value: object
):
    lines = render_file("etc/slurm/plugstack.conf.j2", slurm_plugins_reports=value).splitlines()

    assert all(line.startswith("#") for line in lines)
