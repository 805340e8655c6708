# SPDX-License-Identifier: Apache-2.0
"""What a client shows of a repository, without a kernel: test_mount.py has one."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.adapters.cvmfs.conftest import TLS, HandClock
from tests.fakes.cvmfs import DAY_S, NAME, NOW, TREE, HardLink, Mode, Nested, Plain, Publisher, Symlink
from tests.fakes.stratum0 import Stratum0, altered, leaving, refusing

from gridstead.adapters.cvmfs.cache import DiskCache
from gridstead.adapters.cvmfs.files import DiskFiles
from gridstead.adapters.cvmfs.kept import KeptLetters
from gridstead.adapters.cvmfs.objects import DiskObjects
from gridstead.adapters.cvmfs.servers import REST_S, Servers
from gridstead.adapters.cvmfs.signatures import RsaSignatures
from gridstead.adapters.cvmfs.upstream import FetchLimits, HttpUpstream
from gridstead.errors import RepositoryUnavailable, RepositoryUntrusted, StorageFull
from gridstead.services import cvmfs_tree
from gridstead.services.cvmfs_client import TOLD_S, Client, ClientRooms

NEWER = {"README": b"what this is now, and longer\n", "new": b"only now\n", "data": TREE["data"]}
ALL = {
    **TREE,
    "plain": Plain(b"as it is\n"),
    "secret": Mode(b"for one\n", 0o400, uid=7, gid=8),
    "shared": Mode({"x": b"x"}, 0o1777),
}


@dataclass
class Reader:
    """A client, and what its user sees."""

    client: Client
    seconds: list[float]
    cache: Path

    def read(self, path: str) -> bytes:
        """Return all of a file."""
        opened = self.client.open(path)
        assert opened is not None
        try:
            entry = self.client.entry(path)
            return self.client.read(opened[0], entry.size + 1, 0)
        finally:
            self.client.release(opened[0])

    def tree(self, path: str = "") -> dict:
        """Return all that is below a directory, as the publisher has it."""
        return {entry.name: self._node(f"{path}/{entry.name}", entry) for entry in self.client.entries(path)}

    def _node(self, path, entry):
        if entry.is_directory:
            return self.tree(path)
        return Symlink(entry.target) if entry.is_link else self.read(path)

    def cached(self) -> int:
        """Return how many bytes are kept."""
        return sum(file.stat().st_size for file in self.cache.glob("??/*"))


@dataclass
class Readers:
    """Makes clients of a scene; all have one cache."""

    scene: object
    more: list[str] = field(default_factory=list)
    closing: list = field(default_factory=list)

    def __call__(self, *, clock=None, key=None, cache_bytes=2**24, start=True) -> Reader:
        folder = self.scene.storage / self.scene.publisher.name
        limits = FetchLimits(timeout_s=5.0, object_bytes=2**20, connections=4, attempts=1)
        urls = [*self.more, self.scene.stratum0.url]
        seconds = [100.0]
        servers = Servers((HttpUpstream(url, limits, tls=TLS) for url in urls), monotonic=lambda: seconds[0])
        self.closing.append(servers)
        files, objects = DiskFiles(self.scene.storage, NAME), DiskObjects(folder, min_free_bytes=0)
        with files.lock():
            cache = DiskCache(folder / "content", max_bytes=cache_bytes)
        rooms = ClientRooms(
            servers=servers.each,
            upstream=servers,
            letters=KeptLetters(files, objects),
            signatures=RsaSignatures([key or self.scene.key]),
            files=files,
            objects=objects,
            cache=cache,
            clock=clock or self.scene.clock,
            monotonic=lambda: seconds[0],
        )
        client = Client(NAME, rooms, max_catalog_bytes=2**22)
        if start:
            client.start()
        return Reader(client, seconds, folder / "content")


@pytest.fixture
def readers(scene):
    made = Readers(scene)
    yield made
    for one in made.closing:
        one.close()


def plain(tree):
    """Return a tree with nothing but contents."""
    match tree:
        case Nested():
            return plain(tree.tree)
        case dict():
            return {name: plain(node) for name, node in tree.items()}
        case Mode():
            return plain(tree.node)
        case bytes() | Symlink():
            return tree
        case _:
            return tree.content


@pytest.mark.parametrize("suffix", ["", "-rmd160", "-shake128"])
def test_the_tree_is_the_one_that_was_published(new_scene, suffix):
    scene = new_scene(suffix=suffix)
    scene.publisher.publish(ALL)
    readers = Readers(scene)

    assert readers().tree() == plain(ALL)
    readers.closing[0].close()


def test_modes_owners_links_and_inodes_are_as_published(scene, readers):
    scene.publisher.publish(ALL)
    client = readers().client
    one, two = client.entry("/data/one"), client.entry("/data/two")
    secret, shared, listed = client.entry("/secret"), client.entry("/shared"), client.entries("/data")

    assert (one.links, one.inode) == (2, two.inode)
    assert {entry.inode for entry in listed} == {one.inode, client.entry("/data/large").inode}
    assert (stat.S_IMODE(secret.mode), secret.uid, secret.gid, secret.mtime) == (0o400, 7, 8, NOW)
    assert stat.S_IMODE(shared.mode) == 0o1777
    assert client.entry("/v1").links == 4  # two, and two directories in a catalog of their own
    assert client.entry("/bin/alias").size == len("tool")
    assert client.entry("/no") is client.entry("/no/such") is client.open("/no") is None


def test_parts_of_a_large_file_are_read_as_they_are(readers):
    client, whole = readers().client, bytes(range(256)) * 200
    number, _ = client.open("/data/large")

    for offset, size in ((0, 10), (16_380, 10), (16_384, 16_384), (10_000, 40_000), (51_190, 100), (51_200, 1)):
        assert client.read(number, size, offset) == whole[offset : offset + size]
    client.release(number)


def test_what_was_read_is_not_fetched_again_also_not_by_the_next_client(scene, readers):
    reader = readers()
    reader.tree()
    scene.stratum0.fetched()

    assert reader.tree() == readers().tree() == plain(TREE)
    assert {path[-1] for path in scene.stratum0.fetched()} == {"X"}


def test_a_new_revision_is_shown_and_only_what_is_new_is_fetched(scene, readers):
    reader, before = readers(), scene.publisher.objects()
    reader.tree()
    scene.publisher.publish(NEWER)
    scene.stratum0.fetched()

    reader.client.look()

    reader.seconds[0] += TOLD_S
    assert reader.tree() == plain(NEWER)
    assert not {path for path in scene.stratum0.fetched() if path[-1] != "X"} & before


class TestOpenWhileANewRevisionComes:
    """The kernel has one copy of a file's content and size, so a file that is open is one file."""

    def test_an_open_file_stays_what_it_was_for_everybody_until_nobody_has_it_open(self, scene, readers):
        reader = readers()
        client, size = reader.client, len(TREE["README"])
        first, _ = client.open("/README")
        scene.publisher.publish(NEWER)
        client.look()
        reader.seconds[0] += TOLD_S
        second, same = client.open("/README")

        assert (client.read(first, 99, 0), client.read(second, 99, 0)) == (TREE["README"], TREE["README"])
        assert (client.entry("/README").size, same) == (size, True)
        client.release(first)
        assert client.read(second, 99, 0) == TREE["README"]
        client.release(second)
        third, same = client.open("/README")
        assert (client.read(third, 99, 0), same) == (NEWER["README"], False)
        client.release(third)

    def test_a_file_that_is_gone_stays_readable_where_it_is_open(self, scene, readers):
        reader = readers()
        client = reader.client
        number, _ = client.open("/data/large")
        scene.publisher.publish({"README": b""})
        client.look()

        assert client.read(number, 9, 50_000) == (bytes(range(256)) * 200)[50_000:50_009]
        assert client.entry("/data/large").size == 51_200
        client.release(number)
        assert client.entry("/data/large") is None

    def test_a_file_is_opened_as_the_kernel_was_told_that_it_is(self, scene, readers):
        reader = readers()
        reader.client.entry("/README")
        scene.publisher.publish(NEWER)
        reader.client.look()

        number, _ = reader.client.open("/README")
        assert reader.client.read(number, 99, 0) == TREE["README"]
        reader.client.release(number)
        reader.seconds[0] += TOLD_S
        number, _ = reader.client.open("/README")
        assert reader.client.read(number, 99, 0) == NEWER["README"]
        reader.client.release(number)


