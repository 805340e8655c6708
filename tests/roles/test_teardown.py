# SPDX-License-Identifier: Apache-2.0
"""The footprint of a role lists all objects of the role on a host. The teardown removes them.

Objects are paths, packages, units and accounts.
"""

import shutil
import subprocess
from fnmatch import fnmatchcase

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable
from ansible.template import trust_as_template
from tests.roles.catalogue import COLLECTION, ROOT, Role, playbook_plays, roles
from tests.roles.conftest import trust_templates
from tests.roles.content import imported_playbooks, tasks_with
from tests.yaml_files import read_yaml

# The argument that contains the path that a task writes, by module.
PATH_ARGUMENTS = {
    "ansible.builtin.copy": "dest",
    "ansible.builtin.file": "path",
    "ansible.builtin.get_url": "dest",
    "ansible.builtin.template": "dest",
    "ansible.posix.authorized_key": "path",
    "community.crypto.openssh_keypair": "path",
}
# Modules whose argument ``name`` names objects, with the key of these objects in a footprint.
KIND_BY_MODULE = {
    "ansible.builtin.apt": "packages",
    "ansible.builtin.systemd_service": "units",
    "ansible.builtin.user": "users",
    "gridstead.site.daemon": "units",
}
MOOSEFS_DATA = (
    "the example uses NFS; tests/roles/test_storage_rules.py tests the footprint with MooseFS"
)
# Objects that a role's tasks name but its footprint in the example omits, with the reason.
NOT_OWNED = {
    ("benchmarks", "/opt/cache/shared/gridstead-benchmarks"): (
        "only the storage host creates and removes the directory"
    ),
    ("devnet", "/var/lib/private"): "systemd owns the folder",
    ("shared_storage", "/srv/moosefs"): MOOSEFS_DATA,
    ("shared_storage", "/var/lib/mfs/metadata.mfs"): MOOSEFS_DATA,
    ("container_runtime", "/dev/net/tun"): "the kernel creates the device again at each boot",
    (
        "slurm",
        "/srv/slurm/state",
    ): "the folder is on the site's storage; only its files are removed",
    ("slurm", "slurm"): "the package owns the account; the role's group is removed",
}
# Roles that site.yml does not run.
NOT_IN_SITE_YML = {"archive"}
ROLES_WITH_TEARDOWN = [role for role in roles() if "teardown" in role.entry_points]
every_role = pytest.mark.parametrize("role", ROLES_WITH_TEARDOWN, ids=lambda role: role.name)


def tasks_of(role):
    """Yield the tasks that a role runs on its hosts, also those in blocks. Omit the teardown."""
    for path in sorted((role.path / "tasks").rglob("*.yml")):
        if path.name != "teardown.yml":
            yield from tasks_on_hosts(read_yaml(path))


def tasks_on_hosts(tasks):
    """Yield all tasks, also those in blocks, except tasks that run on the control machine."""
    for task in tasks:
        if task.get("delegate_to") != "localhost":
            yield task
            yield from tasks_on_hosts(task.get("block", []))


def render_list(templar, value):
    """Return a value of a task as a list of strings."""
    result = templar.template(trust_templates(value))
    items = result if isinstance(result, list) else [result]
    return [str(item) for item in items]


def render_with_loop(templar, task, value):
    """Return a task's path or name, rendered for each item of the task's loop.

    If an item is known only when the task runs, return the folder that contains the paths.
    """
    loop = task.get("loop", [None])
    variable = task.get("loop_control", {}).get("loop_var", "item")
    try:
        items = templar.template(trust_templates(loop))
        collected = []
        for item in items:
            item_templar = templar.copy_with_new_env(
                available_variables={**templar.available_variables, variable: item}
            )
            collected += render_list(item_templar, value)
    except AnsibleUndefinedVariable:
        return render_list(templar, value.rpartition("/{{")[0])
    return [name.removeprefix(COLLECTION) for name in collected]


def is_covered(path, footprint):
    """Return whether the footprint lists a path, or a folder that contains the path."""
    if path.startswith("/var/lib/gridstead/archive/"):
        return True  # The stage folder of a backup, which role archive removes.
    if path in footprint.get("folders", []):
        return True
    path = path.rstrip("/")
    for kind in ("own", "replaced", "data"):
        for pattern in footprint.get(kind, []):
            if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*"):
                return True
    return False


def paths_of(templar, task):
    """Yield the paths that a task writes."""
    for module, argument in PATH_ARGUMENTS.items():
        if path := task.get(module, {}).get(argument):
            yield from render_with_loop(templar, task, path)
    file_set = task.get("gridstead.site.file_set", {})
    if files := file_set.get("files"):
        # The value is a template of a list of files. Extend it to a template of their paths.
        paths = files.replace("}}", "| map(attribute='path') }}")
        yield from render_list(templar, paths)
    if pending := file_set.get("pending_changes_file"):
        yield from render_list(templar, pending)


def names_of(templar, task):
    """Yield the kind and the name of each package, unit and account of a task."""
    for module, kind in KIND_BY_MODULE.items():
        if name := task.get(module, {}).get("name"):
            for item in render_with_loop(templar, task, name):
                yield kind, item.removesuffix(".service")


def footprint_of(templar, role):
    """Return the footprint of a role on the host of a templar."""
    variable = f"__{role.name}_footprint"
    return templar.template(trust_as_template("{{ " + variable + " }}"))


