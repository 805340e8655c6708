# SPDX-License-Identifier: Apache-2.0
"""What a CVMFS client does while no server answers, its trust in servers, and its cache."""

from __future__ import annotations

import pytest
from cvmfs.tests.conftest import ManualClock
from cvmfs.tests.publisher import DAY_S, NAME, NOW, Publisher
from cvmfs.tests.readers import NEWER, contents_of
from cvmfs.tests.stratum0 import Stratum0, answer_altered, disconnect, refuse_with
from cvmfs.tests.trees import TREE
from structlog.testing import capture_logs

from gridstead_cvmfs.adapters.servers import RETRY_AFTER_S
from gridstead_cvmfs.errors import RepositoryUnavailable, RepositoryUntrusted, StorageFull

LARGE_FILES = {"a": b"a" * 40_000, "b": b"b" * 40_000, "c": b"c" * 40_000}


class TestUnavailableServer:
    """While no server answers, a client returns cached content. Other accesses fail."""

    def test_cached_content_is_readable_and_failed_reads_are_logged(
        self, replica_setup, new_reader
    ):
        reader = new_reader()
        assert reader.read("/README")
        replica_setup.stratum0.fault_for_all = disconnect

        with capture_logs() as logs:
            assert reader.read("/README") == TREE["README"]
            for _ in range(3):  # The client logs at most one failure per second.
                with pytest.raises(RepositoryUnavailable):
                    reader.read("/bin/tool")
            reader.client.tick()

        assert [line["event"] for line in logs] == ["access_failed", "look_failed"]
        assert logs[0]["path"] == "/bin/tool"

    def test_a_client_starts_with_the_stored_revision(self, replica_setup, new_reader):
        new_reader().tree()
        replica_setup.stratum0.close()

        with capture_logs() as logs:
            assert new_reader().tree() == contents_of(TREE)
        assert [line["event"] for line in logs] == ["look_failed", "revision_shown"]

    def test_a_client_without_a_stored_revision_does_not_start(self, replica_setup, new_reader):
        replica_setup.stratum0.close()

        with pytest.raises(RepositoryUnavailable):
            new_reader()

    def test_a_stored_revision_is_refused_after_its_whitelist_expired(
        self, replica_setup, new_reader
    ):
        new_reader().tree()
        replica_setup.stratum0.close()

        with pytest.raises(RepositoryUntrusted, match="expired"):
            new_reader(clock=ManualClock(NOW + 31 * DAY_S))  # the whitelist is valid for 30 days

    def test_an_unavailable_server_is_not_queried_for_some_seconds(self, replica_setup, new_reader):
        reader = new_reader()
        replica_setup.stratum0.fault_for_all = refuse_with(503)
        for _ in range(3):
            with pytest.raises(RepositoryUnavailable):
                reader.read("/README")
        request_count = sum(replica_setup.stratum0.requests.values())
        replica_setup.stratum0.fault_for_all = None

        with pytest.raises(RepositoryUnavailable, match="no server"):
            reader.read("/README")
        assert sum(replica_setup.stratum0.requests.values()) == request_count
        reader.seconds[0] += RETRY_AFTER_S
        assert reader.read("/README") == TREE["README"]

    @pytest.mark.parametrize("fault", [answer_altered, refuse_with(503), refuse_with(404)])
    def test_the_next_server_is_queried_after_a_faulty_answer(
        self, replica_setup, new_reader, fault
    ):
        faulty_server = Stratum0(replica_setup.publisher.root, NAME)
        new_reader.first_urls.append(faulty_server.url)
        faulty_server.fault_for_all = fault

        assert new_reader().tree() == contents_of(TREE)
        faulty_server.close()


class TestTrust:
    """A client shows no revision without valid signatures, and never returns to an older one."""

    def test_a_revision_signed_with_another_key_is_refused(self, new_reader, keys, tmp_path):
        other_publisher = Publisher(tmp_path / "other", master=keys[1], signer=keys[0])

        with pytest.raises(RepositoryUntrusted, match="master key"):
            new_reader(key_file=other_publisher.public_key(tmp_path / "other.pub"))

    def test_an_older_revision_is_refused_also_after_a_restart(self, replica_setup, new_reader):
        root = replica_setup.publisher.root
        old_signed_files = replica_setup.publisher.signed_files()
        replica_setup.publisher.publish(NEWER)
        reader = new_reader()
        for name, signed_file in old_signed_files.items():
            (root / name).write_bytes(signed_file)

        with pytest.raises(RepositoryUntrusted, match="older"):
            reader.client.check_revision()
        assert reader.tree() == contents_of(NEWER)
        assert new_reader().tree() == contents_of(NEWER)

    def test_an_expired_whitelist_stops_updates_but_not_reads(self, new_reader):
        clock = ManualClock()
        reader = new_reader(clock=clock)
        clock.seconds += 31 * DAY_S  # the whitelist is valid for 30 days

        with pytest.raises(RepositoryUntrusted, match="expired"):
            reader.client.check_revision()
        assert reader.tree() == contents_of(TREE)

    def test_a_revision_without_its_root_catalog_is_not_shown(self, replica_setup, new_reader):
        reader = new_reader()
        root = replica_setup.publisher.publish(NEWER)
        replica_setup.stratum0.faults[f"data/{root[:2]}/{root[2:]}C"] = refuse_with(404)

        reader.client.tick()

        assert reader.tree() == contents_of(TREE)
        replica_setup.stratum0.faults.clear()
        reader.client.tick()
        assert reader.client.entry("/new") is not None


class TestCache:
    """The size of the cache is limited."""

    def test_a_tree_larger_than_the_cache_can_be_read(self, new_reader):
        reader = new_reader(cache_bytes=140_000)

        for _ in range(2):
            assert reader.tree() == contents_of(TREE)
        assert 0 < reader.cached_bytes() <= 140_000

    def test_the_least_recently_used_objects_are_evicted_first_and_catalogs_last(
        self, replica_setup, new_reader
    ):
        replica_setup.publisher.publish(LARGE_FILES)
        reader = new_reader(cache_bytes=130_000)  # too small for the catalog and all three files
        for name in "abc":
            assert reader.read(f"/{name}")
        replica_setup.stratum0.fault_for_all = refuse_with(503)

        assert reader.read("/c")
        assert reader.client.entry("/a") is not None  # from the catalog, which is kept
        with pytest.raises(RepositoryUnavailable):
            reader.read("/a")

    def test_an_open_file_remains_readable_after_its_eviction(self, replica_setup, new_reader):
        replica_setup.publisher.publish(LARGE_FILES)
        reader = new_reader(cache_bytes=130_000)  # too small for the catalog and all three files
        handle_id, _ = reader.client.open("/a")
        for name in "bc":
            assert reader.read(f"/{name}")

        assert reader.client.read(handle_id, 3, 39_000) == b"aaa"
        reader.client.release(handle_id)

    def test_an_object_larger_than_the_cache_is_refused(self, replica_setup, new_reader):
        replica_setup.publisher.publish({"large": b"l" * 200_000})
        reader = new_reader(cache_bytes=150_000)

        with pytest.raises(StorageFull):
            reader.read("/large")
