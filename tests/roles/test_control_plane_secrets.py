# SPDX-License-Identifier: Apache-2.0
"""Keys and passwords in URLs of the control plane's settings are not shown and not recorded."""

import subprocess
import sys

import pytest
import yaml
from ansible.template import trust_as_template
from ansible_collections.gridstead.site.plugins.filter import secret as secret_filter
from tests.roles.catalogue import roles

ROLE = next(role for role in roles() if role.name == "control_plane")
KEY = "3f9c0ffee"
RPC = f"http://127.0.0.1:1/v3/{KEY}"
STATE = f"postgresql+psycopg://grid:{KEY}@db/scripts"


@pytest.mark.parametrize(
    ("settings", "holds"),
    [
        ({"state_url": STATE}, True),
        ({"state_url": f"postgresql+psycopg://grid:{KEY}/@db/scripts"}, True),
        ({"state_url": f"postgresql+psycopg:///scripts?password={KEY}"}, True),
        ({"chain": {"rpc_url": RPC}}, True),
        ({"chain": {"rpc_url": f"https://rpc.grid.example?key={KEY}"}}, True),
        ({"peers": ["https://ash", {"url": f"https://{KEY}@birch"}]}, True),
        ({"chain": {"rpc_url": "https://[rpc"}}, True),
        ({"state_url": "sqlite:////var/lib/gridstead/agent/state.db"}, False),
        ({"chain": {"rpc_url": "http://127.0.0.1:8545/"}}, False),
        ({"url": "ldaps://infra", "web_origins": ["https://grid.example"]}, False),
        ({"queue_url": "https://grid.example/queue"}, False),
        ({"listen": "0.0.0.0:8443", "labels": {"zone": "a"}, "retries": 3, "proxies": None}, False),
    ],
)  # fmt: skip
def test_a_url_with_user_query_or_path_may_contain_a_secret(settings, holds):
    assert secret_filter.holds_secret(settings) is holds


@pytest.mark.parametrize(
    ("state", "rpc", "asked", "shown"),
    [
        (None, None, True, {"job-definitions", "supervisor"}),
        (None, None, False, set()),
        (STATE, None, True, {"supervisor"}),
        (None, RPC, True, set()),
    ],
)
def test_only_differences_of_settings_without_secrets_are_shown(state, rpc, asked, shown, site):
    tasks = yaml.safe_load((ROLE.path / "tasks/configure.yml").read_text())
    (task,) = (task for task in tasks if task.get("register") == "__control_plane_settings_result")
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], ansible_diff_mode=asked)
    known = templar.available_variables
    if rpc:
        known["gridstead_chain"] = {**known["gridstead_chain"], "rpc_url": rpc}
    settings = templar.template(known["control_plane_settings"])
    if state:
        settings["job-definitions"]["state_url"] = state
    known["control_plane_settings"] = settings

    shown_names = set()
    for name in ("job-definitions", "supervisor"):
        known["__control_plane_item"] = name
        shown_names |= {name} if templar.template(trust_as_template(task["diff"])) else set()

    assert shown_names == shown


def test_the_check_of_the_chain_has_no_key_in_its_command_line(site):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    known = templar.available_variables
    known["gridstead_chain"] = {**known["gridstead_chain"], "rpc_url": RPC}
    known["ansible_search_path"] = [str(ROLE.path)]

    asked = templar.template(known["__control_plane_chain_answers"])

    assert KEY not in str(asked)
    assert asked["argv"][-1] == "/etc/gridstead/supervisor.toml"


def test_the_check_uses_the_services_endpoint_and_does_not_print_it(tmp_path):
    settings = tmp_path / "supervisor.toml"
    settings.write_text(f'[chain]\nrpc_url = "{RPC}"\n')

    argv = [sys.executable, ROLE.path / "files/ask-chain.py", settings]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={})

    assert (result.returncode, result.stdout, result.stderr) == (1, "", "no answer: ConnectError\n")


def test_missing_settings_are_reported(tmp_path):
    argv = [sys.executable, ROLE.path / "files/ask-chain.py", tmp_path / "supervisor.toml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={})

    assert (result.returncode, result.stderr) == (
        1,
        f"cannot read {tmp_path}/supervisor.toml: FileNotFoundError\n",
    )
