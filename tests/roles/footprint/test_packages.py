# SPDX-License-Identifier: Apache-2.0
"""The modules of role footprint: which packages they record and remove."""

import pytest
from ansible_collections.gridstead.site.plugins.modules import footprint_packages as packages
from ansible_collections.gridstead.site.plugins.modules import footprint_record as record
from ansible_collections.gridstead.site.plugins.modules import footprint_remove as remove
from tests.roles.footprint.commands import Commands, perform


class AptError(Exception):
    """The error that the fake apt-get raises if ``purge_error`` is set."""


class Host:
    """A fake AnsibleModule with a fake apt and dpkg. Package names are separated by spaces."""

    def __init__(self, *, installed, manual, purge_error=""):
        self.installed = installed
        self.manual = manual
        self.purge_error = purge_error
        self.calls = []
        self.check_mode = False

    def run_command(self, argv, **_):
        self.calls.append(" ".join(argv))
        match argv:
            case ["dpkg-query", *_]:
                return 0, "".join(f"installed {name}\n" for name in self.installed.split()), ""
            case ["apt-mark", "showmanual"]:
                return 0, self.manual, ""
            case ["apt-mark", "auto", *names]:
                self.manual = " ".join(set(self.manual.split()) - set(names))
            case ["apt-get", "--assume-yes", *_] if self.purge_error:
                raise AptError(self.purge_error)
        return 0, "", ""


def remove_packages(monkeypatch, host, record):
    """Return the result of module footprint_packages after a purge."""
    result = {}
    host.params = {"record": str(record), "purge": True}
    host.exit_json = result.update
    monkeypatch.setattr(packages, "AnsibleModule", lambda **_: host)
    packages.main()
    return result


def test_only_installed_packages_are_recorded():
    assert record.installed("installed b\nconfig-files a\nhalf-installed c\ninstalled b\n") == ["b"]


def test_packages_that_were_marked_automatic_before_are_marked_automatic_again(make_record):
    commands = Commands(apt_mark="munge\nslurmd\nsudo\nother\n")

    changes = perform(
        remove.mark_packages(["munge", "slurmd", "sudo", "absent"], make_record(), commands)
    )

    assert changes == ["no longer wanted: munge slurmd"]
    assert commands.calls[-1] == "apt-mark auto munge slurmd"


def test_new_packages_are_removed_unless_they_were_installed_manually():
    """apt alone would retain gawk, because gawk can replace the required package mawk."""
    commands = Commands(
        apt_get="Reading package lists...\nRemv slurmd [24.11]\nRemv gawk:amd64 [5.2]\n"
    )
    installed_packages = {"mawk", "orphan", "slurmd", "gawk", "vim"}
    installed_before = {"mawk", "orphan"}
    manual = {"vim"}

    unwanted_packages = packages.packages_to_remove(
        installed_packages, installed_before, manual, commands
    )

    assert unwanted_packages == {"slurmd", "gawk"}
    assert commands.calls[0].endswith("--simulate remove gawk slurmd")


def test_a_new_package_that_is_still_needed_is_retained():
    """Package theirs must stay and depends on package library, so library is retained."""

    class Apt(Commands):
        def __call__(self, *argv):
            super().__call__(*argv)
            output = "Remv slurmd [24.11]\nRemv orphan [1]\n"
            if argv[-1] != "autoremove":
                output += "Remv theirs [1]\n"
            return output

    installed = {"orphan", "slurmd", "library"}

    assert packages.packages_to_remove(installed, {"orphan"}, set(), Apt()) == {"slurmd"}


def test_a_half_installed_package_is_recorded():
    states = "config-files old\ninstalled sudo\nhalf-configured munge\nnot-installed never\n"

    assert packages.by_state(states) == ({"sudo", "munge"}, {"old"})


def test_packages_of_an_interrupted_removal_are_removed(tmp_path, make_record, monkeypatch):
    """After the interruption, apt regards these packages as manually installed."""
    make_record()
    host = Host(installed="sudo slurmd", manual="sudo", purge_error="interrupted")
    with pytest.raises(AptError, match="interrupted"):
        remove_packages(monkeypatch, host, tmp_path / "before")
    host.manual = "sudo slurmd"
    host.purge_error = ""

    assert remove_packages(monkeypatch, host, tmp_path / "before") == {
        "changed": True,
        "packages": ["slurmd"],
    }
    assert "apt-mark auto slurmd" in host.calls
    assert not (tmp_path / "before").exists()


def test_a_package_that_existed_before_gets_no_debconf_answer_to_remove_data(make_record):
    commands = Commands(debconf_show="  mariadb-server/remove: false\n")
    lines = ["mariadb-server mariadb-server/remove boolean true", "munge munge/remove boolean true"]
    before = make_record()

    assert perform(remove.answer_questions(lines, before, commands)) == [
        "mariadb-server/remove answered: true"
    ]
    assert commands.calls == ["debconf-show mariadb-server", "debconf-set-selections"]
    commands.outputs["debconf-show"] = "* mariadb-server/remove: true\n"
    assert perform(remove.answer_questions(lines, before, commands)) == []
