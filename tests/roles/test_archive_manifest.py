# SPDX-License-Identifier: Apache-2.0
"""The archive of a site, which is a folder with a manifest and one encrypted file for each part.

The tests cover complete and refused archives. ``refusal`` returns the message about a refused
archive.
"""

import json

import pytest
from ansible_collections.gridstead.site.plugins.modules import archive_manifest as manifest

HEAD = {"name": "20260102T030405Z", "site": "mysite", "began_at": 1_000, "recipient": "age1owner"}
PARTS = [
    {"name": "database", "host": "db", "packages": {"slurmctld": "24.11.5-4"}},
    {"name": "slurm", "host": "db", "packages": {"slurmctld": "24.11.5-4"}},
]


@pytest.fixture
def unfinished_archive(tmp_path):
    """The folder of an unfinished archive."""
    folder = tmp_path / ".20260102T030405Z.part"
    folder.mkdir()
    for part in PARTS:
        (folder / f"{part['name']}.age").write_text(f"sealed {part['name']}")
    return folder


@pytest.fixture
def archive(unfinished_archive):
    """The folder of a complete archive."""
    manifest.write_manifest(unfinished_archive, HEAD, PARTS, lambda: 1_007.9)
    return unfinished_archive.parent / HEAD["name"]


def refusal(folder, site="mysite"):
    """Return the reason why an archive is refused."""
    with pytest.raises(manifest.Refusal) as caught:
        manifest.read_manifest(folder, site)
    return str(caught.value)


def test_an_archive_gets_its_final_name_when_it_is_complete(unfinished_archive, archive):
    content = manifest.read_manifest(archive, "mysite")

    assert not unfinished_archive.exists()
    assert content["format"] == 1
    assert content["finished_at"] == 1_007  # rounded down to seconds
    assert content["parts"].keys() == {"database", "slurm"}
    assert content["parts"]["slurm"]["packages"] == {"slurmctld": "24.11.5-4"}


def test_only_the_owner_can_read_an_archive(archive):
    for path in archive.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_an_archive_with_a_missing_part_is_not_finished(unfinished_archive):
    (unfinished_archive / "slurm.age").unlink()

    with pytest.raises(manifest.Refusal, match="but must contain"):
        manifest.write_manifest(unfinished_archive, HEAD, PARTS, lambda: 0)

    assert unfinished_archive.exists()


def test_an_archive_never_replaces_another_archive(unfinished_archive):
    (unfinished_archive.parent / HEAD["name"]).mkdir()

    with pytest.raises(manifest.Refusal, match="exists already"):
        manifest.write_manifest(unfinished_archive, HEAD, PARTS, lambda: 0)


def test_an_incomplete_folder_is_refused_with_a_list_of_the_archives(unfinished_archive):
    complete = unfinished_archive.parent / "20260101T000000Z"
    complete.mkdir()
    (complete / "manifest.json").write_text("{}")

    assert refusal(unfinished_archive.parent / HEAD["name"]).endswith(
        "is not an archive: it has no manifest.json. Existing archives: 20260101T000000Z"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "site": "mysite", "parts": {"slurm": 1}}',
        '{"format": 1, "site": "mysite", "parts": {}}',
    ],
)
def test_an_unreadable_manifest_is_refused(archive, text):
    (archive / "manifest.json").write_text(text)

    assert "is damaged: its manifest.json cannot be read" in refusal(archive)


def test_a_newer_format_is_refused(archive):
    content = json.loads((archive / "manifest.json").read_text())
    (archive / "manifest.json").write_text(json.dumps(content | {"format": 2}))

    assert "has format 2; this version of Gridstead reads 1" in refusal(archive)


def test_an_archive_of_another_site_is_refused(archive):
    assert "is of site mysite, not of site other" in refusal(archive, "other")


def test_a_missing_part_is_refused(archive):
    (archive / "slurm.age").unlink()

    assert refusal(archive).endswith("is damaged: part slurm is missing")


def test_a_part_with_a_changed_byte_is_refused(archive):
    (archive / "slurm.age").write_text("sealed slurN")

    assert refusal(archive).endswith("is damaged: the checksum of part slurm is wrong")


def test_a_truncated_part_is_refused(archive):
    (archive / "slurm.age").write_text("sealed")

    assert refusal(archive).endswith("is damaged: part slurm has 6 bytes, expected 12")
