# SPDX-License-Identifier: Apache-2.0
"""The files and directories of a repository, as a client returns them to the kernel.

These tests call the client directly. In test_mount.py, the kernel calls the client.
"""

from __future__ import annotations

import stat

import pytest
from cvmfs.tests.conftest import TLS
from cvmfs.tests.publisher import NOW
from cvmfs.tests.readers import NEWER, ReaderFactory, contents_of
from cvmfs.tests.stratum0 import answer_altered
from cvmfs.tests.trees import TREE, HardLink, Mode, Nested, Plain
from structlog.testing import capture_logs

from gridstead_cvmfs.errors import RepositoryUntrusted
from gridstead_cvmfs.services import tree as cvmfs_tree
from gridstead_cvmfs.services.client import KERNEL_CACHE_MAX_S

ALL = {
    **TREE,
    "plain": Plain(b"not compressed\n"),
    "secret": Mode(b"for the owner\n", 0o400, uid=7, gid=8),
    "shared": Mode({"x": b"x"}, 0o1777),
}


@pytest.mark.parametrize("suffix", ["", "-rmd160", "-shake128"])
def test_the_tree_is_the_published_tree(new_setup, suffix):
    replica_setup = new_setup(suffix=suffix)
    replica_setup.publisher.publish(ALL)
    new_reader = ReaderFactory(replica_setup, TLS)

    assert new_reader().tree() == contents_of(ALL)
    new_reader.closing[0].close()


def test_modes_owners_links_and_inodes_are_as_published(replica_setup, new_reader):
    replica_setup.publisher.publish(ALL)
    client = new_reader().client
    first_link, second_link = client.entry("/data/one"), client.entry("/data/two")
    secret_file, shared_directory = client.entry("/secret"), client.entry("/shared")
    listed_inodes = {entry.inode for entry in client.entries("/data")}

    assert first_link.links == 2
    assert first_link.inode == second_link.inode
    assert listed_inodes == {first_link.inode, client.entry("/data/large").inode}
    assert (
        stat.S_IMODE(secret_file.mode),
        secret_file.uid,
        secret_file.gid,
        secret_file.mtime,
    ) == (0o400, 7, 8, NOW)
    assert stat.S_IMODE(shared_directory.mode) == 0o1777
    assert client.entry("/v1").links == 4  # 2, plus 2 subdirectories in a nested catalog
    assert client.entry("/bin/alias").size == len("tool")
    assert client.entry("/no") is None
    assert client.entry("/no/such") is None
    assert client.open("/no") is None


def test_any_part_of_a_large_file_can_be_read(new_reader):
    """The file has chunks of 16,384 bytes and a size of 51,200 bytes."""
    client = new_reader().client
    content = bytes(range(256)) * 200
    handle_id, _ = client.open("/data/large")

    for offset, size in (
        (0, 10),
        (16_380, 10),
        (16_384, 16_384),
        (10_000, 40_000),
        (51_190, 100),
        (51_200, 1),
    ):
        assert client.read(handle_id, size, offset) == content[offset : offset + size]
    client.release(handle_id)


def test_cached_content_is_not_fetched_again_by_the_same_client_or_a_new_client(
    replica_setup, new_reader
):
    reader = new_reader()
    reader.tree()
    replica_setup.stratum0.pop_fetched_paths()  # resets the counts of requests

    assert reader.tree() == contents_of(TREE)
    assert new_reader().tree() == contents_of(TREE)
    # Only the certificate is fetched again.
    assert {path[-1] for path in replica_setup.stratum0.pop_fetched_paths()} == {"X"}


def test_only_the_new_objects_of_a_new_revision_are_fetched(replica_setup, new_reader):
    reader = new_reader()
    old_objects = replica_setup.publisher.objects()
    reader.tree()
    replica_setup.publisher.publish(NEWER)
    replica_setup.stratum0.pop_fetched_paths()  # resets the counts of requests

    reader.client.check_revision()

    # The kernel may have cached the old attributes. The client returns them until this time has
    # passed.
    reader.seconds[0] += KERNEL_CACHE_MAX_S
    assert reader.tree() == contents_of(NEWER)
    for path in replica_setup.stratum0.pop_fetched_paths():
        is_certificate = path.endswith("X")
        assert is_certificate or path not in old_objects


