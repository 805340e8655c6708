# SPDX-License-Identifier: Apache-2.0
"""docs/reference/hosts.md lists the units, ports and data of the roles of each group."""

import re
from fnmatch import fnmatchcase

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles import flows_page, hosts_page
from tests.roles.catalogue import ROOT, Role, roles

STATE = Role("slurm").defaults["slurm_state_directory"]
SECTIONS = hosts_page.sections()
# Units that the page does not list.
UNLISTED = {
    "dirsrv-snmp": "a unit of the package, which is not used",
    "gridstead-cvmfs-snapshot.timer": "only with CERN's packages, which are not tested",
    "slurmstepd.scope": "systemd's name for the running jobs",
    "sssd-*.socket": "sockets of sssd.service, which is listed",
}
# Data that the page does not list.
UNLISTED_DATA = {
    "/etc/tmpfiles.d/dirsrv-gridstead.conf": "created with the directory server",
    "/var/lib/private/gridstead-anvil": "where systemd stores /var/lib/gridstead-anvil",
}
# Paths of the page that no role lists in its footprint.
NOT_IN_A_FOOTPRINT = {"/var/lib/gridstead/before": "role footprint itself removes it last"}
every_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda item: item.groups[0])


@pytest.fixture(scope="module")
def footprints(site_of):
    """The footprint of each role by its name."""
    return {role.name: footprint(site_of(role), role) for role in with_footprint()}


def with_footprint():
    """Return the roles that create objects on the hosts of a site."""
    return [role for role in roles() if f"__{role.name}_footprint" in role.vars]


def footprint(site, role):
    """Return the units, the paths and the data of a role, with its defaults of what follows."""
    host = (site.hosts_of(role) or ["controller"])[0]
    merged = {"units": set(), "paths": set(), "data": set()}
    for backend in ("nfs", "moosefs") if role.name == "shared_storage" else ("nfs",):
        more = {"shared_storage_backend": backend, "slurm_state_directory": STATE}
        templar = site.templar(role, host, **more)
        traces = templar.template(trust_as_template(f"{{{{ __{role.name}_footprint }}}}"))
        merged["units"] |= {unit.removesuffix(".service") for unit in traces.get("units", [])}
        merged["data"] |= set(traces.get("data", []))
        for kind in ("own", "replaced", "data", "folders", "mounts"):
            merged["paths"] |= set(traces.get(kind, []))
    return merged


@pytest.fixture(scope="module")
def roles_of(site):
    """The names of the roles whose plays name a group, by the group."""
    names = {}
    for role in with_footprint():
        for group in re.split("[:,]", ":".join(site.patterns_of(role))):
            names.setdefault(group, set()).add(role.name)
    return names


def in_section(section, roles_of):
    return set().union(*(roles_of.get(group, set()) for group in section.groups))


def collected(kind, names, footprints):
    return set().union(*(footprints[name][kind] for name in names))


def pattern(name):
    """Return a name of the page as a pattern, for example of ``mount@<repository>``."""
    return re.sub(r"<\w+>", "*", name)


def is_covered(path, traces):
    """Return whether a path of the page is one of the traces, in one, above one, or a pattern."""
    for trace in traces:
        if is_above(path, trace) or fnmatchcase(trace, path):
            return True
        if fnmatchcase(pattern(path), trace) or fnmatchcase(path, f"{trace}/*"):
            return True
    return False


def is_above(path, trace):
    return trace == path or trace.startswith(f"{path}/")


def test_the_tables_of_ports_are_up_to_date():
    """Run ``python -m tests.roles.hosts_page`` after a change of the flows."""
    assert hosts_page.PAGE.read_text() == hosts_page.page(hosts_page.PAGE.read_text())


def test_every_group_with_a_port_has_a_table_of_ports():
    flows = yaml.safe_load(flows_page.DATA.read_text())["gridstead_flows"]
    groups = {group for flow in flows for group in flow["to"]} - {"slurm_backup_controller"}

    assert set(re.findall(r"<!-- ports (\w+) -->", hosts_page.PAGE.read_text())) == groups


@every_section
def test_units_of_a_section_belong_to_roles_of_its_groups(section, roles_of, footprints):
    known = collected("units", in_section(section, roles_of), footprints)

    units = [pattern(unit.removesuffix(".service")) for unit in section.units]
    assert [unit for unit in units if not any(fnmatchcase(name, unit) for name in known)] == []


def test_every_unit_of_a_role_is_on_the_page(footprints):
    listed = {pattern(unit.removesuffix(".service")) for part in SECTIONS for unit in part.units}
    started_by_timers = {unit.removesuffix(".timer") for unit in listed}
    patterns = listed | started_by_timers | set(UNLISTED)

    missing = set()
    for name in collected("units", footprints, footprints):
        if not any(fnmatchcase(name, unit) for unit in patterns):
            missing.add(name)
    assert missing == set()


@every_section
def test_paths_of_a_section_belong_to_roles_of_its_groups(section, roles_of, footprints):
    known = collected("paths", in_section(section, roles_of), footprints)

    paths = {path for path, _ in section.files} - set(NOT_IN_A_FOOTPRINT)
    assert {path for path in paths if not is_covered(path, known)} == set()


def test_all_data_of_the_roles_is_on_the_page(footprints):
    """Data is what a teardown retains, so an operator may want to back it up."""
    paths = [path for part in SECTIONS for path, _ in part.files]

    missing = set()
    for trace in collected("data", footprints, footprints) - set(UNLISTED_DATA):
        if not any(is_above(path, trace) for path in paths):
            missing.add(trace)
    assert missing == set()


def test_the_column_backup_names_parts_of_a_backup():
    text = (ROOT / "docs/howto/backup.md").read_text()
    parts = set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))

    named = {backup for part in SECTIONS for _, backup in part.files} - {"", "**your own**"}
    assert named == parts


@pytest.mark.parametrize("group", ["control_plane", "grid"])
def test_the_column_backup_marks_what_role_control_plane_backs_up(group, site_of):
    role = next(role for role in roles() if role.name == "control_plane")
    site = site_of(next(role for role in roles() if role.name == "devnet"))
    host = site.inventory.get_hosts(group)[0].name
    section = next(part for part in SECTIONS if group in part.groups)
    marked = {path for path, backup in section.files if backup == "control_plane-HOST"}

    kept = site.templar(role, host).template(
        trust_as_template("{{ __control_plane_archived_directories }}")
    )
    assert marked <= set(kept)
