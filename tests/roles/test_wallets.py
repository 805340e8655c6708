# SPDX-License-Identifier: Apache-2.0
"""Role control_plane creates and records wallets. It replaces a lost wallet only on request."""

import json
import subprocess
import sys

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.filter import wallets
from tests.roles.catalogue import ROOT, Role
from tests.roles.content import imported_playbooks
from tests.roles.modules import run_module

pytestmark = pytest.mark.slow

OWN, OTHER = "0x" + 40 * "a", "0x" + 40 * "b"
# A fake command gridstead that creates a wallet with a random address.
COMMAND = """\
#!{python}
import json, pathlib, secrets, sys
file = pathlib.Path(sys.argv[sys.argv.index("--keystore") + 1])
file.write_text(json.dumps({{"address": secrets.token_hex(20), "version": 3}}))
"""


class Host:
    """This machine as a host of role control_plane and as the control machine."""

    def __init__(self, folder):
        self.folder = folder
        self.keystore = folder / "wallets/supervisor.json"
        self.record = folder / "secrets/wallet-supervisor.address"
        (folder / "next/bin").mkdir(parents=True)
        command = folder / "next/bin/gridstead"
        command.write_text(COMMAND.format(python=sys.executable))
        command.chmod(0o755)
        self.keystore.parent.mkdir()

    def create_wallet(self, address):
        """Create the host's wallet, but not its record on the control machine."""
        self.keystore.write_text(json.dumps({"address": address.removeprefix("0x"), "version": 3}))

    def record_wallet(self, address):
        """Record a wallet on the control machine, as an earlier run would."""
        self.record.parent.mkdir(exist_ok=True)
        self.record.write_text(f"{address}\n")

    def run(self, *options, tasks_from="secrets"):
        """Run an entry point of the role and return the result of Ansible."""
        variables = {
            "__control_plane_keystores": str(self.keystore.parent),
            "__control_plane_next": str(self.folder / "next"),
            "ansible_python_interpreter": sys.executable,
            "control_plane_wallets": {"supervisor": "supervisor.password"},
            "control_plane_wallet_notes": {"supervisor": str(self.record)},
        }
        role = {"name": "gridstead.site.control_plane", "tasks_from": tasks_from}
        tasks = [{"ansible.builtin.import_role": role}]
        play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
        path = self.folder / "play.yml"
        path.write_text(yaml.safe_dump([play]))
        argv = ["ansible-playbook", "--inventory=localhost,", path, "-e", json.dumps(variables)]
        argv += ["-e", "ansible_connection=local", *options]
        return subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )

    def files(self):
        """Return the content of the files that must not change."""
        files = (self.keystore, self.record)
        return {file.name: file.read_text() for file in files if file.exists()}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.mark.parametrize("tasks_from", ["wallets", "secrets"])
@pytest.mark.parametrize("address", [None, OTHER])
def test_a_host_without_its_recorded_wallet_is_refused(address, tasks_from, host):
    host.record_wallet(OWN)
    if address:
        host.create_wallet(address)
    before = host.files()

    result = host.run(tasks_from=tasks_from)

    output = " ".join(result.stdout.split())
    assert result.returncode == 2, result.stdout
    assert f"localhost has lost the recorded wallet supervisor {OWN}." in output
    assert "docs/howto/backup.md" in output
    assert "-e control_plane_new_wallets=true" in output
    assert host.files() == before


def test_check_mode_refuses_a_lost_wallet(host):
    host.record_wallet(OWN)

    assert host.run("--check").returncode == 2


def test_a_new_wallet_is_created_and_recorded_on_request(host):
    host.record_wallet(OWN)

    result = host.run("-e", "control_plane_new_wallets=true")

    assert result.returncode == 0, result.stdout
    address = "0x" + json.loads(host.keystore.read_text())["address"]
    assert address != OWN
    assert host.record.read_text() == f"{address}\n"


