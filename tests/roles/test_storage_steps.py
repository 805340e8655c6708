# SPDX-License-Identifier: Apache-2.0
"""The storage server reloads its files before a client mounts, after any run."""

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import Role

ROLE = Role("shared_storage")


def tasks(name):
    return yaml.safe_load((ROLE.path / "tasks" / name).read_text())


def daemons(site, backend):
    """Return the files that each unit of a back end reads on the example's storage host."""
    templar = site.templar(
        ROLE,
        "infra",
        __shared_storage_server_result={},
        __shared_storage_moosefs_result={"changes": []},
    )
    daemons_by_unit = {}
    for task in tasks(f"{backend}/service.yml"):
        for item in task.get("loop", [None]) if "gridstead.site.daemon" in task else []:
            templar.available_variables["__shared_storage_item"] = item
            rendered = {
                key: trust_as_template(value) if isinstance(value, str) else value
                for key, value in task["gridstead.site.daemon"].items()
            }
            daemon = templar.template(rendered)
            daemons_by_unit[daemon["name"]] = daemon
    return daemons_by_unit


@pytest.mark.parametrize(
    ("backend", "written"),
    [
        ("nfs", {"/etc/exports.d/gridstead.exports"}),
        ("moosefs", {"/etc/mfs/mfsmaster.cfg", "/etc/mfs/mfsexports.cfg", "/etc/mfs/mfschunkserver.cfg",
                     "/etc/mfs/mfshdd.cfg", "/etc/gridstead/storage.nft"}),
    ],
)  # fmt: skip
def test_a_server_reloads_every_newer_file(site, backend, written):
    rendered = daemons(site, backend).values()

    assert {path for entry in rendered for path in entry["rereads"]} == written
    assert [path for entry in rendered for path in entry["reads"]] == []


def steps():
    """Return the steps of the role, in order."""
    keys = ("ansible.builtin.import_tasks", "ansible.builtin.meta")
    return [
        (task.get("ansible.builtin.include_tasks") or {}).get("file")
        or next(task[key] for key in keys if key in task)
        for task in tasks("main.yml")
    ]


def test_a_client_mounts_after_the_server_has_its_export():
    assert steps().index("{{ shared_storage_backend }}/service.yml") < steps().index("mount.yml")


def test_jobs_are_checked_again_just_before_the_remount():
    """A job may start after the first check, because nodes are not drained."""
    look, remount = yaml.safe_load((ROLE.path / "handlers/main.yml").read_text())

    assert (
        look["gridstead.site.shared_storage_mount"]
        == tasks("remount.yml")[-1]["gridstead.site.shared_storage_mount"]
    )
    assert look["gridstead.site.shared_storage_mount"]["must"] == "spare"
    assert look["listen"] == remount["listen"]
    assert remount["name"] == "Remount the file system"


def test_the_run_stops_without_the_configured_mount():
    assert steps()[-3:] == ["mount.yml", "flush_handlers", "answer.yml"]
    assert all(
        task["gridstead.site.daemon"]["no_block"]
        for task in tasks("mount.yml")
        if "gridstead.site.daemon" in task
    )
    (look,) = tasks("answer.yml")
    assert look["gridstead.site.shared_storage_mount"]["must"] == "answer"


@pytest.mark.parametrize(
    ("there", "backend", "hidden"),
    [
        ([], "nfs", []),
        (["/var/lib/mfs/metadata.mfs"], "nfs", ["moosefs"]),
        (["/var/lib/mfs/metadata.mfs.back"], "external", ["moosefs"]),
        (["/var/lib/mfs/metadata.mfs.back"], "moosefs", []),
        (["/var/lib/mfs/metadata.mfs.empty"], "nfs", []),
        (["/etc/exports.d/gridstead.exports"], "moosefs", ["nfs"]),
        (["/etc/exports.d/gridstead.exports"], "nfs", []),
    ],
)
def test_files_of_another_back_end_are_not_hidden(site, there, backend, hidden):
    """MooseFS was the former default, so that its users did not set the variable."""
    look, assertion = tasks("backend.yml")
    assertion = assertion["ansible.builtin.assert"]
    templar = site.templar(ROLE, "infra", shared_storage_backend=backend)
    looked = templar.template(trust_as_template(look["loop"]))
    results = [
        {"__shared_storage_item": item, "stat": {"exists": item["path"] in there}}
        for item in looked
    ]
    templar.available_variables["__shared_storage_traces_result"] = {"results": results}

    rendered = templar.template(templar.available_variables["__shared_storage_old_traces"])

    assert [entry["backend"] for entry in rendered] == hidden
    assert templar.evaluate_conditional(trust_as_template(assertion["that"])) is not bool(hidden)
    message = templar.template(trust_as_template(assertion["fail_msg"]))
    assert [f"Set shared_storage_backend: {item}." in message for item in hidden] == [True] * len(
        hidden
    )


