# SPDX-License-Identifier: Apache-2.0
"""An upgrade of Slurm: its report, its refusals and the order of the hosts."""

import pytest
from ansible_collections.gridstead.site.plugins.filter import upgrade as filters
from ansible_collections.gridstead.site.plugins.modules import slurm_release as release
from tests.roles.catalogue import playbook_plays

# The output of apt-get --simulate --only-upgrade install slurmd libslurm42t64 on Debian 13. apt did
# not print the last three lines.
SIMULATION_OUTPUT = """\
Reading package lists...
Calculating upgrade...
The following packages will be upgraded:
  libslurm42t64 slurmd
2 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.
Inst slurmd [24.11.5-4+deb13u1] (24.11.5-4+deb13u2 local [amd64]) []
Inst libslurm42t64 [24.11.5-4+deb13u1] (24.11.5-4+deb13u2 local [amd64])
Conf libslurm42t64 (24.11.5-4+deb13u2 local [amd64])
Conf slurmd (24.11.5-4+deb13u2 local [amd64])
Inst libslurm43 (25.05.1-1 Debian:13/stable [amd64])
Remv slurmctld [24.11.5-4+deb13u1]
Remv slurmctld:i386 [24.11.5-4+deb13u1] []
"""
DPKG_QUERY_OUTPUT = """\
ii |slurm-wlm|slurmd|24.11.5-4+deb13u1
iF |slurm-wlm|slurmctld|24.11.5-4+deb13u2
rc |slurm-wlm|slurmdbd|24.05.1-1
ii |munge|munge|0.5.16-1
"""
CLUSTER = {
    "accounting": ["db"],
    "controller": ["control"],
    "backup_controller": ["second"],
    "compute": ["compute1", "compute2"],
    "login": ["login"],
}
NO_HOSTS = {stage: [] for stage in CLUSTER}
HOSTS = ("db", "control", "second", "compute1", "compute2", "login")
OLD, FIXED, NEXT = "24.11.5-4+deb13u1", "24.11.5-4+deb13u2", "25.05.3-1"


def release_facts(version=OLD, target=FIXED, **more):
    """Return the result of module slurm_release for a host with one package.

    ``target`` is the version that apt would install.
    """
    facts = {
        "version": version,
        "target": target,
        "newer": [],
        "removed": [],
        "unfinished": [],
        "stale": [],
        "problem": "",
    }
    if target != version:
        facts["newer"] = [{"name": "slurmd", "from": version, "to": target}]
    return facts | more


def refusals(**hosts):
    """Return the refusals of an upgrade of these hosts. All other hosts get a patch release."""
    return filters.upgrade_refusals(dict.fromkeys(HOSTS, release_facts()) | hosts, CLUSTER)


def test_apt_changes_are_read_from_its_simulation():
    newer_packages, removed_packages = release.changes(SIMULATION_OUTPUT)

    assert newer_packages == [
        ("libslurm42t64", OLD, FIXED),
        ("libslurm43", "", "25.05.1-1"),
        ("slurmd", OLD, FIXED),
    ]
    assert removed_packages == ["slurmctld", "slurmctld:i386"]


def test_an_unconfigured_package_is_installed_and_a_removed_package_is_not():
    packages = release.installed(DPKG_QUERY_OUTPUT, "slurm-wlm")

    # Each value is the version, and whether the package is configured.
    assert packages == {"slurmd": (OLD, True), "slurmctld": (FIXED, False)}