class TestOpenFileAndNewRevision:
    """The kernel has one copy of a file's content and size, so an open file must not change.

    ``open`` returns the number of a handle, and whether the content is that of the last ``open``.
    """

    def test_an_open_file_does_not_change_until_every_handle_is_closed(
        self, replica_setup, new_reader
    ):
        reader = new_reader()
        client, size = reader.client, len(TREE["README"])
        first, _ = client.open("/README")
        replica_setup.publisher.publish(NEWER)
        client.check_revision()
        reader.seconds[0] += KERNEL_CACHE_MAX_S  # the kernel no longer caches the attributes
        second, is_same = client.open("/README")

        assert client.read(first, 99, 0) == TREE["README"]
        assert client.read(second, 99, 0) == TREE["README"]
        assert (client.entry("/README").size, is_same) == (size, True)
        client.release(first)
        assert client.read(second, 99, 0) == TREE["README"]
        client.release(second)
        third, is_same = client.open("/README")
        assert (client.read(third, 99, 0), is_same) == (NEWER["README"], False)
        client.release(third)

    def test_an_open_file_remains_readable_after_its_removal(self, replica_setup, new_reader):
        reader = new_reader()
        client = reader.client
        handle_id, _ = client.open("/data/large")
        replica_setup.publisher.publish({"README": b""})
        client.check_revision()

        assert client.read(handle_id, 9, 50_000) == (bytes(range(256)) * 200)[50_000:50_009]
        assert client.entry("/data/large").size == 51_200
        client.release(handle_id)
        assert client.entry("/data/large") is None

    def test_an_opened_file_has_the_attributes_that_the_kernel_caches(
        self, replica_setup, new_reader
    ):
        reader = new_reader()
        reader.client.entry("/README")
        replica_setup.publisher.publish(NEWER)
        reader.client.check_revision()

        handle_id, _ = reader.client.open("/README")
        assert reader.client.read(handle_id, 99, 0) == TREE["README"]
        reader.client.release(handle_id)
        reader.seconds[0] += KERNEL_CACHE_MAX_S  # the kernel no longer caches the attributes
        handle_id, _ = reader.client.open("/README")
        assert reader.client.read(handle_id, 99, 0) == NEWER["README"]
        reader.client.release(handle_id)


@pytest.mark.parametrize("path", ["/bin/tool", "/data/large", "/v1/deep/er"])
def test_an_altered_object_is_neither_returned_nor_cached(replica_setup, new_reader, path):
    reader = new_reader()
    replica_setup.stratum0.fault_for_all = answer_altered

    with (
        capture_logs() as logs,
        pytest.raises(RepositoryUntrusted, match=r"does not match its hash|cannot be read"),
    ):
        reader.read(path)
    (line,) = [line for line in logs if line["event"] == "access_failed"]
    assert (line["code"], line["log_level"]) == ("repository-untrusted", "error")

    replica_setup.stratum0.fault_for_all = None
    assert reader.read(path)


class WrongLength(bytes):
    """Bytes whose ``len`` is one too large. The publisher writes this length to the catalog."""

    def __len__(self):
        return super().__len__() + 1


def test_a_wrong_size_in_a_catalog_is_detected(replica_setup, new_reader):
    replica_setup.publisher.publish({"file": WrongLength(b"content")})

    with pytest.raises(RepositoryUntrusted, match="does not match its catalog"):
        new_reader().read("/file")


def test_more_catalogs_than_may_be_open_can_be_read(replica_setup, new_reader, monkeypatch):
    monkeypatch.setattr(cvmfs_tree, "MAX_OPEN_CATALOGS", 3)
    tree = {
        f"n{number}": Nested({"x": b"%d" % number, "link": HardLink(b"y", 1, 1)})
        for number in range(8)
    }
    replica_setup.publisher.publish(tree)

    assert new_reader().tree() == contents_of(tree)
