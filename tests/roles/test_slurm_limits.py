# SPDX-License-Identifier: Apache-2.0
"""Module slurm_accounting: the commands of sacctmgr for the limits of QOS and accounts."""

from types import SimpleNamespace

import pytest
from ansible_collections.gridstead.site.plugins.module_utils import slurm_limits as limits
from ansible_collections.gridstead.site.plugins.modules import slurm_accounting as accounting
from tests.roles.catalogue import Role
from tests.roles.conftest import trust_templates
from tests.yaml_files import read_yaml

ROLE = Role("slurm").path

NEW_QOS = dict.fromkeys(limits.QOS, "") | {
    "GraceTime": "00:00:00",
    "PreemptMode": "cluster",
    "Priority": "0",
    "UsageFactor": "1.000000",
}
NEW_ACCOUNT = dict.fromkeys(limits.ACCOUNT, "") | {"Fairshare": "1", "QOS": "normal"}


class Sacctmgr:
    """A fake AnsibleModule with a fake sacctmgr, which stores changes and records its commands."""

    check_mode = False

    def __init__(self):
        self.qos = {"normal": dict(NEW_QOS)}
        self.accounts = {"root": dict(NEW_ACCOUNT), "grid": dict(NEW_ACCOUNT)}
        self.commands = []
        self.has_slurmdbd = True

    def run_command(self, argv, check_rc):
        """Return exit code, stdout and stderr of sacctmgr."""
        assert self.has_slurmdbd or not check_rc
        if "show" in argv:
            return 0, self.show(argv), ""
        self.commands.append(" ".join(argv[2:]))
        _, _, action, entity, *words = argv
        objects = self.qos if entity == "qos" else self.accounts
        if action == "add":
            objects[words[0]] = dict(NEW_QOS if entity == "qos" else NEW_ACCOUNT)
        else:
            settings = objects[words[1].removeprefix("name=")]
            for assignment in words[words.index("set") + 1 :]:
                key, _, value = assignment.partition("=")
                settings[key] = self.changed_value(settings[key], value)
        return 0, "", ""

    def show(self, argv):
        """Return one line for each QOS or account. The line contains the requested fields."""
        assert argv[:4] == ["sacctmgr", "--noheader", "--parsable2", "show"]
        if not self.has_slurmdbd:
            return ""
        fields = argv[-1].removeprefix("format=").split(",")[1:]
        objects = self.qos if argv[4] == "qos" else self.accounts
        lines = []
        for name, settings in objects.items():
            values = [settings[field] for field in fields]
            lines.append("|".join([name, *values]))
        return "\n".join(lines)

    def changed_value(self, old, new):
        """Return the value of a setting after a change.

        ``-1`` removes the value, and ``cpu=-1`` removes TRES cpu from the value.
        """
        if new == "-1":
            return ""
        if "=-1" not in new:
            return new
        amounts = dict(limits.parse_tres(old))
        for part in new.split(","):
            name, _, amount = part.partition("=")
            if amount == "-1":
                amounts.pop(name, None)
        return ",".join(f"{name}={amount}" for name, amount in amounts.items())

    def apply(self, qos=None, accounts=()):
        """Apply limits. Return the commands of sacctmgr and the changes that the module reports."""
        self.commands = []
        module = accounting.Accounting(self)
        module.set_qos(qos or {})
        defaults = {"description": None, "settings": None}
        module.set_accounts([defaults | account for account in accounts], "gridstead")
        return SimpleNamespace(commands=self.commands, changes=module.changes)


@pytest.fixture
def sacctmgr():
    return Sacctmgr()


LONG_QOS = {
    "MaxWall": "7-00:00:00",
    "MaxTRESPerUser": "cpu=4,gres/gpu=1",
    "Flags": ["DenyOnLimit", "NoReserve"],
    "Priority": 5,
}
LONG_SETTINGS = (
    "Flags=DenyOnLimit,NoReserve MaxTRESPerUser=cpu=4,gres/gpu=1 MaxWall=7-00:00:00 Priority=5"
)


def test_a_new_qos_is_created_with_its_settings(sacctmgr):
    assert sacctmgr.apply({"long": LONG_QOS}).commands == [
        "add qos long",
        f"modify qos where name=long set {LONG_SETTINGS}",
    ]


def test_a_second_run_changes_nothing(sacctmgr):
    desired_settings = {
        "qos": {"long": LONG_QOS, "Bare": None},
        "accounts": [{"name": "Physics", "settings": {"MaxJobs": 3}}],
    }
    sacctmgr.apply(**desired_settings)

    result = sacctmgr.apply(**desired_settings)

    assert result.commands == []
    assert result.changes == []


def test_a_changed_setting_is_sent_without_the_unchanged_settings(sacctmgr):
    sacctmgr.apply({"long": LONG_QOS})

    result = sacctmgr.apply({"long": LONG_QOS | {"Priority": 6}})

    assert result.commands == ["modify qos where name=long set Priority=6"]
    assert result.changes == ["qos long: Priority=6"]


