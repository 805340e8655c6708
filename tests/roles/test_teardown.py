# SPDX-License-Identifier: Apache-2.0
"""The footprint of a role lists all its objects on a host, so that its teardown removes them."""

import shutil
import subprocess
from fnmatch import fnmatchcase

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable
from ansible.template import trust_as_template
from tests.roles.catalogue import COLLECTION, ROOT, roles
from tests.roles.conftest import trusted

PATHS = {
    "ansible.builtin.copy": "dest",
    "ansible.builtin.file": "path",
    "ansible.builtin.get_url": "dest",
    "ansible.builtin.template": "dest",
    "ansible.posix.authorized_key": "path",
    "community.crypto.openssh_keypair": "path",
}
NAMES = {
    "ansible.builtin.apt": "packages",
    "ansible.builtin.systemd_service": "units",
    "ansible.builtin.user": "users",
    "gridstead.site.daemon": "units",
}
# What a role touches and does not own.
STAYS = {
    ("devnet", "/var/lib/private"): "systemd's",
    (
        "shared_storage",
        "/srv/moosefs",
    ): "data, where the back end is MooseFS; tests/roles/test_storage_rules.py",
    ("shared_storage", "/var/lib/mfs/metadata.mfs"): "the same",
    (
        "container_runtime",
        "/dev/net/tun",
    ): "the kernel creates the device again at each boot",
    ("slurm", "/srv/slurm/state"): "a folder on storage of the site's; what is in it goes",
    ("slurm", "slurm"): "the package's account; a group of ours that it joins is removed",
}
# What a host has from playbooks of later days alone.
LATER = {"archive"}
TEARDOWNS = [role for role in roles() if "teardown" in role.entry_points]
every_role = pytest.mark.parametrize("role", TEARDOWNS, ids=lambda role: role.name)


def tasks_of(role):
    """Yield the tasks of a role on its hosts, including tasks in blocks, without its teardown."""
    left = [task for path in sorted((role.path / "tasks").rglob("*.yml")) for task in yaml.safe_load(path.read_text())
            if path.name != "teardown.yml"]  # fmt: skip
    while left:
        task = left.pop(0)
        if task.get("delegate_to") == "localhost":
            continue
        left = [*task.get("block", []), *left]
        yield task


def rendered(templar, value):
    """Return a value of a task as a list of strings."""
    collected = templar.template(trusted(value))
    return [str(item) for item in (collected if isinstance(collected, list) else [collected])]


def written(templar, task, value):
    """Return a task's value for each loop item, or the folder of a path if only a run knows the
    items.
    """
    loop = task.get("loop", [None])
    variable = task.get("loop_control", {}).get("loop_var", "item")
    try:
        items = templar.template(trusted(loop))
        collected = []
        for item in items:
            known = templar.copy_with_new_env(
                available_variables={**templar.available_variables, variable: item}
            )
            collected += rendered(known, value)
    except AnsibleUndefinedVariable:
        return rendered(templar, value.rpartition("/{{")[0])
    return [name.removeprefix(COLLECTION) for name in collected]


def is_covered(path, footprint):
    """Return whether the footprint has a path or a folder above it. Role archive removes the stage
    folder of a backup.
    """
    if path.startswith("/var/lib/gridstead/archive/"):
        return True
    patterns = [
        pattern for kind in ("own", "replaced", "data") for pattern in footprint.get(kind, [])
    ]
    patterns += [f"{pattern}/*" for pattern in patterns]
    return path in footprint.get("folders", []) or any(
        fnmatchcase(path.rstrip("/"), pattern) for pattern in patterns
    )


@every_role
def test_the_footprint_covers_all_files_of_the_role(role, site):
    unknown = set()
    # Role devnet is on hosts of the lab alone.
    for host in site.hosts_of(role) or ["controller"]:
        templar = site.templar(role, host)
        footprint = templar.template(trust_as_template(f"{{{{ __{role.name}_footprint }}}}"))
        for task in tasks_of(role):
            for module, key in PATHS.items():
                if path := task.get(module, {}).get(key):
                    unknown |= {
                        path
                        for path in written(templar, task, path)
                        if not is_covered(path, footprint)
                    }
            if files := task.get("gridstead.site.file_set", {}).get("files"):
                paths = files.replace("}}", "| map(attribute='path') }}")
                unknown |= {
                    path for path in rendered(templar, paths) if not is_covered(path, footprint)
                }
            if note := task.get("gridstead.site.file_set", {}).get("unsettled"):
                unknown |= {
                    path for path in rendered(templar, note) if not is_covered(path, footprint)
                }
            for module, kind in NAMES.items():
                if name := task.get(module, {}).get("name"):
                    known = {trace.removesuffix(".service") for trace in footprint.get(kind, [])}
                    unknown |= {
                        item.removesuffix(".service") for item in written(templar, task, name)
                    } - known

    assert {(role.name, trace) for trace in unknown} - set(STAYS) == set()


