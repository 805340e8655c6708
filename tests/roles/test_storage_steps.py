# SPDX-License-Identifier: Apache-2.0
"""The order of role shared_storage's steps, and the conditions to reload and to remount.

The description of a mount is a file with all parameters of the mount. The role remounts the file
system if the description differs from the description of the present mount.
"""

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import Role
from tests.roles.conftest import trust_templates
from tests.roles.content import lines_with, tasks_with, values_of
from tests.yaml_files import read_yaml

ROLE = Role("shared_storage")


def tasks(name):
    """Return the tasks of a file of the role."""
    return read_yaml(ROLE.path / "tasks" / name)


def daemons(site, backend):
    """Return the arguments of module `daemon` by unit, for a back end on the storage host."""
    templar = site.templar(
        ROLE,
        "infra",
        __shared_storage_server_result={},
        __shared_storage_moosefs_result={"changes": []},
    )
    daemons_by_unit = {}
    for task in tasks_with("gridstead.site.daemon", tasks(f"{backend}/service.yml")):
        for item in task.get("loop", [None]):
            templar.available_variables["__shared_storage_item"] = item
            daemon = templar.template(trust_templates(task["gridstead.site.daemon"]))
            daemons_by_unit[daemon["name"]] = daemon
    return daemons_by_unit


@pytest.mark.parametrize(
    ("backend", "paths"),
    [
        ("nfs", {"/etc/exports.d/gridstead.exports"}),
        (
            "moosefs",
            {
                "/etc/mfs/mfsmaster.cfg",
                "/etc/mfs/mfsexports.cfg",
                "/etc/mfs/mfschunkserver.cfg",
                "/etc/mfs/mfshdd.cfg",
                "/etc/gridstead/storage.nft",
            },
        ),
    ],
)
def test_a_server_is_reloaded_for_every_newer_file(site, backend, paths):
    # If a file in ``rereads`` is newer than the daemon's start, the module reloads the daemon. If a
    # file in ``reads`` is newer, the module restarts the daemon.
    reloaded_files = set()
    for daemon in daemons(site, backend).values():
        reloaded_files |= set(daemon["rereads"])
        assert daemon["reads"] == []

    assert reloaded_files == paths


def steps():
    """Return the task file or the meta action of each task of main.yml, in order."""
    return [step_of(task) for task in tasks("main.yml")]


def step_of(task):
    """Return the task file that a task includes or imports, or its meta action."""
    if "ansible.builtin.include_tasks" in task:
        return task["ansible.builtin.include_tasks"]["file"]
    if "ansible.builtin.import_tasks" in task:
        return task["ansible.builtin.import_tasks"]
    return task["ansible.builtin.meta"]


def test_a_client_mounts_after_the_server_has_its_export():
    assert steps().index("{{ shared_storage_backend }}/service.yml") < steps().index("mount.yml")


def test_jobs_are_checked_again_just_before_the_remount():
    """A job may start after the first check, because nodes are not drained."""
    check, remount = read_yaml(ROLE.path / "handlers/main.yml")
    first_check = tasks("remount.yml")[-1]

    arguments = check["gridstead.site.shared_storage_mount"]
    assert arguments == first_check["gridstead.site.shared_storage_mount"]
    assert arguments["must"] == "allow_remount"
    assert check["listen"] == remount["listen"]
    assert remount["name"] == "Remount the file system"


def test_the_run_stops_if_the_configured_mount_is_missing():
    assert steps()[-3:] == ["mount.yml", "flush_handlers", "answer.yml"]
    for task in tasks_with("gridstead.site.daemon", tasks("mount.yml")):
        assert task["gridstead.site.daemon"]["no_block"]
    (check,) = tasks("answer.yml")
    assert check["gridstead.site.shared_storage_mount"]["must"] == "answer"


