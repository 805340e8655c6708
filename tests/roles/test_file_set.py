# SPDX-License-Identifier: Apache-2.0
"""Tests of module file_set, which changes all files of a set or none. The tests need root.

The module records the paths of changed files in the file ``pending``. A handler deletes this file
after the daemons have loaded the new files.
"""

import json

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module


@pytest.fixture
def ensure(tmp_path):
    """A function that runs the module with files and returns the result."""

    def run(*files, check_mode=False, **options):
        arguments = {"files": list(files), **options}
        return run_module(
            ROOT / "plugins/modules/file_set.py",
            arguments,
            tmp=tmp_path / "tmp",
            check_mode=check_mode,
        )

    return run


def test_no_file_changes_if_one_file_is_invalid(ensure, tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("before\n")

    result = ensure(
        {"path": str(new), "content": "good\n"},
        {"path": str(old), "content": "bad\n", "check": ["grep", "--quiet", "good", "%s"]},
    )

    assert result["failed"]
    assert result["msg"].startswith(f"grep rejects the new {old}")
    assert not new.exists()
    assert old.read_text() == "before\n"


def test_a_changed_file_is_written_and_reported_once(ensure, tmp_path):
    same, other, below = tmp_path / "same", tmp_path / "other", tmp_path / "a/b/below"
    files = [{"path": str(path), "content": f"{path}\n"} for path in (same, other, below)]
    ensure(files[0])
    other.write_text("old\n")

    first_result = ensure(*files)
    second = ensure(*files)

    assert first_result["changed"]
    assert first_result["changes"] == [str(other), str(below)]
    diff_of_other, diff_of_below = first_result["diff"]
    assert diff_of_other["before"] == "old\n"
    assert diff_of_other["after"] == f"{other}\n"
    assert diff_of_below["before"] == ""
    assert diff_of_below["after"] == f"{below}\n"
    assert not second["changed"]
    assert second["changes"] == []
    assert second["diff"] == []
    assert below.read_text() == f"{below}\n"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_mode_and_owner_are_compared(ensure, tmp_path):
    file = {"path": str(tmp_path / "one"), "content": "x\n", "mode": "0600"}
    ensure(file)
    (tmp_path / "one").chmod(0o644)

    assert ensure(file)["changes"] == [file["path"]]
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600


def test_a_login_is_tested_before_any_file_changes(ensure, tmp_path):
    """If a file in ``try_first`` must change, the module writes nothing. ``held`` names this file.

    The role then tests the login and calls the module again without ``try_first``.
    """
    sshd_config = {"path": str(tmp_path / "sshd_config"), "content": "x\n"}
    other = {"path": str(tmp_path / "other"), "content": "x\n"}
    tested_files = [sshd_config["path"]]

    result = ensure(sshd_config, other, try_first=tested_files)
    assert not result["changed"]
    assert result["changes"] == []
    assert result["held"] == tested_files
    assert list(tmp_path.iterdir()) == [tmp_path / "tmp"]

    ensure(sshd_config)
    result = ensure(sshd_config, other, try_first=tested_files)
    assert result["changes"] == [other["path"]]
    assert result["held"] == []


def test_a_file_is_reported_as_changed_until_the_command_that_loads_it_succeeds(ensure, tmp_path):
    """The command that loads the file writes the loaded content to the file ``in_force``."""
    in_force = tmp_path / "in_force"
    rules = {"path": str(tmp_path / "rules"), "content": "x\n", "in_force": str(in_force)}
    ensure(rules)
    assert ensure(rules)["changes"] == [rules["path"]]

    in_force.write_text("x\n")
    assert ensure(rules)["changes"] == []
    assert ensure(rules | {"content": "y\n"})["changes"] == [rules["path"]]


def test_a_file_in_option_absent_is_removed(ensure, tmp_path):
    old_file = tmp_path / "old"
    old_file.write_text("x\n")

    predicted_result = ensure(absent=[str(old_file)], check_mode=True)
    assert predicted_result["changes"] == [str(old_file)]
    assert old_file.exists()

    assert ensure(absent=[str(old_file)])["changes"] == [str(old_file)]
    assert not old_file.exists()
    assert ensure(absent=[str(old_file)])["changed"] is False


def test_a_link_is_replaced_and_its_target_is_not_changed(ensure, tmp_path):
    (tmp_path / "target").write_text("x\n")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    ensure({"path": str(tmp_path / "link"), "content": "x\n"})

    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "x\n"


@pytest.mark.parametrize(("program", "is_refused"), [("no-such-program", False), ("false", True)])
def test_check_mode_writes_nothing_and_skips_a_missing_program(
    ensure, tmp_path, program, is_refused
):
    path = tmp_path / "x"

    result = ensure({"path": str(path), "content": "x\n", "check": [program]}, check_mode=True)

    if is_refused:
        assert result["failed"]
    else:
        assert result["changes"] == [str(path)]
    assert not path.exists()


def test_changes_are_reported_by_each_run_until_they_are_settled(ensure, tmp_path):
    """If a run is killed before its handlers, daemons still use the old files. The next run must
    notify the handlers.
    """
    first_file, second_file, third_file, fourth_file = make_files(
        tmp_path, "one", "two", "three", "four"
    )
    pending_file = tmp_path / "var/pending"
    ensure(third_file)

    first = ensure(first_file, second_file, pending_changes_file=str(pending_file))
    second = ensure(first_file, second_file, pending_changes_file=str(pending_file))
    third = ensure(
        first_file, second_file, third_file, fourth_file, pending_changes_file=str(pending_file)
    )

    assert first["changes"] == [first_file["path"], second_file["path"]]
    assert second["changes"] == [first_file["path"], second_file["path"]]
    assert second["changed"]
    assert second["diff"] == []
    assert third["changes"] == [first_file["path"], second_file["path"], fourth_file["path"]]
    pending_file.unlink()
    assert (
        ensure(first_file, second_file, third_file, pending_changes_file=str(pending_file))[
            "changes"
        ]
        == []
    )
    assert not pending_file.exists()


def make_files(folder, *names):
    """Return the options of several files with the same content."""
    return [{"path": str(folder / name), "content": "x\n"} for name in names]


def test_changes_are_recorded_before_the_first_file_changes(ensure, tmp_path):
    """The module fails with a traceback, because the path of the second file is a folder."""
    first_file, second_file = make_files(tmp_path, "one", "two")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/file").touch()
    assert "failed" not in ensure(first_file)
    (tmp_path / "one").write_text("old\n")

    with pytest.raises(json.JSONDecodeError):
        ensure(first_file, second_file, pending_changes_file=str(tmp_path / "pending"))

    assert json.loads((tmp_path / "pending").read_text()) == [
        first_file["path"],
        second_file["path"],
    ]


def test_check_mode_records_nothing_and_reports_pending_changes(ensure, tmp_path):
    (file,) = make_files(tmp_path, "one")
    pending = tmp_path / "pending"

    assert ensure(file, pending_changes_file=str(pending), check_mode=True)["changes"] == [
        file["path"]
    ]
    assert not pending.exists()
    ensure(file, pending_changes_file=str(pending))

    assert ensure(file, pending_changes_file=str(pending), check_mode=True)["changes"] == [
        file["path"]
    ]


def test_a_file_that_was_removed_from_the_set_is_not_reported(ensure, tmp_path):
    first_file, second_file = make_files(tmp_path, "one", "two")
    pending = str(tmp_path / "pending")
    ensure(first_file, second_file, pending_changes_file=pending)

    assert ensure(second_file, pending_changes_file=pending)["changes"] == [second_file["path"]]