@pytest.mark.parametrize("path", ["/bin/tool", "/data/large", "/v1/deep/er"])
def test_an_object_that_was_altered_is_neither_given_nor_kept(scene, readers, path):
    reader = readers()
    scene.stratum0.every = altered

    with capture_logs() as logs, pytest.raises(RepositoryUntrusted, match=r"not what its name says|cannot be read"):
        reader.read(path)
    (line,) = [one for one in logs if one["event"] == "access_failed"]
    assert (line["code"], line["log_level"]) == ("repository-untrusted", "error")

    scene.stratum0.every = None
    assert reader.read(path)


class Longer(bytes):
    """Says that it has a byte more."""

    def __len__(self):
        return super().__len__() + 1


def test_a_catalog_that_lies_about_a_size_is_not_believed(scene, readers):
    scene.publisher.publish({"file": Longer(b"content")})

    with pytest.raises(RepositoryUntrusted, match="not what its catalog says"):
        readers().read("/file")


class TestServerAway:
    """What is here is served, the rest fails and is told."""

    def test_what_was_read_stays_readable_and_the_rest_fails_with_a_line_in_the_log(self, scene, readers):
        reader = readers()
        assert reader.read("/README")
        scene.stratum0.every = leaving

        with capture_logs() as logs:
            assert reader.read("/README") == TREE["README"]
            for _ in range(3):
                with pytest.raises(RepositoryUnavailable):
                    reader.read("/bin/tool")
            reader.client.tick()

        assert [one["event"] for one in logs] == ["access_failed", "look_failed"]
        assert logs[0]["path"] == "/bin/tool"

    def test_a_client_starts_with_what_is_here(self, scene, readers):
        readers().tree()
        scene.stratum0.close()

        with capture_logs() as logs:
            assert readers().tree() == plain(TREE)
        assert [one["event"] for one in logs] == ["look_failed", "revision_shown"]

    def test_a_client_without_anything_does_not_start(self, scene, readers):
        scene.stratum0.close()

        with pytest.raises(RepositoryUnavailable):
            readers()

    def test_what_is_here_is_believed_no_longer_than_its_whitelist(self, scene, readers):
        readers().tree()
        scene.stratum0.close()

        with pytest.raises(RepositoryUntrusted, match="expired"):
            readers(clock=HandClock(NOW + 31 * DAY_S))

    def test_it_is_not_asked_again_for_a_while(self, scene, readers):
        reader = readers()
        scene.stratum0.every = refusing(503)
        for _ in range(3):
            with pytest.raises(RepositoryUnavailable):
                reader.read("/README")
        asked = sum(scene.stratum0.asked.values())
        scene.stratum0.every = None

        with pytest.raises(RepositoryUnavailable, match="no server"):
            reader.read("/README")
        assert sum(scene.stratum0.asked.values()) == asked
        reader.seconds[0] += REST_S
        assert reader.read("/README") == TREE["README"]

    @pytest.mark.parametrize("fault", [altered, refusing(503), refusing(404)])
    def test_the_next_server_is_asked(self, scene, readers, fault):
        bad = Stratum0(scene.publisher.root, NAME)
        readers.more.append(bad.url)
        bad.every = fault

        assert readers().tree() == plain(TREE)
        bad.close()