def test_removed_settings_are_reset(sacctmgr):
    sacctmgr.apply({"long": LONG_QOS | {"Preempt": "normal", "PreemptMode": "requeue"}})

    result = sacctmgr.apply({"long": {"MaxTRESPerUser": "cpu=4"}})

    (command,) = result.commands
    assert command == (
        "modify qos where name=long set Flags=-1 MaxTRESPerUser=cpu=4,gres/gpu=-1 MaxWall=-1"
        " Preempt= PreemptMode=cluster Priority=-1"
    )


def test_an_undeclared_qos_is_not_changed(sacctmgr):
    sacctmgr.qos["undeclared"] = NEW_QOS | {"MaxWall": "01:00:00"}

    assert sacctmgr.apply({"normal": {}}).commands == []


def test_the_limits_of_a_qos_without_declared_settings_are_not_changed(sacctmgr):
    sacctmgr.qos["short"] = NEW_QOS | {"MaxWall": "01:00:00"}

    assert sacctmgr.apply({"short": None, "new": None}).commands == ["add qos new"]


def test_qos_limits_are_set_after_slurmctld_registered_the_gpus(site):
    """sacctmgr refuses gres/gpu before the first start of slurmctld. This start needs the QOS.
    Therefore, the QOS are first created without limits.
    """
    qos = {"gpu": {"MaxTRESPerUser": "gres/gpu=2"}}
    templar = site.templar(Role("slurm"), "controller", slurm_qos=qos)
    tasks = trust_templates(read_yaml(ROLE / "tasks/controller.yml"))
    names = [task["name"] for task in tasks]
    starts = (
        names.index("Restart the Slurm daemons whose configuration has changed"),
        names.index("Start slurmctld and slurmrestd"),
    )

    key = "gridstead.site.slurm_accounting"
    first, second = [number for number, task in enumerate(tasks) if key in task]

    assert first < min(starts)
    assert templar.template(tasks[first][key]["qos"]) == {"gpu": None}
    assert second > max(starts)
    assert templar.template(tasks[second][key]["qos"]) == qos


def test_an_account_without_settings_retains_its_limits(sacctmgr):
    sacctmgr.accounts["grid"]["MaxJobs"] = "3"

    assert sacctmgr.apply(accounts=[{"name": "grid"}, {"name": "new"}]).commands == [
        "add account new Cluster=gridstead Description=new"
    ]


def test_an_account_gets_its_limits_in_this_cluster(sacctmgr):
    commands = sacctmgr.apply(
        accounts=[{"name": "grid", "settings": {"GrpTRES": "cpu=64", "QOS": ["normal", "long"]}}]
    ).commands

    assert commands == [
        "modify account where name=grid cluster=gridstead set GrpTRES=cpu=64 QOS=normal,long"
    ]


def test_an_account_without_qos_inherits_the_parents_qos(sacctmgr):
    sacctmgr.accounts["grid"]["QOS"] = "long,normal"
    sacctmgr.accounts["root"]["QOS"] = "normal"

    (command,) = sacctmgr.apply(accounts=[{"name": "grid", "settings": {}}]).commands

    assert command == "modify account where name=grid cluster=gridstead set QOS=normal"


@pytest.mark.parametrize("has_slurmdbd", [True, False])
def test_check_mode_changes_nothing_and_reports_new_objects(sacctmgr, has_slurmdbd):
    sacctmgr.check_mode = True
    sacctmgr.has_slurmdbd = has_slurmdbd

    result = sacctmgr.apply(
        {"long": {"MaxWall": 90}}, [{"name": "new", "settings": {"MaxJobs": 3}}]
    )

    assert result.commands == []
    assert result.changes == [
        "qos long",
        "qos long: MaxWall=90",
        "account new",
        "account new: MaxJobs=3",
    ]


EQUAL_VALUES = [
    ("MaxWall", "90", "01:30:00"),
    ("MaxWall", "30:30", "00:31:00"),
    ("MaxWall", "1-2", "1-02:00:00"),
    ("GrpWall", "100:00:00", "4-04:00:00"),
    ("GraceTime", 120, "00:02:00"),
    ("MaxTRESPerUser", "mem=2048,CPU=4", "cpu=4,mem=2G"),
    ("GrpTRES", "gres/gpu=2000,mem=2500", "gres/gpu=2000,mem=2500M"),
    ("GrpTRES", "mem=1T", "mem=1048576M"),
    ("Flags", "noreserve,DenyOnLimit", "DenyOnLimit,NoReserve"),
    ("UsageFactor", 0.5, "0.500000"),
    ("UsageFactor", "-1", "1.000000"),
    ("MaxJobsPerUser", None, ""),
    ("Priority", 0, "0"),
]


