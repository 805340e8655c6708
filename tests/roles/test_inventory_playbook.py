# SPDX-License-Identifier: Apache-2.0
"""playbooks/validate.yml reports all mistakes of an inventory and changes nothing."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.roles.catalogue import ROOT
from tests.roles.inventories import copy_inventory, make_authority
from tests.yaml_files import read_yaml

# Program that runs ansible-playbook in a process that cannot import pydantic.
WITHOUT_PYDANTIC = """
import sys
sys.modules["pydantic"] = None
sys.argv[0] = "ansible-playbook"
from ansible.cli.playbook import main
main()
"""
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
VALIDATING_PLAYBOOKS = [path.name for path in PLAYBOOKS if ": validate.yml" in path.read_text()]


def run(folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["ansible-playbook", f"--inventory={folder}", ROOT / "playbooks" / name, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def ansible_inventory(folder: Path) -> dict[str, Any]:
    command = ["ansible-inventory", f"--inventory={folder}", "--list"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def validate(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "validate.yml")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the example inventory with an operator's values."""
    return copy_inventory("example", tmp_path / "site")


def test_the_playbook_reports_all_mistakes_and_changes_nothing(site, tmp_path):
    hosts = read_yaml(site / "hosts.yml")
    children = hosts["all"]["children"]
    children["slurm_compute"]["hosts"] |= {"Compute_3": {"ansible_host": "10.64.2.22"}}
    children["control_plane"]["hosts"] |= {"db": None}
    children["storage"]["hosts"] = children.pop("directory")["hosts"]
    (site / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (site / "group_vars/all/more.yml").write_text(
        "slurm_partition: {}\nshared_storage_backend: floppy\n"
    )
    before = sorted(tmp_path.rglob("*"))

    result = validate(site)

    assert result.returncode == 2
    report = result.stdout.partition("msg: |-")[2]
    assert "The inventory has 6 mistakes; no host was changed." in report
    for words in (
        (
            "group directory: 0 hosts. Allowed: one, or two that replicate."
            " To be fixed by the author of this inventory."
        ),
        "group control_plane: 2 hosts: control, db. Allowed: exactly one.",
        "host Compute_3: not a valid host name",
        "hosts Compute_3, compute2: all have the gridstead_address 10.64.2.22.",
        "did you mean slurm_partitions?",
        "must be one of: ",
    ):
        assert report.count(words) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["example", "single"])
def test_secrets_and_backup_files_are_not_read_as_inventory(name, tmp_path):
    site = copy_inventory(name, tmp_path / "site")
    hosts = ansible_inventory(site)["_meta"]["hostvars"]
    variables = next(iter(hosts.values()))
    for path in (variables["gridstead_secrets_dir"], variables["archive_dir"]):
        folder = site / Path(path).name
        (folder / "pki").mkdir(parents=True)
        (folder / "munge_key").write_text("secret\n")
        (folder / "pki/ca.key").write_text("-----BEGIN PRIVATE KEY-----\nsecret\n")

    assert set(ansible_inventory(site)["_meta"]["hostvars"]) == set(hosts)


@pytest.mark.parametrize("name", ["example", "single"])
def test_a_completed_copy_is_valid_and_the_example_is_not(name, tmp_path):
    result = validate(copy_inventory(name, tmp_path / "site"))
    example = validate(ROOT / "inventory" / name)

    assert result.returncode == 0, result.stdout
    assert example.returncode == 2
    assert "The inventory has 1 mistake; no host was changed." in example.stdout
    assert "1. the inventory: these values are still from the example: " in example.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", VALIDATING_PLAYBOOKS)
def test_every_playbook_checks_the_inventory_even_with_tags(name):
    result = run(ROOT / "inventory/example", name, "--list-tasks", "--tags=base_configure")

    assert result.returncode == 0, result.stderr
    assert "Check the inventory" in result.stdout


def test_a_mistake_stops_a_run_with_tags_before_any_change(site):
    (site / "group_vars/all/more.yml").write_text("slurm_partition: {}\n")

    result = run(site, "site.yml", "--tags=base_configure")

    assert result.returncode == 2
    assert "The inventory has 1 mistake; no host was changed." in result.stdout
    assert result.stdout.count("TASK [") == 1


@pytest.mark.parametrize(("name", "expected_code"), [("site.yml", 2), ("authority.yml", 0)])
def test_an_expired_ca_stops_every_run_except_the_run_that_replaces_it(
    name, expected_code, site, tmp_path
):
    begins = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    ends = dt.datetime(2021, 1, 1, tzinfo=dt.UTC)
    make_authority(site / ".secrets/pki", begins, ends)
    (site / ".secrets").chmod(0o700)
    # Run the play that imports validate.yml, with the variables of this play, and no other play.
    key = "ansible.builtin.import_playbook"
    plays = read_yaml(ROOT / "playbooks" / name)
    (check,) = (play for play in plays if play.get(key) == "validate.yml")
    check[key] = str(ROOT / "playbooks/validate.yml")
    (tmp_path / "playbook.yml").write_text(yaml.safe_dump([check]))

    result = run(site, str(tmp_path / "playbook.yml"))

    assert result.returncode == expected_code, result.stdout
    is_reported = "the authority expired on 2021-01-01" in result.stdout
    assert is_reported is (expected_code != 0)


def test_the_error_for_a_missing_package_contains_the_commands_that_install_it(site: Path):
    argv = [sys.executable, "-c", WITHOUT_PYDANTIC, f"--inventory={site}"]

    result = subprocess.run(
        [*argv, ROOT / "playbooks/validate.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    output = " ".join(result.stdout.split())
    assert result.returncode != 0
    assert f"needs package gridstead in {sys.executable}, but pydantic is missing." in output
    assert f"-m pip install --require-hashes -r {ROOT}/requirements/control.txt" in output
