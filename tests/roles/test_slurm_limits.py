# SPDX-License-Identifier: Apache-2.0
"""QOS and accounts with limits: the commands to sacctmgr, without unnecessary commands."""

from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.gridstead.site.plugins.module_utils import slurm_limits as limits
from ansible_collections.gridstead.site.plugins.modules import slurm_accounting as accounting
from tests.roles.catalogue import Role
from tests.roles.conftest import trust_templates

ROLE = Role("slurm").path

NEW_QOS = dict.fromkeys(limits.QOS, "") | {
    "GraceTime": "00:00:00",
    "PreemptMode": "cluster",
    "Priority": "0",
    "UsageFactor": "1.000000",
}
NEW_ACCOUNT = dict.fromkeys(limits.ACCOUNT, "") | {"Fairshare": "1", "QOS": "normal"}


class Sacctmgr:
    """A fake sacctmgr that stores changes and records the commands."""

    check_mode = False

    def __init__(self):
        self.qos = {"normal": dict(NEW_QOS)}
        self.accounts = {"root": dict(NEW_ACCOUNT), "grid": dict(NEW_ACCOUNT)}
        self.commands = []
        self.answers = True

    def run_command(self, argv, check_rc):
        assert self.answers or not check_rc
        if "show" in argv:
            assert argv[:4] == ["sacctmgr", "--noheader", "--parsable2", "show"]
            fields = argv[-1].removeprefix("format=").split(",")[1:]
            rows = self.qos if argv[4] == "qos" else self.accounts
            lines = [
                "|".join([name, *(row[field] for field in fields)]) for name, row in rows.items()
            ]
            return 0, "\n".join(lines) if self.answers else "", ""
        self.commands.append(" ".join(argv[2:]))
        kind, new = (self.qos, NEW_QOS) if argv[3] == "qos" else (self.accounts, NEW_ACCOUNT)
        if argv[2] == "add":
            kind[argv[4]] = dict(new)
        else:
            name = argv[5].removeprefix("name=")
            for item in argv[argv.index("set") + 1 :]:
                key, _, value = item.partition("=")
                kept = dict(limits.tres(kind[name][key])) if value.endswith("=-1") else {}
                gone = [part.partition("=")[0] for part in value.split(",") if part.endswith("=-1")]
                left = [f"{key}={amount}" for key, amount in kept.items() if key not in gone]
                kind[name][key] = ",".join(left) if gone else "" if value == "-1" else value
        return 0, "", ""

    def keep(self, qos=None, accounts=()):
        """Apply the limits and return the commands to sacctmgr."""
        self.commands = []
        kept = accounting.Accounting(self)
        kept.set_qos(qos or {})
        filled = [{"description": None, "settings": None} | account for account in accounts]
        kept.set_accounts(filled, "gridstead")
        return SimpleNamespace(commands=self.commands, changes=kept.changes)


@pytest.fixture
def sacctmgr():
    return Sacctmgr()


LONG = {
    "MaxWall": "7-00:00:00",
    "MaxTRESPerUser": "cpu=4,gres/gpu=1",
    "Flags": ["DenyOnLimit", "NoReserve"],
    "Priority": 5,
}
MORE = "Flags=DenyOnLimit,NoReserve MaxTRESPerUser=cpu=4,gres/gpu=1 MaxWall=7-00:00:00 Priority=5"


def test_a_new_qos_is_created_with_its_settings(sacctmgr):
    assert sacctmgr.keep({"long": LONG}).commands == [
        "add qos long",
        f"modify qos where name=long set {MORE}",
    ]


def test_a_second_run_changes_nothing(sacctmgr):
    asked = {
        "qos": {"long": LONG, "Bare": None},
        "accounts": [{"name": "Physics", "settings": {"MaxJobs": 3}}],
    }
    sacctmgr.keep(**asked)

    kept = sacctmgr.keep(**asked)

    assert (kept.commands, kept.changes) == ([], [])


def test_only_differences_are_sent(sacctmgr):
    sacctmgr.keep({"long": LONG})

    kept = sacctmgr.keep({"long": LONG | {"Priority": 6}})

    assert kept.commands == ["modify qos where name=long set Priority=6"]
    assert kept.changes == ["qos long: Priority=6"]


def test_removed_settings_are_reset(sacctmgr):
    sacctmgr.keep({"long": LONG | {"Preempt": "normal", "PreemptMode": "requeue"}})

    kept = sacctmgr.keep({"long": {"MaxTRESPerUser": "cpu=4"}})

    taken_back = "Flags=-1 MaxTRESPerUser=cpu=4,gres/gpu=-1 MaxWall=-1 Preempt= PreemptMode=cluster Priority=-1"
    assert kept.commands == [f"modify qos where name=long set {taken_back}"]


def test_an_undeclared_qos_is_not_changed(sacctmgr):
    sacctmgr.qos["mine"] = NEW_QOS | {"MaxWall": "01:00:00"}

    assert sacctmgr.keep({"normal": {}}).commands == []


def test_a_qos_without_settings_is_created_and_retains_its_limits(sacctmgr):
    sacctmgr.qos["short"] = NEW_QOS | {"MaxWall": "01:00:00"}

    assert sacctmgr.keep({"short": None, "new": None}).commands == ["add qos new"]