@pytest.mark.parametrize(("name", "desired", "current"), EQUAL_VALUES)
def test_two_notations_of_the_same_value_are_not_a_difference(name, desired, current):
    """The current values are from the output of sacctmgr 24.11.5."""
    assert limits.changed_settings(limits.QOS, {name: desired}, {name: current}) == {}


@pytest.mark.parametrize(
    ("desired", "current", "changes"),
    [("Parent", "parent", {}), (None, "parent", {"Fairshare": "-1"})],
)
def test_an_account_may_inherit_the_share_of_its_parent(desired, current, changes):
    assert (
        limits.changed_settings(limits.ACCOUNT, {"Fairshare": desired}, {"Fairshare": current})
        == changes
    )
    assert list(limits.invalid_settings(limits.ACCOUNT, {"Fairshare": desired})) == []


UNREADABLE_VALUES = [
    ("Priority", 5, "first", "5"),
    ("MaxWall", None, "UNLIMITED", "-1"),
    ("GrpTRES", "cpu=4", "cpu=N/A,1002=2", "cpu=4,1002=-1"),
]


@pytest.mark.parametrize(("name", "desired", "current", "change"), UNREADABLE_VALUES)
def test_a_current_value_that_cannot_be_parsed_is_replaced(name, desired, current, change):
    assert limits.changed_settings(limits.QOS, {name: desired}, {name: current}) == {name: change}


DIFFERENT_VALUES = [
    ("MaxWall", "90", "00:01:30"),
    ("MaxTRESPerUser", "mem=2048", "mem=2048G"),
    ("GrpTRESMins", "cpu=1000", "cpu=1"),
    ("MaxJobsPerUser", 0, ""),
    ("Flags", "DenyOnLimit", ""),
]


@pytest.mark.parametrize(("name", "desired", "current"), DIFFERENT_VALUES)
def test_different_values_are_a_difference(name, desired, current):
    assert limits.changed_settings(limits.QOS, {name: desired}, {name: current}) == {
        name: limits.to_sacctmgr_text(desired)
    }


INVALID_SETTINGS = [
    (
        {"MaxWal": 1},
        "MaxWal",
        "there is no such setting; did you mean MaxWall?",
        "one of Flags, GraceTime",
    ),
    (
        {"MaxJobs": 1},
        "MaxJobs",
        "there is no such setting; did you mean MaxJobsPerUser?",
        "one of Flags",
    ),
    ({"MaxWall": "a week"}, "MaxWall", '"a week"', "minutes"),
    ({"MaxTRESPerUser": "4"}, "MaxTRESPerUser", '"4"', "such as cpu=4"),
    ({"MaxTRESPerUser": "cpu=4G=2"}, "MaxTRESPerUser", '"cpu=4G=2"', "such as cpu=4"),
    (
        {"MaxWall": 43200},
        "MaxWall",
        "43200, which is how YAML reads 12:00:00",
        "[D-]HH:MM:SS in quotes, or minutes in quotes",
    ),
    ("MaxWall=04:00:00", "", '"MaxWall=04:00:00"', "settings by name"),
    ([], "", '"[]"', "settings by name"),
    ({"MaxJobsPerUser": "many"}, "MaxJobsPerUser", '"many"', "a whole number"),
]


@pytest.mark.parametrize(("desired", "name", "fault", "allowed"), INVALID_SETTINGS)
def test_an_invalid_setting_is_reported(desired, name, fault, allowed):
    ((reported_name, reported_fault, reported_allowed),) = limits.invalid_settings(
        limits.QOS, desired
    )

    assert reported_name == name
    assert reported_fault == fault
    assert allowed in reported_allowed


@pytest.mark.parametrize(
    "desired", [{"MaxWall": 3599}, {"MaxWall": "43200"}, {"GraceTime": 43200}, {}, None]
)
def test_an_unambiguous_number_is_accepted(desired):
    """YAML reads 12:00:00 as 43200, so an unquoted 43200 is ambiguous for MaxWall.

    A plain number for GraceTime is always in seconds.
    """
    assert list(limits.invalid_settings(limits.QOS, desired)) == []


@pytest.mark.parametrize("desired", ["UNLIMITED", "infinite", "7-00:00:00", "90", 90, "12:00:00"])
def test_a_partition_accepts_the_time_formats_of_slurm_conf(desired):
    assert list(limits.invalid_settings(limits.PARTITION_TIMES, {"MaxTime": desired})) == []


@pytest.mark.parametrize("desired", [43200, "a day", "1d"])
def test_a_partition_refuses_a_time_that_is_not_in_slurms_format(desired):
    ((name, _, allowed),) = limits.invalid_settings(limits.PARTITION_TIMES, {"MaxTime": desired})

    assert name == "MaxTime"
    assert "[D-]HH:MM:SS in quotes" in allowed