def test_a_patch_release_on_all_hosts_is_accepted():
    assert refusals() == []


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ({"compute2": {}}, "compute2 does not answer"),
        ({"compute2": {"unreachable": True, "msg": "no route"}}, "compute2 does not answer"),
        ({"login": release_facts(version="")}, "login has no package of Slurm from Debian"),
        (
            {"db": release_facts(problem="E: Unmet dependencies.\n")},
            "db: apt reports: E: Unmet dependencies.",
        ),
        ({"control": release_facts(removed=["slurmctld"])}, "control: apt would remove slurmctld"),
        (
            {"login": release_facts(target="24.11.4-1")},
            f"login: Slurm would be downgraded from {OLD} to 24.11.4-1",
        ),
        (
            {"db": release_facts(target="26.11.0-1")},
            "db: 26.11 is more than 2 series newer than 24.11",
        ),
        (
            {"compute2": release_facts(target=NEXT)},
            f"slurmd {NEXT} on compute2 would be newer than slurmctld {FIXED} on control",
        ),
        (
            {"login": release_facts(target=NEXT)},
            f"the commands {NEXT} on login would be newer than slurmdbd {FIXED} on db",
        ),
        (
            {"compute1": release_facts(target=NEXT), "compute2": release_facts(target=NEXT)},
            f"slurmd {NEXT} on compute1, compute2 would be newer than slurmdbd {FIXED} on db",
        ),
        (
            {"compute1": release_facts(version="23.02.7-1", target="23.02.7-1")},
            (
                "slurmd 23.02.7-1 on compute1 would be more than 2 series older"
                f" than slurmctld {FIXED} on control"
            ),
        ),
    ],
)
def test_an_unsupported_upgrade_is_refused(hosts, reason):
    reasons = refusals(**hosts)

    assert any(text.startswith(reason) for text in reasons), reasons


def test_both_controllers_must_have_one_version():
    without_backup = {"db": release_facts(target=NEXT), "control": release_facts(target=NEXT)}

    assert refusals(**without_backup) == [
        f"the backup slurmctld {FIXED} on second would be older than slurmctld {NEXT} on control"
    ]
    assert refusals(**without_backup, second=release_facts(target=NEXT)) == []


def test_slurmdbd_may_be_newer_than_slurmctld_and_the_nodes():
    newer = release_facts(target=NEXT)
    newest = release_facts(target="25.11.1-1")
    all_but_one_node = dict.fromkeys(set(HOSTS) - {"compute1"}, newer)

    assert refusals(db=newer) == []
    assert refusals(db=newest, control=newer, second=newer) == []
    assert refusals(**all_but_one_node) == []


def test_hosts_without_changes_are_skipped():
    upgraded_facts = release_facts(version=FIXED)
    releases = dict.fromkeys(HOSTS, upgraded_facts) | {
        "compute2": upgraded_facts | {"stale": ["slurmd"]},
        "login": release_facts(),
        "db": upgraded_facts | {"unfinished": ["slurmdbd"]},
    }

    assert filters.upgrade_stages(dict.fromkeys(HOSTS, upgraded_facts), CLUSTER) == NO_HOSTS
    assert filters.upgrade_stages(releases, CLUSTER) == {
        "accounting": ["db"],
        "controller": [],
        "backup_controller": [],
        "compute": ["compute2"],
        "login": ["login"],
    }


def test_a_host_with_several_components_is_upgraded_only_in_the_first_stage():
    same_host = {stage: ["all"] for stage in CLUSTER}

    assert filters.upgrade_stages({"all": release_facts()}, same_host) == NO_HOSTS | {
        "accounting": ["all"]
    }


def test_the_report_lists_the_newer_versions_of_each_host():
    releases = {
        "compute2": release_facts(),
        "compute1": release_facts(),
        "db": release_facts(version=FIXED, stale=["slurmdbd"]),
        "login": release_facts(newer=[{"name": "libslurm43", "from": "", "to": NEXT}]),
    }

    assert filters.upgrade_changes(releases) == [
        f"libslurm43 nothing -> {NEXT}: login",
        f"slurmd {OLD} -> {FIXED}: compute1, compute2",
        "slurmdbd runs a program that was replaced: db",
    ]


@pytest.mark.parametrize(
    ("target", "is_new_series"), [(FIXED, False), ("24.11.9-1", False), (NEXT, True)]
)
def test_a_release_series_is_year_and_month(target, is_new_series):
    assert filters.changes_series(release_facts(target=target)) is is_new_series


def test_the_plays_follow_slurms_order_after_the_backup():
    plays = playbook_plays("upgrade")
    names = [play.get("hosts") or play["ansible.builtin.import_playbook"] for play in plays]
    names = [name for name in names if name.startswith(("upgrade_", "wheel", "backup"))]

    assert names == [
        "wheel.yml",  # The backup compares the wheel with the release on the hosts.
        "backup.yml",
        *(f"upgrade_{stage}" for stage in filters.STAGES),
    ]