def test_qos_limits_are_set_after_slurmctld_registered_the_gpus(site):
    """sacctmgr refuses gres/gpu until slurmctld has run, and slurmctld does not start without the
    QOS.
    """
    templar = site.templar(
        Role("slurm"), "controller", slurm_qos={"gpu": {"MaxTRESPerUser": "gres/gpu=2"}}
    )
    tasks = trust_templates(yaml.safe_load((ROLE / "tasks/controller.yml").read_text()))
    names = [task["name"] for task in tasks]
    starts = (
        names.index("Restart the daemons whose configuration has changed"),
        names.index("Start slurmctld and slurmrestd"),
    )

    said = {
        n: task["gridstead.site.slurm_accounting"]["qos"]
        for n, task in enumerate(tasks)
        if "gridstead.site.slurm_accounting" in task
    }
    made, limited = said.items()

    assert made[0] < min(starts)
    assert templar.template(made[1]) == {"gpu": None}
    assert limited[0] > max(starts)
    assert templar.template(limited[1]) == {"gpu": {"MaxTRESPerUser": "gres/gpu=2"}}


def test_an_account_without_settings_retains_its_limits(sacctmgr):
    sacctmgr.accounts["grid"]["MaxJobs"] = "3"

    assert sacctmgr.keep(accounts=[{"name": "grid"}, {"name": "new"}]).commands == [
        "add account new Cluster=gridstead Description=new"
    ]


def test_an_account_gets_its_limits_in_this_cluster(sacctmgr):
    commands = sacctmgr.keep(
        accounts=[{"name": "grid", "settings": {"GrpTRES": "cpu=64", "QOS": ["normal", "long"]}}]
    ).commands

    assert commands == [
        "modify account where name=grid cluster=gridstead set GrpTRES=cpu=64 QOS=normal,long"
    ]


def test_an_account_without_qos_inherits_the_parents_qos(sacctmgr):
    sacctmgr.accounts["grid"]["QOS"] = "long,normal"
    sacctmgr.accounts["root"]["QOS"] = "normal"

    (commands,) = sacctmgr.keep(accounts=[{"name": "grid", "settings": {}}]).commands

    assert commands == "modify account where name=grid cluster=gridstead set QOS=normal"


@pytest.mark.parametrize("answers", [True, False])
def test_check_mode_changes_nothing_and_reports_new_objects(sacctmgr, answers):
    sacctmgr.check_mode, sacctmgr.answers = True, answers

    kept = sacctmgr.keep({"long": {"MaxWall": 90}}, [{"name": "new", "settings": {"MaxJobs": 3}}])

    assert kept.commands == []
    assert kept.changes == [
        "qos long",
        "qos long: MaxWall=90",
        "account new",
        "account new: MaxJobs=3",
    ]


SAME = [
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
]  # fmt: skip


@pytest.mark.parametrize(("name", "asked", "shown"), SAME)
def test_different_notations_of_a_value_are_equal(name, asked, shown):
    """The values are the output of sacctmgr 24.11.5."""
    assert limits.settings(limits.QOS, {name: asked}, {name: shown}) == {}


@pytest.mark.parametrize(
    ("asked", "shown", "commands"),
    [("Parent", "parent", {}), (None, "parent", {"Fairshare": "-1"})],
)
def test_an_account_may_inherit_its_parents_share(asked, shown, commands):
    assert limits.settings(limits.ACCOUNT, {"Fairshare": asked}, {"Fairshare": shown}) == commands
    assert list(limits.faults(limits.ACCOUNT, {"Fairshare": asked})) == []


UNREADABLE = [
    ("Priority", 5, "first", "5"),
    ("MaxWall", None, "UNLIMITED", "-1"),
    ("GrpTRES", "cpu=4", "cpu=N/A,1002=2", "cpu=4,1002=-1"),
]


@pytest.mark.parametrize(("name", "asked", "shown", "commands"), UNREADABLE)
def test_an_unreadable_value_is_a_difference(name, asked, shown, commands):
    assert limits.settings(limits.QOS, {name: asked}, {name: shown}) == {name: commands}


OTHER = [
    ("MaxWall", "90", "00:01:30"),
    ("MaxTRESPerUser", "mem=2048", "mem=2048G"),
    ("GrpTRESMins", "cpu=1000", "cpu=1"),
    ("MaxJobsPerUser", 0, ""),
    ("Flags", "DenyOnLimit", ""),
]


@pytest.mark.parametrize(("name", "asked", "shown"), OTHER)
def test_different_values_are_a_difference(name, asked, shown):
    assert limits.settings(limits.QOS, {name: asked}, {name: shown}) == {
        name: limits.to_text(asked)
    }


WRONG = [
    (
        {"MaxWal": 1},
        "MaxWal",
        "there is no such setting",
        "did you mean MaxWall? one of Flags, GraceTime",
    ),
    ({"MaxJobs": 1}, "MaxJobs", "there is no such setting", "one of Flags"),
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


@pytest.mark.parametrize(("asked", "name", "seen_value", "allowed"), WRONG)
def test_an_invalid_setting_is_reported(asked, name, seen_value, allowed):
    ((where, what, may_be),) = limits.faults(limits.QOS, asked)

    assert (where, what) == (name, seen_value)
    assert may_be.partition(allowed)[1]


@pytest.mark.parametrize(
    "asked", [{"MaxWall": 3599}, {"MaxWall": "43200"}, {"GraceTime": 43200}, {}, None]
)
def test_an_unambiguous_number_is_accepted(asked):
    """A plain number for GraceTime is in seconds."""
    assert list(limits.faults(limits.QOS, asked)) == []


@pytest.mark.parametrize("asked", ["UNLIMITED", "infinite", "7-00:00:00", "90", 90, "12:00:00"])
def test_a_partition_accepts_the_time_formats_of_slurm_conf(asked):
    assert list(limits.faults(limits.PARTITION_TIMES, {"MaxTime": asked})) == []


@pytest.mark.parametrize("asked", [43200, "a day", "1d"])
def test_a_partition_refuses_other_time_formats(asked):
    ((where, _, allowed),) = limits.faults(limits.PARTITION_TIMES, {"MaxTime": asked})

    assert where == "MaxTime"
    assert "[D-]HH:MM:SS in quotes" in allowed