@every_role
def test_each_template_and_file_of_a_role_is_in_its_footprint(role, site):
    """The paths of templates and files mirror the paths on the host."""
    host = (site.hosts_of(role) or ["controller"])[0]
    footprint = site.templar(role, host).template(
        trust_as_template(f"{{{{ __{role.name}_footprint }}}}")
    )
    mirrored = [
        f"/{path.relative_to(role.path / 'templates')}".removesuffix(".j2")
        for path in role.templates
    ]
    named = [
        path
        for path in mirrored
        if path.rpartition("/")[2] not in {"service.toml", "gridstead.service"}
    ]

    assert [path for path in named if not is_covered(path, footprint)] == []


def test_roles_are_removed_in_reverse_order():
    """A role that is applied before another role, and not again after it, is removed after that
    role.
    """
    known = {role.name for role in TEARDOWNS}
    built = [role for book in books("site") for role in roles_in(book) if role in known]
    taken_off = [role for role in roles_in("teardown") if role != "footprint"]

    assert {*taken_off} == known
    assert {*built} == known - LATER
    for role in built:
        before, after = built[: built.index(role)], built[built.index(role) :]
        assert {*taken_off[: last(taken_off, role)]}.isdisjoint({*before} - {*after}), role


def last(names, name):
    """Return the index of the last occurrence of a name."""
    return len(names) - 1 - names[::-1].index(name)


def books(name):
    """Return the imported playbooks of a playbook, in order."""
    plays = yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text())
    return [play["ansible.builtin.import_playbook"].removesuffix(".yml") for play in plays]


def roles_in(book):
    """Return the roles that a playbook runs, in order."""
    collected = []
    for play in yaml.safe_load((ROOT / "playbooks" / f"{book}.yml").read_text()):
        collected += [
            role if isinstance(role, str) else role["role"] for role in play.get("roles", [])
        ]
        tasks = [
            task["ansible.builtin.import_role"]
            for task in play.get("tasks", [])
            if "ansible.builtin.import_role" in task
        ]
        collected += [task["name"] for task in tasks]
    return [name.removeprefix(COLLECTION) for name in collected]


@pytest.mark.parametrize(("others", "answers"), [(0, 1), (1, 0)])
def test_mariadbs_tables_are_retained_with_another_database(others, answers, site):
    database = next(role for role in TEARDOWNS if role.name == "database")
    tasks = yaml.safe_load((database.path / "tasks/teardown.yml").read_text())
    templar = site.templar(database, site.hosts_of(database)[0])
    templar.available_variables |= {"__database_others_result": {"matched": others}}

    traces = templar.template(trust_as_template(tasks[-1]["vars"]["footprint_traces"]))

    assert len(traces.get("answers", [])) == answers


def test_the_page_lists_the_remains_of_a_teardown():
    """The molecule test uses the same list."""
    declared = yaml.safe_load((ROOT / "molecule/single/nothing_left/declared.yml").read_text())
    page = (ROOT / "docs/howto/teardown.md").read_text()

    rows = [
        line.strip("| ").split(" | ")
        for line in page.partition("## What stays")[2].splitlines()
        if "|" in line
    ]

    assert rows[2:] == [[item["what"], item["why"]] for item in declared]


@pytest.mark.parametrize(("said", "code"), [("yes", 2), ("lab", 2), ("example", 0)])
def test_a_teardown_needs_the_name_of_the_site(said, code, tmp_path):
    """A general confirmation could remove the default site of ansible.cfg, if -i is missing."""
    confirming = yaml.safe_load((ROOT / "playbooks/teardown.yml").read_text())[:1]
    (tmp_path / "teardown.yml").write_text(yaml.safe_dump(confirming))
    (tmp_path / "tasks").mkdir()
    shutil.copy(ROOT / "playbooks/tasks/confirm_teardown.yml", tmp_path / "tasks")
    argv = ["ansible-playbook", "--inventory=inventory/example", tmp_path / "teardown.yml"]

    done = subprocess.run(
        [*argv, "-e", f"gridstead_teardown={said}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stdout
    assert ("To confirm, set -e gridstead_teardown=example." in " ".join(done.stdout.split())) is (
        code != 0
    )