def objects_outside_the_footprint(templar, role):
    """Yield the paths and names that a role's tasks use but the role's footprint does not list."""
    footprint = footprint_of(templar, role)
    for task in tasks_of(role):
        for path in paths_of(templar, task):
            if not is_covered(path, footprint):
                yield path
        for kind, name in names_of(templar, task):
            listed_names = [item.removesuffix(".service") for item in footprint.get(kind, [])]
            if name not in listed_names:
                yield name


@every_role
def test_the_footprint_covers_all_objects_of_the_role(role, site):
    missing_objects = set()
    # Role devnet has no hosts in the example.
    for host in site.hosts_of(role) or ["controller"]:
        for name in objects_outside_the_footprint(site.templar(role, host), role):
            missing_objects.add((role.name, name))

    assert missing_objects - set(NOT_OWNED) == set()


@every_role
def test_each_template_and_file_of_a_role_is_in_its_footprint(role, site):
    """A template or file has the same path in the role's folder as on the host."""
    host = (site.hosts_of(role) or ["controller"])[0]
    footprint = footprint_of(site.templar(role, host), role)

    for template in role.templates:
        path = f"/{template.relative_to(role.path / 'templates')}".removesuffix(".j2")
        # The files of these two templates have other names on a host.
        if not path.endswith(("/service.toml", "/gridstead.service")):
            assert is_covered(path, footprint)


def test_roles_are_removed_in_reverse_order():
    """If site.yml applies role b only after its last use of role a, b may depend on a.

    Therefore the teardown must not remove a until it has removed b from all hosts.
    """
    names_with_teardown = {role.name for role in ROLES_WITH_TEARDOWN}
    applied_roles = []
    for playbook in imported_playbooks("site"):
        applied_roles += [name for name in roles_in(playbook) if name in names_with_teardown]
    removed_roles = [name for name in roles_in("teardown") if name != "footprint"]

    assert set(removed_roles) == names_with_teardown
    assert set(applied_roles) == names_with_teardown - NOT_IN_SITE_YML
    for role_name in applied_roles:
        first_use = applied_roles.index(role_name)
        used_later = set(applied_roles[first_use:])
        used_only_before = set(applied_roles[:first_use]) - used_later
        last_removal = last_index(removed_roles, role_name)
        removed_before = set(removed_roles[:last_removal])
        assert removed_before.isdisjoint(used_only_before), role_name


def last_index(names, name):
    """Return the index of the last occurrence of a name."""
    return len(names) - 1 - names[::-1].index(name)


def roles_in(playbook):
    """Return the roles that a playbook runs, in order."""
    names = []
    for play in playbook_plays(playbook):
        for role in play.get("roles", []):
            names += [role if isinstance(role, str) else role["role"]]
        for task in tasks_with("ansible.builtin.import_role", play.get("tasks", [])):
            names += [task["ansible.builtin.import_role"]["name"]]
    return [name.removeprefix(COLLECTION) for name in names]


@pytest.mark.parametrize(("other_databases", "answer_count"), [(0, 1), (1, 0)])
def test_mariadbs_tables_remain_if_another_database_exists(other_databases, answer_count, site):
    """With the role's debconf answer, a purge of the package deletes the server's system tables.

    If another program has a database on the server, the footprint must not contain this answer.
    """
    database = Role("database")
    tasks = read_yaml(database.path / "tasks/teardown.yml")
    templar = site.templar(database, site.hosts_of(database)[0])
    templar.available_variables |= {"__database_others_result": {"matched": other_databases}}

    footprint = templar.template(trust_as_template(tasks[-1]["vars"]["footprint_traces"]))

    assert len(footprint.get("answers", [])) == answer_count


def test_the_documentation_lists_the_objects_that_a_teardown_leaves():
    """File declared.yml is also the list of allowed remains in the molecule test of a teardown."""
    declared_objects = read_yaml(ROOT / "molecule/single/nothing_left/declared.yml")
    page = (ROOT / "docs/howto/teardown.md").read_text()

    section = page.partition("## What stays")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "|" in line]

    # The first two rows are the head of the table.
    assert rows[2:] == [[item["what"], item["why"]] for item in declared_objects]


@pytest.mark.parametrize(("confirmation", "code"), [("yes", 2), ("lab", 2), ("example", 0)])
def test_a_teardown_needs_the_name_of_the_site(confirmation, code, tmp_path):
    """Without option -i, Ansible reads the inventory in ansible.cfg, which may be of another site.

    Therefore the playbook runs only if gridstead_teardown is the name of the inventory's site.
    """
    confirming_play = read_yaml(ROOT / "playbooks/teardown.yml")[:1]
    (tmp_path / "teardown.yml").write_text(yaml.safe_dump(confirming_play))
    (tmp_path / "tasks").mkdir()
    shutil.copy(ROOT / "playbooks/tasks/confirm_teardown.yml", tmp_path / "tasks")
    argv = ["ansible-playbook", "--inventory=inventory/example", tmp_path / "teardown.yml"]

    result = subprocess.run(
        [*argv, "-e", f"gridstead_teardown={confirmation}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == code, result.stdout
    output = " ".join(result.stdout.split())
    is_refused = "To confirm, set -e gridstead_teardown=example." in output
    assert is_refused is (code != 0)