class TestBelief:
    """What is shown was signed by who may, and is never older than what was shown."""

    def test_another_key_shows_nothing(self, scene, readers, keys, tmp_path):
        other = Publisher(tmp_path / "other", master=keys[1], signer=keys[0])

        with pytest.raises(RepositoryUntrusted, match="master key"):
            readers(key=other.public_key(tmp_path / "other.pub"))

    def test_an_older_revision_is_refused_also_by_the_next_client(self, scene, readers):
        root = scene.publisher.root
        old = {name: (root / name).read_bytes() for name in (".cvmfspublished", ".cvmfswhitelist")}
        scene.publisher.publish(NEWER)
        reader = readers()
        for name, letter in old.items():
            (root / name).write_bytes(letter)

        with pytest.raises(RepositoryUntrusted, match="older"):
            reader.client.look()
        assert reader.tree() == readers().tree() == plain(NEWER)

    def test_a_whitelist_that_expires_ends_looking_and_not_reading(self, scene, readers):
        clock = HandClock()
        reader = readers(clock=clock)
        clock.at += 31 * DAY_S

        with pytest.raises(RepositoryUntrusted, match="expired"):
            reader.client.look()
        assert reader.tree() == plain(TREE)

    def test_a_revision_whose_root_cannot_be_had_is_not_shown(self, scene, readers):
        reader = readers()
        root = scene.publisher.publish(NEWER)
        scene.stratum0.faults[f"data/{root[:2]}/{root[2:]}C"] = refusing(404)

        reader.client.tick()

        assert reader.tree() == plain(TREE)
        scene.stratum0.faults.clear()
        reader.client.tick()
        assert reader.client.entry("/new") is not None


class TestCache:
    """It holds so many bytes and no more."""

    def test_all_can_be_read_with_room_for_a_part(self, readers):
        reader = readers(cache_bytes=140_000)

        assert reader.tree() == reader.tree() == plain(TREE)
        assert 0 < reader.cached() <= 140_000

    def test_what_was_not_used_for_longest_goes_first_and_catalogs_last(self, scene, readers):
        scene.publisher.publish({name: name.encode() * 40_000 for name in "abc"})
        reader = readers(cache_bytes=130_000)
        for name in "abc":
            assert reader.read(f"/{name}")
        scene.stratum0.every = refusing(503)

        assert reader.read("/c")
        assert reader.client.entry("/a") is not None
        with pytest.raises(RepositoryUnavailable):
            reader.read("/a")

    def test_an_open_file_outlives_its_place_in_the_cache(self, scene, readers):
        scene.publisher.publish({name: name.encode() * 40_000 for name in "abc"})
        reader = readers(cache_bytes=130_000)
        number, _ = reader.client.open("/a")
        for name in "bc":
            assert reader.read(f"/{name}")

        assert reader.client.read(number, 3, 39_000) == b"aaa"
        reader.client.release(number)

    def test_an_object_larger_than_the_cache_is_told(self, scene, readers):
        scene.publisher.publish({"large": b"l" * 200_000})
        reader = readers(cache_bytes=150_000)

        with pytest.raises(StorageFull):
            reader.read("/large")


def test_a_tree_of_many_catalogs_keeps_few_of_them_open(scene, readers, monkeypatch):
    monkeypatch.setattr(cvmfs_tree, "MAX_OPEN", 3)
    tree = {f"n{number}": Nested({"x": b"%d" % number, "link": HardLink(b"y", 1, 1)}) for number in range(8)}
    scene.publisher.publish(tree)

    assert readers().tree() == plain(tree)
