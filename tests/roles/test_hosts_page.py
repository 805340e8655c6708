# SPDX-License-Identifier: Apache-2.0
"""docs/reference/hosts.md lists the units, ports and data of the roles of each group.

The footprint of a role, variable ``__<role>_footprint``, lists the objects that the role creates on
a host. A trace is one of these objects: a unit, or a path on the host. Data are the paths that
a teardown retains by default.
"""

import re
from fnmatch import fnmatchcase

import pytest
from ansible.template import trust_as_template
from tests.roles import flows_page, hosts_page
from tests.roles.catalogue import ROOT, Role, roles
from tests.yaml_files import read_yaml

STATE = Role("slurm").defaults["slurm_state_directory"]
SECTIONS = hosts_page.sections()
# Units that the page does not list.
UNLISTED = {
    "dirsrv-snmp": "a unit of the package that no role uses",
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
NOT_IN_A_FOOTPRINT = {"/var/lib/gridstead/before": "removed last by the role named footprint"}
every_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda item: item.groups[0])


@pytest.fixture(scope="module")
def footprints(site_of):
    """Return the units, the paths and the data of each role's footprint, by role name."""
    return {role.name: footprint(site_of(role), role) for role in with_footprint()}


def with_footprint():
    """Return the roles that create objects on the hosts of a site."""
    return [role for role in roles() if f"__{role.name}_footprint" in role.vars]


def footprint(site, role):
    """Return the units, the paths and the data of a role.

    Setting slurm_state_directory has its default value. The result for role shared_storage is the
    union of its footprints with NFS and with MooseFS, the two back ends that the role itself runs.
    """
    host = (site.hosts_of(role) or ["controller"])[0]
    backends = ("nfs", "moosefs") if role.name == "shared_storage" else ("nfs",)
    merged_traces = {"units": set(), "paths": set(), "data": set()}
    for backend in backends:
        variables = {"shared_storage_backend": backend, "slurm_state_directory": STATE}
        templar = site.templar(role, host, **variables)
        traces = templar.template(trust_as_template(f"{{{{ __{role.name}_footprint }}}}"))
        merged_traces["units"] |= {
            unit.removesuffix(".service") for unit in traces.get("units", [])
        }
        merged_traces["data"] |= set(traces.get("data", []))
        for kind in ("own", "replaced", "data", "folders", "mounts"):
            merged_traces["paths"] |= set(traces.get(kind, []))
    return merged_traces


@pytest.fixture(scope="module")
def roles_of(site):
    """Return the names of the roles whose plays run on the hosts of each group, by group."""
    names = {}
    for role in with_footprint():
        for group in re.split("[:,]", ":".join(site.patterns_of(role))):
            names.setdefault(group, set()).add(role.name)
    return names


def merged_footprints(kind, names, footprints):
    """Return the objects of a kind in the footprints of the named roles."""
    merged = set()
    for name in names:
        merged |= footprints[name][kind]
    return merged


def objects_of_section(kind, section, roles_of, footprints):
    """Return the objects of a kind in the footprints of all roles of a section's groups."""
    names = set()
    for group in section.groups:
        names |= roles_of.get(group, set())
    return merged_footprints(kind, names, footprints)


def pattern(name):
    """Return a name of the page as a pattern: ``mount@<repository>`` becomes ``mount@*``."""
    return re.sub(r"<\w+>", "*", name)


def is_covered(path, traces):
    """Return whether one of the traces explains a path of the page.

    The path is a trace, contains a trace, is inside a trace, or is a pattern that matches a trace.
    Both a trace and a path of the page can be a pattern of fnmatch.
    """
    return any(
        is_above(path, trace) or is_inside(path, trace) or is_match(path, trace) for trace in traces
    )


def is_inside(path, trace):
    """Return whether a path is inside a folder that is the trace or matches the trace."""
    return fnmatchcase(path, f"{trace}/*")


def is_match(path, trace):
    """Return whether path and trace are equal, or one is a pattern that matches the other."""
    return fnmatchcase(trace, path) or fnmatchcase(pattern(path), trace)


def is_above(path, trace):
    """Return whether a path is the trace or a folder that contains the trace."""
    return trace == path or trace.startswith(f"{path}/")


def test_the_tables_of_ports_are_up_to_date():
    """After a change of flows.yml, ``python -m tests.roles.hosts_page`` updates the page."""
    assert hosts_page.PAGE.read_text() == hosts_page.page(hosts_page.PAGE.read_text())


def test_every_group_with_a_port_has_a_table_of_ports():
    groups = set()
    for flow in read_yaml(flows_page.DATA)["gridstead_flows"]:
        groups |= set(flow["to"])

    tables = re.findall(r"<!-- ports (\w+) -->", hosts_page.PAGE.read_text())
    # The page describes this group in the section of slurm_controller.
    assert set(tables) == groups - {"slurm_backup_controller"}


@every_section
def test_units_of_a_section_belong_to_roles_of_its_groups(section, roles_of, footprints):
    role_units = objects_of_section("units", section, roles_of, footprints)

    for unit in section.units:
        unit_pattern = pattern(unit.removesuffix(".service"))
        assert any(fnmatchcase(name, unit_pattern) for name in role_units), unit


def test_every_unit_of_a_role_is_on_the_page(footprints):
    patterns = set(UNLISTED)
    for section in SECTIONS:
        for unit in section.units:
            unit_pattern = pattern(unit.removesuffix(".service"))
            # A timer starts the service of the same name.
            patterns |= {unit_pattern, unit_pattern.removesuffix(".timer")}

    for name in merged_footprints("units", list(footprints), footprints):
        assert any(fnmatchcase(name, unit) for unit in patterns), name


@every_section
def test_paths_of_a_section_belong_to_roles_of_its_groups(section, roles_of, footprints):
    role_paths = objects_of_section("paths", section, roles_of, footprints)

    for path, _ in section.files:
        assert path in NOT_IN_A_FOOTPRINT or is_covered(path, role_paths), path


def test_all_data_of_the_roles_is_on_the_page(footprints):
    """Data is what a teardown retains, so an operator may want to back it up."""
    listed_paths = [path for path, _ in listed_files()]

    for trace in merged_footprints("data", list(footprints), footprints) - set(UNLISTED_DATA):
        assert any(is_above(path, trace) for path in listed_paths), trace


def listed_files():
    """Yield each path of the page with its cell of column backup."""
    for section in SECTIONS:
        yield from section.files


def test_the_column_backup_names_every_part_of_a_backup():
    text = (ROOT / "docs/howto/backup.md").read_text()
    parts = set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))

    named_parts = {backup for _, backup in listed_files()}
    assert named_parts - {"", "**your own**"} == parts


@pytest.mark.parametrize("group", ["control_plane", "grid"])
def test_paths_marked_as_part_of_control_plane_are_backed_up_by_the_role(group, site_of):
    role = Role("control_plane")
    # The inventory with a private chain has hosts of both groups.
    site = site_of(Role("devnet"))
    host = site.inventory.get_hosts(group)[0].name
    section = next(section for section in SECTIONS if group in section.groups)
    marked_paths = {path for path, backup in section.files if backup == "control_plane-HOST"}

    backed_up_paths = site.templar(role, host).template(
        trust_as_template("{{ __control_plane_archived_directories }}")
    )
    assert marked_paths <= set(backed_up_paths)
