# SPDX-License-Identifier: Apache-2.0
"""What serves the shared storage knows its files before a client mounts, whichever run wrote them."""

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import Role

ROLE = Role("shared_storage")


def tasks(name):
    return yaml.safe_load((ROLE.path / "tasks" / name).read_text())


def daemons(site, backend):
    """Return what each unit of a back end is told to read, as the storage host of the example site runs them."""
    templar = site.templar(
        ROLE, "infra", __shared_storage_server_result={}, __shared_storage_moosefs_result={"changes": []}
    )
    found = {}
    for task in tasks(f"{backend}/service.yml"):
        for item in task.get("loop", [None]) if "daemon" in task else []:
            templar.available_variables["__shared_storage_item"] = item
            told = {key: trust_as_template(one) if isinstance(one, str) else one for key, one in task["daemon"].items()}
            one = templar.template(told)
            found[one["name"]] = one
    return found


@pytest.mark.parametrize(
    ("backend", "written"),
    [
        ("nfs", {"/etc/exports.d/gridstead.exports"}),
        ("moosefs", {"/etc/mfs/mfsmaster.cfg", "/etc/mfs/mfsexports.cfg", "/etc/mfs/mfschunkserver.cfg",
                     "/etc/mfs/mfshdd.cfg", "/etc/gridstead/storage.nft"}),
    ],
)  # fmt: skip
def test_a_server_is_told_of_every_file_of_its_that_is_younger(site, backend, written):
    told = daemons(site, backend).values()

    assert {path for one in told for path in one["rereads"]} == written
    assert [path for one in told for path in one["reads"]] == []


def test_a_new_client_mounts_when_the_server_knows_it():
    steps = [
        (one.get("ansible.builtin.include_tasks") or {}).get("file") or one.get("ansible.builtin.import_tasks")
        for one in tasks("main.yml")
    ]

    assert steps.index("{{ shared_storage_backend }}/service.yml") < steps.index("mount.yml")
    assert "server" not in (ROLE.path / "handlers/main.yml").read_text()


def test_a_distribution_s_firewall_learns_to_put_ours_back(site):
    assert daemons(site, "moosefs")["gridstead-storage-firewall"]["beside"] == ["nftables.service"]


def test_new_rules_are_loaded_without_a_restart_of_what_the_mount_requires():
    unit = (ROLE.path / "templates/etc/systemd/system/gridstead-storage-firewall.service.j2").read_text()

    (start,) = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert f"ExecReload={start}" in unit
