# SPDX-License-Identifier: Apache-2.0
"""Tests that no output shows the keys and passwords in URLs of the control plane's settings."""

import subprocess
import sys

import pytest
from ansible.template import trust_as_template
from ansible_collections.gridstead.site.plugins.filter import secret as secret_filter
from tests.roles.catalogue import Role
from tests.yaml_files import read_yaml

ROLE = Role("control_plane")
KEY = "3f9c0ffee"
RPC_URL = f"http://127.0.0.1:1/v3/{KEY}"
STATE_URL = f"postgresql+psycopg://grid:{KEY}@db/scripts"


@pytest.mark.parametrize(
    ("settings", "is_secret"),
    [
        ({"state_url": STATE_URL}, True),
        ({"state_url": f"postgresql+psycopg://grid:{KEY}/@db/scripts"}, True),
        ({"state_url": f"postgresql+psycopg:///scripts?password={KEY}"}, True),
        ({"chain": {"rpc_url": RPC_URL}}, True),
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
def test_settings_whose_url_may_contain_a_secret_are_recognised(settings, is_secret):
    assert secret_filter.holds_secret(settings) is is_secret


@pytest.mark.parametrize(
    ("state_url", "rpc_url", "diff_mode", "shown"),
    [
        (None, None, True, ["job-definitions", "supervisor"]),
        (None, None, False, []),
        (STATE_URL, None, True, ["supervisor"]),
        (None, RPC_URL, True, []),
    ],
)
def test_a_difference_of_settings_is_shown_if_the_settings_contain_no_secret(
    state_url, rpc_url, diff_mode, shown, site
):
    tasks = read_yaml(ROLE.path / "tasks/configure.yml")
    (task,) = (task for task in tasks if task.get("register") == "__control_plane_settings_result")
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0], ansible_diff_mode=diff_mode)
    variables = templar.available_variables
    if rpc_url:
        variables["gridstead_chain"] = {**variables["gridstead_chain"], "rpc_url": rpc_url}
    settings = templar.template(variables["control_plane_settings"])
    if state_url:
        settings["job-definitions"]["state_url"] = state_url
    variables["control_plane_settings"] = settings

    services_with_diff = []
    for service in ("job-definitions", "supervisor"):
        variables["__control_plane_item"] = service
        if templar.template(trust_as_template(task["diff"])):
            services_with_diff.append(service)

    assert services_with_diff == shown


def test_the_command_line_of_the_chain_check_contains_no_api_key(site):
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    variables = templar.available_variables
    variables["gridstead_chain"] = {**variables["gridstead_chain"], "rpc_url": RPC_URL}
    variables["ansible_search_path"] = [str(ROLE.path)]

    check = templar.template(variables["__control_plane_chain_check"])

    assert KEY not in str(check)
    assert check["argv"][-1] == "/etc/gridstead/supervisor.toml"


def test_the_chain_check_does_not_print_the_endpoint(tmp_path):
    settings = tmp_path / "supervisor.toml"
    settings.write_text(f'[chain]\nrpc_url = "{RPC_URL}"\n')

    argv = [sys.executable, ROLE.path / "files/ask-chain.py", settings]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={})

    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "no answer: ConnectError\n"


def test_the_chain_check_reports_missing_settings(tmp_path):
    argv = [sys.executable, ROLE.path / "files/ask-chain.py", tmp_path / "supervisor.toml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={})

    assert result.returncode == 1
    assert result.stderr == f"cannot read {tmp_path}/supervisor.toml: FileNotFoundError\n"