@pytest.mark.parametrize(
    ("existing", "backend", "old_backends"),
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
def test_a_new_back_end_is_refused_if_another_back_end_has_files(
    site, existing, backend, old_backends
):
    """The refusal protects sites that use the default back end of an old release, MooseFS.

    The variable `shared_storage_backend` may not be set at such a site.
    """
    stat_task, assert_task = tasks("backend.yml")
    assertion = assert_task["ansible.builtin.assert"]
    templar = site.templar(ROLE, "infra", shared_storage_backend=backend)
    results = []
    for item in templar.template(trust_as_template(stat_task["loop"])):
        stat = {"exists": item["path"] in existing}
        results += [{"__shared_storage_item": item, "stat": stat}]
    templar.available_variables["__shared_storage_traces_result"] = {"results": results}

    old_traces = templar.template(templar.available_variables["__shared_storage_old_traces"])
    is_accepted = templar.evaluate_conditional(trust_as_template(assertion["that"]))
    message = templar.template(trust_as_template(assertion["fail_msg"]))

    assert [trace["backend"] for trace in old_traces] == old_backends
    assert is_accepted is (old_backends == [])
    for name in old_backends:
        assert f"Set shared_storage_backend: {name}." in message


def test_a_changed_back_end_is_refused_before_any_change():
    assert steps()[:2] == ["validate.yml", "backend.yml"]


def test_the_drop_in_of_nftables_service_is_loaded(site):
    """The drop-in restores the storage rules after nftables.service has flushed all tables.

    The module runs systemctl daemon-reload if the files of a unit in more_units changed.
    """
    assert daemons(site, "moosefs")["gridstead-storage-firewall"]["more_units"] == [
        "nftables.service"
    ]


def test_new_rules_are_loaded_without_a_restart_of_the_mount():
    units = ROLE.path / "templates/etc/systemd/system"
    lines = (units / "gridstead-storage-firewall.service.j2").read_text().splitlines()

    assert values_of("ExecReload", lines) == values_of("ExecStart", lines)


UNIT = ROLE.path / "templates/etc/systemd/system/gridstead-shared-storage.service.j2"


def mount_description(site, host="compute1", **variables):
    """Return the description of a mount of the example site, as the role writes it."""
    templar = site.templar(ROLE, host, **({"shared_storage_backend": "moosefs"} | variables))
    (file,) = templar.template(templar.available_variables["__shared_storage_mounts"])
    return file["content"]


@pytest.mark.parametrize(
    "variables",
    [
        {"shared_storage_client_password": 20 * "x"},
        {"shared_storage_mount_point": "/srv/other"},
        {"shared_storage_directories": [{"name": "home", "path": "/home", "mode": "0755"}]},
        {"shared_storage_admin": True},
        {"shared_storage_server_address": "192.0.2.99"},
        {"shared_storage_backend": "nfs"},
    ],
)
def test_a_different_mount_has_a_different_description(site, variables):
    assert mount_description(site) != mount_description(site, **variables)


def test_dependent_services_and_other_clients_change_the_unit_but_not_the_description(site, render):
    variables = {
        "shared_storage_needed_by": ["other.service"],
        "shared_storage_client_addresses": ["192.0.2.21"],
    }

    assert render(ROLE, UNIT, "compute1") != render(ROLE, UNIT, "compute1", **variables)
    assert mount_description(site) == mount_description(site, **variables)


def test_slurmctlds_state_does_not_change_the_mounts_of_nodes(site, render):
    state = {"slurm_state_directory": "/srv/shared/slurm"}

    assert render(ROLE, UNIT, "compute1") == render(ROLE, UNIT, "compute1", **state)
    assert mount_description(site) == mount_description(site, **state)
    assert mount_description(site, "controller") != mount_description(site, "controller", **state)


def test_the_mount_unit_records_the_description_of_the_present_mount(site, render):
    templar = site.templar(ROLE, "compute1")
    (file,) = templar.template(templar.available_variables["__shared_storage_mounts"])
    path, recorded_path = file["path"], file["in_force"]

    unit = render(ROLE, UNIT, "compute1").splitlines()

    assert f"ExecStartPost=-/usr/bin/install --mode=0600 {path} {recorded_path}" in unit
    assert f"ExecStopPost=-/usr/bin/rm --force {recorded_path}" in unit


def test_a_remount_has_no_cause_except_a_changed_description():
    """The name of the handler also tells `gridstead provider plan` that nodes are drained."""
    all_tasks = tasks("configure_client.yml") + tasks("moosefs/configure.yml")

    (notifying_task,) = tasks_with("notify", all_tasks)
    assert notifying_task["gridstead.site.file_set"] == {"files": "{{ __shared_storage_mounts }}"}


def test_jobs_are_checked_before_any_file_is_written():
    first_configuration = lines_with("configure", steps())[0]

    assert steps().index("remount.yml") < steps().index(first_configuration)
    for task in tasks_with("gridstead.site.file_set", tasks("remount.yml")):
        assert task["check_mode"] is True


@pytest.mark.parametrize("backend", ["nfs", "moosefs", "external"])
def test_a_client_has_the_program_that_finds_jobs(site, backend):
    """The program is pgrep, which a minimal Debian may not contain."""
    templar = site.templar(ROLE, "compute1", shared_storage_backend=backend)

    packages = templar.template(templar.available_variables["__shared_storage_required_packages"])

    assert "procps" in packages
    assert len(packages) == len(set(packages))
