# SPDX-License-Identifier: Apache-2.0
"""The files of role slurm_plugins implement the meaning of its variables."""

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
def written(site: LoadedInventory) -> Callable[..., str]:
    """Return a template on the example's controller, with changed variables."""

    def render(name: str, **variables: object) -> str:
        (host,) = site.inventory.get_hosts("controller")
        templar = site.templar(ROLE, host.name)
        templar.available_variables = {**templar.available_variables, **variables}
        text = trust_as_template((ROLE.path / "templates" / name).read_text())
        return str(templar.template(text, convert_data=False))

    return render


def answer(guard: str, *, uid: int, gid: int) -> int:
    """Return the plugin's answer to root for a job with its job key."""
    lua = shutil.which("lua5.1")
    assert lua, "lua5.1 is not installed (plugins/slurm/requirements.apt)"
    request = f'{{ user_id = {uid}, group_id = {gid}, admin_comment = "{JOB_KEY}" }}'
    program = f"{FAKE_SLURM}\n{guard}\nos.exit(slurm_job_submit({request}, nil, 0) == slurm.SUCCESS and 0 or 1)"
    return subprocess.run(
        [lua, "-"], input=program, text=True, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize(
    ("uid", "gid", "expected"),
    [(4999, 77, 1), (5000, 77, 0), (5999, 77, 0), (6000, 77, 1), (5000, 100000, 1)],
)
def test_job_submit_accepts_the_roles_wallets(
    written: Callable[..., str], uid: int, gid: int, expected: int
):
    guard = written(
        "etc/slurm/job_submit.lua.j2",
        slurm_plugins_wallets={"uid_min": 5000, "uid_max": 5999, "gid": 77},
    )

    assert answer(guard, uid=uid, gid=gid) == expected


@pytest.mark.parametrize(
    ("uid", "gid", "expected"), [(900, 901, 0), (902, 903, 0), (900, 903, 1), (904, 904, 1)]
)
def test_job_submit_accepts_the_roles_extra_accounts(
    written: Callable[..., str], uid: int, gid: int, expected: int
):
    accounts = [{"uid": 900, "gid": 901}, {"uid": 902, "gid": 903}]

    assert answer(
        written("etc/slurm/job_submit.lua.j2", slurm_plugins_extra_accounts=accounts),
        uid=uid,
        gid=gid,
    ) == (expected)


@pytest.mark.parametrize(
    ("address", "word"), [("10.0.0.2", "10.0.0.2:7000"), ("fd00::2", "[fd00::2]:7000")]
)
def test_nodes_report_to_the_agent(written: Callable[..., str], address: str, word: str):
    text = written(
        "etc/slurm/plugstack.conf.j2",
        slurm_plugins_agent_address=address,
        slurm_plugins_agent_port=7000,
    ).splitlines()

    assert text[-1] == f"optional /usr/lib/gridstead/spank/gridstead.so agent={word}"


@pytest.mark.parametrize("off", [False, "false", "no"])
def test_nodes_load_no_plugin_without_reports(written: Callable[..., str], off: object):
    lines = written("etc/slurm/plugstack.conf.j2", slurm_plugins_reports=off).splitlines()

    assert [line for line in lines if not line.startswith("#")] == []
