# SPDX-License-Identifier: Apache-2.0
"""Module file_set changes all files of a set or none. Runs on this machine as root."""

import json

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module


@pytest.fixture
def ensure(tmp_path):
    """A function that runs the module with files and returns the result."""

    def run(*files, check_mode=False, **more):
        arguments = {"files": list(files), **more}
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

    result, again = ensure(*files), ensure(*files)

    assert (result["changed"], result["changes"]) == (True, [str(other), str(below)])
    assert [(item["before"], item["after"]) for item in result["diff"]] == [
        ("old\n", f"{other}\n"),
        ("", f"{below}\n"),
    ]
    assert (again["changed"], again["changes"], again["diff"]) == (False, [], [])
    assert below.read_text() == f"{below}\n"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_mode_and_owner_are_compared(ensure, tmp_path):
    file = {"path": str(tmp_path / "one"), "content": "x\n", "mode": "0600"}
    ensure(file)
    (tmp_path / "one").chmod(0o644)

    assert ensure(file)["changes"] == [file["path"]]
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600


def test_a_login_is_tested_before_any_file_changes(ensure, tmp_path):
    door, other = ({"path": str(tmp_path / name), "content": "x\n"} for name in ("door", "other"))

    result = ensure(door, other, try_first=[door["path"]])
    assert (result["changed"], result["changes"], result["held"]) == (False, [], [door["path"]])
    assert {path.name for path in tmp_path.iterdir()} == {"tmp"}

    ensure(door)
    result = ensure(door, other, try_first=[door["path"]])
    assert (result["changes"], result["held"]) == ([other["path"]], [])


def test_a_file_is_reported_as_changed_until_its_command_succeeded(ensure, tmp_path):
    """A run that was killed before the command leaves only the changed file."""
    taken = tmp_path / "taken"
    rules = {"path": str(tmp_path / "rules"), "content": "x\n", "in_force": str(taken)}
    ensure(rules)
    assert ensure(rules)["changes"] == [rules["path"]]

    taken.write_text("x\n")
    assert ensure(rules)["changes"] == []
    assert ensure(rules | {"content": "y\n"})["changes"] == [rules["path"]]


def test_an_absent_file_is_removed(ensure, tmp_path):
    old = tmp_path / "old"
    old.write_text("x\n")

    foreseen = ensure(absent=[str(old)], check_mode=True)
    assert (foreseen["changes"], old.exists()) == ([str(old)], True)

    assert ensure(absent=[str(old)])["changes"] == [str(old)]
    assert not old.exists()
    assert ensure(absent=[str(old)])["changed"] is False


def test_a_link_is_replaced_and_its_target_is_not_changed(ensure, tmp_path):
    (tmp_path / "target").write_text("x\n")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    ensure({"path": str(tmp_path / "link"), "content": "x\n"})

    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "x\n"


@pytest.mark.parametrize(
    ("program", "failed"), [("a-program-that-is-not-here", False), ("false", True)]
)
def test_check_mode_writes_nothing_and_skips_a_missing_program(ensure, tmp_path, program, failed):
    result = ensure(
        {"path": str(tmp_path / "x"), "content": "x\n", "check": [program]}, check_mode=True
    )

    assert (result.get("failed", False), result.get("changes")) == (
        failed,
        None if failed else [str(tmp_path / "x")],
    )
    assert not (tmp_path / "x").exists()


def test_changes_are_reported_by_each_run_until_they_are_settled(ensure, tmp_path):
    """A run that is killed before its handlers leaves daemons with the old files. The next run must
    notify the handlers.
    """
    files = [{"path": str(tmp_path / name), "content": "x\n"} for name in ("one", "two", "three")]
    unsettled = tmp_path / "var/unsettled"
    ensure(files[2])

    first, again = (ensure(*files[:2], unsettled=str(unsettled)) for _ in range(2))
    with_another = ensure(
        *files, {"path": str(tmp_path / "four"), "content": "x\n"}, unsettled=str(unsettled)
    )

    assert first["changes"] == again["changes"] == [files[0]["path"], files[1]["path"]]
    assert (again["changed"], again["diff"]) == (True, [])
    assert with_another["changes"] == [files[0]["path"], files[1]["path"], str(tmp_path / "four")]
    unsettled.unlink()
    assert ensure(*files, unsettled=str(unsettled))["changes"] == []
    assert not unsettled.exists()


def test_changes_are_recorded_before_the_first_file_changes(ensure, tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "two/below").touch()
    files = [{"path": str(tmp_path / name), "content": "x\n"} for name in ("one", "two")]

    assert "failed" not in ensure(files[0])
    (tmp_path / "one").write_text("old\n")
    with pytest.raises(
        json.JSONDecodeError
    ):  # the module ends in a traceback: a folder is in the way
        ensure(*files, unsettled=str(tmp_path / "unsettled"))

    assert json.loads((tmp_path / "unsettled").read_text()) == [files[0]["path"], files[1]["path"]]


def test_check_mode_records_nothing_and_reports_unsettled_changes(ensure, tmp_path):
    file, unsettled = {"path": str(tmp_path / "one"), "content": "x\n"}, tmp_path / "unsettled"

    assert ensure(file, unsettled=str(unsettled), check_mode=True)["changes"] == [file["path"]]
    assert not unsettled.exists()
    ensure(file, unsettled=str(unsettled))

    assert ensure(file, unsettled=str(unsettled), check_mode=True)["changes"] == [file["path"]]


def test_a_file_that_left_the_set_is_not_reported(ensure, tmp_path):
    files = [{"path": str(tmp_path / name), "content": "x\n"} for name in ("one", "two")]
    unsettled = str(tmp_path / "unsettled")
    ensure(*files, unsettled=unsettled)

    assert ensure(files[1], unsettled=unsettled)["changes"] == [files[1]["path"]]