def test_a_changed_back_end_is_refused_before_any_change():
    assert steps()[:2] == ["validate.yml", "backend.yml"]


def test_nftables_service_restores_our_rules(site):
    assert daemons(site, "moosefs")["gridstead-storage-firewall"]["more_units"] == [
        "nftables.service"
    ]


def test_new_rules_are_loaded_without_a_restart_of_the_mount():
    unit = (
        ROLE.path / "templates/etc/systemd/system/gridstead-storage-firewall.service.j2"
    ).read_text()

    (start,) = [
        line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")
    ]
    assert f"ExecReload={start}" in unit


UNIT = ROLE.path / "templates/etc/systemd/system/gridstead-shared-storage.service.j2"


def made_of(site, host="compute1", **more):
    """Return the description of a mount of the example site, as the role writes it."""
    templar = site.templar(ROLE, host, **({"shared_storage_backend": "moosefs"} | more))
    (rendered,) = templar.template(templar.available_variables["__shared_storage_mounts"])
    return rendered["content"]


@pytest.mark.parametrize(
    "more",
    [
        {"shared_storage_client_password": 20 * "x"},
        {"shared_storage_mount_point": "/srv/other"},
        {"shared_storage_directories": [{"name": "home", "path": "/home", "mode": "0755"}]},
        {"shared_storage_admin": True},
        {"shared_storage_server_address": "192.0.2.99"},
        {"shared_storage_backend": "nfs"},
    ],
)
def test_a_different_mount_has_a_different_description(site, more):
    assert made_of(site) != made_of(site, **more)


def test_a_mounts_description_has_no_dependents_and_no_other_clients(site, render):
    more = {
        "shared_storage_needed_by": ["other.service"],
        "shared_storage_client_addresses": ["192.0.2.21"],
    }

    assert render(ROLE, UNIT, "compute1") != render(ROLE, UNIT, "compute1", **more)
    assert made_of(site) == made_of(site, **more)


def test_slurmctlds_state_does_not_change_the_mounts_of_nodes(site, render):
    state = {"slurm_state_directory": "/srv/shared/slurm"}

    assert render(ROLE, UNIT, "compute1") == render(ROLE, UNIT, "compute1", **state)
    assert made_of(site) == made_of(site, **state)
    assert made_of(site, "controller") != made_of(site, "controller", **state)


def test_a_mount_records_its_description_at_its_start(site, render):
    templar = site.templar(ROLE, "compute1")
    (rendered,) = templar.template(templar.available_variables["__shared_storage_mounts"])
    unit = render(ROLE, UNIT, "compute1").splitlines()

    assert (
        f"ExecStartPost=-/usr/bin/install --mode=0600 {rendered['path']} {rendered['in_force']}"
        in unit
    )
    assert f"ExecStopPost=-/usr/bin/rm --force {rendered['in_force']}" in unit


def test_only_a_changed_description_causes_a_remount():
    """The handler's name tells `gridstead provider plan` that nodes are drained."""
    rendered = {
        name: [task for task in tasks(name) if "notify" in task]
        for name in ("configure_client.yml", "moosefs/configure.yml")
    }

    (notifying,) = [entry for daemons_by_unit in rendered.values() for entry in daemons_by_unit]
    assert notifying["gridstead.site.file_set"] == {"files": "{{ __shared_storage_mounts }}"}


def test_jobs_are_checked_before_any_file_is_written():
    configured = min(number for number, step in enumerate(steps()) if "configure" in step)

    assert steps().index("remount.yml") < configured
    assert all(
        "gridstead.site.file_set" not in task or task["check_mode"] is True
        for task in tasks("remount.yml")
    )


@pytest.mark.parametrize("backend", ["nfs", "moosefs", "external"])
def test_a_client_has_the_program_that_finds_jobs(site, backend):
    """A minimal Debian may not have pgrep."""
    templar = site.templar(ROLE, "compute1", shared_storage_backend=backend)

    needed = templar.template(templar.available_variables["__shared_storage_required_packages"])

    assert "procps" in needed
    assert len(needed) == len(set(needed))