def test_the_first_run_records_a_new_wallet_and_the_second_changes_nothing(host):
    result = host.run()

    assert result.returncode == 0, result.stdout
    before = host.files()
    address = "0x" + json.loads(before["supervisor.json"])["address"]
    assert before["wallet-supervisor.address"] == f"{address}\n"
    assert host.record.stat().st_mode & 0o777 == 0o600
    assert host.record.parent.stat().st_mode & 0o777 == 0o700
    assert "changed=0" in host.run().stdout
    assert host.files() == before


def test_a_wallet_is_not_changed_if_the_site_lost_its_secrets(host):
    host.create_wallet(OWN)

    result = host.run(tasks_from="wallets")

    output = " ".join(result.stdout.split())
    assert result.returncode == 2, result.stdout
    assert (
        "localhost has the wallets supervisor, but the directory of the site's secrets,"
        f" {host.record.parent}, is empty or missing." in output
    )
    assert host.files().keys() == {"supervisor.json"}


def test_the_next_run_records_a_wallet_that_an_interrupted_run_created(host):
    host.create_wallet(OWN)
    host.record.parent.mkdir()
    (host.record.parent / "wallet-supervisor").touch()

    result = host.run()

    assert result.returncode == 0, result.stdout
    assert json.loads(host.keystore.read_text())["address"] == OWN.removeprefix("0x")
    assert host.record.read_text() == f"{OWN}\n"


def test_check_mode_on_a_new_host_predicts_wallet_and_record(host):
    result = host.run("--check")

    assert result.returncode == 0, result.stdout
    assert "changed=3" in result.stdout
    assert host.files() == {}


def test_site_yml_checks_for_lost_wallets_before_it_changes_a_host():
    """Playbook wallets has the check. The playbooks before it change no host."""
    names = imported_playbooks("site")

    assert set(names[: names.index("wallets")]) == {"validate", "wheel"}


def test_each_host_of_a_group_has_its_own_record(site):
    records = {}
    for host in ("control", "infra"):
        templar = site.templar(Role("control_plane"), host, group_names=["grid"])
        variables = templar.available_variables
        records[host] = templar.template(variables["control_plane_wallet_notes"])
        assert records[host].keys() == templar.template(variables["control_plane_wallets"]).keys()

    assert records["control"] != records["infra"]


@pytest.mark.parametrize(
    ("address", "expected"), [(OWN.removeprefix("0x"), OWN), (OWN, OWN), ("0x" + 40 * "A", OWN)]
)
def test_the_address_of_a_wallet_is_read_from_its_key_file(address, expected, tmp_path):
    (tmp_path / "supervisor.json").write_text(json.dumps({"address": address}))

    assert read_addresses(tmp_path, "supervisor", "admin")["addresses"] == {"supervisor": expected}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"address": "0x12"}', '{"address": null}', "\0"])
def test_a_key_file_without_an_address_is_reported_with_its_path(text, tmp_path):
    (tmp_path / "supervisor.json").write_text(text)

    result = read_addresses(tmp_path, "supervisor")

    assert result["failed"]
    assert f"{tmp_path}/supervisor.json is not a key file of a wallet" in result["msg"]


def read_addresses(folder, *names):
    """Return the result of module wallet_addresses."""
    arguments = {"folder": str(folder), "names": list(names)}
    return run_module(ROOT / "plugins/modules/wallet_addresses.py", arguments, tmp=folder / "tmp")


def test_a_wallet_without_a_record_is_recorded_and_not_lost(tmp_path):
    records = {"supervisor": str(tmp_path / "supervisor"), "admin": str(tmp_path / "admin")}
    (tmp_path / "admin").write_text(f"{OWN}\n")
    addresses = {"supervisor": OTHER, "admin": OWN}

    assert wallets.lost_wallets(records, addresses) == {}
    assert wallets.unnoted_wallets(records, addresses) == ["supervisor"]
    assert wallets.unnoted_wallets(records, {}) == ["supervisor", "admin"]
