# SPDX-License-Identifier: Apache-2.0
"""Tests of the adapter that fetches modules, with a real git server and hostile repositories."""

from __future__ import annotations

import os
import tempfile
import time

import pytest
from tests.adapters.modules.git_server import MODULE, GitServer, Repository

from gridstead.adapters.definitions.modules import MAX_TEXT_BYTES, Bounds, GitModules
from gridstead.errors import InvalidInput, ModuleUnavailable
from gridstead.workflow.schema import ModuleSource


def refusal_reason(fetcher, source="me/greet", **bounds):
    """Return the reason why a module is refused."""
    with pytest.raises(InvalidInput) as caught:
        fetcher.text(source, fetcher.new_adapter(**bounds))
    return str(caught.value)


@pytest.fixture(autouse=True)
def _no_temporary_file_remains(tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


LARGE_FILES = {"large-1": os.urandom(1_500_000), "large-2": os.urandom(1_500_000)}


class TestRefs:
    def test_source_without_a_ref_uses_the_default_branch(self, repository, fetcher):
        repository.commit({"module.yaml": "newest"})

        assert fetcher.text("me/greet") == "newest"

    def test_tag_is_resolved(self, repository, fetcher):
        repository.commit({"module.yaml": "one"}, tag="v1")
        repository.commit({"module.yaml": "two"})

        assert fetcher.text("me/greet@v1") == "one"

    def test_lightweight_tag_is_resolved(self, repository, fetcher):
        repository.git("tag", "v0")

        assert fetcher.text("me/greet@v0") == MODULE

    def test_tag_of_a_module_in_a_directory_begins_with_the_directory(self, repository, fetcher):
        repository.commit({"some/where/module.yaml": "inner"}, tag="some/where/v1")
        repository.git("tag", "v2")

        assert fetcher.text("me/greet/some/where@v1") == "inner"
        assert fetcher.text("me/greet/some/where") == "inner"
        assert "no such tag or commit" in refusal_reason(fetcher, "me/greet/some/where@v2")

    @pytest.mark.parametrize("digits", [7, 12, 40])
    def test_commit_id_is_resolved(self, repository, fetcher, digits):
        first_commit = repository.git("rev-parse", "HEAD")
        repository.commit({"module.yaml": "two"})

        assert fetcher.text(f"me/greet@{first_commit[:digits]}") == MODULE

    @pytest.mark.parametrize("ref", ["v9", "abcdef1", "a" * 40])
    def test_unknown_ref_is_refused(self, repository, fetcher, ref):
        assert "there is no such" in refusal_reason(fetcher, f"me/greet@{ref}")

    def test_unknown_repository_is_refused(self, repository, fetcher):
        assert "there is no such public repository" in refusal_reason(fetcher, "me/none")

    def test_repository_without_a_module_is_refused(self, server, fetcher):
        Repository(server.root, files={"README.md": "hello"})

        assert "there is no file module.yaml in it" in refusal_reason(fetcher)


class TestHosts:
    @pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1:1", "localhost:1"])
    def test_host_that_is_not_allowed_gets_no_request(self, repository, fetcher, server, host):
        with pytest.raises(
            InvalidInput, match=r"is not allowed for modules \(allowed hosts: localhost:"
        ):
            fetcher.adapter.text(ModuleSource.parse(f"{host}/me/greet"))

        assert server.requested == []

    def test_without_allowed_hosts_every_module_is_refused(self, clock):
        with pytest.raises(InvalidInput, match="allowed hosts: none"):
            GitModules((), clock=clock).text(ModuleSource.parse("git.example/a/b"))

    def test_redirect_is_not_followed(self, repository, fetcher, server, tmp_path, certificates):
        (tmp_path / "other").mkdir()
        other_server = GitServer(tmp_path / "other", certificates[0])
        Repository(other_server.root)
        server.redirect_to = f"https://{other_server.host}"

        with pytest.raises(InvalidInput):
            fetcher.text("me/greet")

        assert other_server.requested == []
        other_server.stop()

    def test_host_with_an_untrusted_certificate_is_unavailable(self, repository, server, clock):
        modules_without_ca = GitModules((server.host,), clock=clock)

        with pytest.raises(ModuleUnavailable):
            modules_without_ca.text(ModuleSource.parse(f"{server.host}/me/greet"))

    def test_environment_of_the_service_does_not_affect_git(
        self, repository, fetcher, monkeypatch, tmp_path
    ):
        """Git ignores the service's configuration file, proxy and GIT_TRACE."""
        (tmp_path / ".gitconfig").write_text('[url "file:///"]\n\tinsteadOf = https://\n')
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")

        assert fetcher.text("me/greet") == MODULE
        assert not (tmp_path / "trace").exists()


class TestHostileRepositories:
    @pytest.mark.parametrize("target", ["/etc/passwd", "other.yaml"])
    def test_symlink_is_not_followed(self, repository, fetcher, target):
        (repository.folder / "module.yaml").unlink()
        (repository.folder / "module.yaml").symlink_to(target)
        repository.commit({"other.yaml": "secret"})

        assert "module.yaml is not a plain file" in refusal_reason(fetcher)

    def test_symlink_to_a_directory_is_not_followed(self, repository, fetcher):
        (repository.folder / "sub").symlink_to("/etc")
        repository.commit_all()

        assert "there is no file sub/module.yaml in it" in refusal_reason(fetcher, "me/greet/sub")

    def test_directory_named_module_yaml_is_refused(self, server, fetcher):
        Repository(server.root, files={"module.yaml/x": "a"})

        assert "not a plain file" in refusal_reason(fetcher)

    def test_submodules_are_not_fetched(self, repository, fetcher, server):
        inner = Repository(server.root, "me/inner")
        inner_commit = inner.git("rev-parse", "HEAD")
        url = f"https://{server.host}/me/inner"
        repository.commit({".gitmodules": f'[submodule "sub"]\npath = sub\nurl = {url}\n'})
        # Files of mode 160000 are submodules.
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{inner_commit},sub")
        repository.git("commit", "--quiet", "--message", "sub")

        assert fetcher.text("me/greet") == MODULE
        assert "there is no file" in refusal_reason(fetcher, "me/greet/sub")
        assert "inner" not in " ".join(server.requested)

    def test_hooks_and_filters_do_not_run(self, repository, fetcher, tmp_path):
        created_file = tmp_path / "created"  # the file that a hook or a filter would create
        for hook in ("post-checkout", "reference-transaction", "post-merge"):
            (repository.folder / ".git/hooks").mkdir(exist_ok=True)
            file = repository.folder / ".git/hooks" / hook
            file.write_text(f"#!/bin/sh\ntouch {created_file}\n")
            file.chmod(0o755)
        repository.commit({
            ".gitattributes": "* filter=evil\n",
            ".gitconfig": f'[filter "evil"]\nsmudge = touch {created_file}\n',
        })  # fmt: skip
        # The commit above may have run the hooks, so remove the file that they create.
        created_file.unlink(missing_ok=True)

        assert fetcher.text("me/greet") == MODULE
        assert not created_file.exists()

    def test_large_files_of_a_repository_are_not_fetched(self, repository, fetcher):
        """The adapter uses a filter of git: it asks the server to omit large files."""
        repository.commit(LARGE_FILES)
        repository.git("config", "uploadpack.allowFilter", "true")

        assert fetcher.text("me/greet", fetcher.new_adapter(max_pack_bytes=500_000)) == MODULE

    def test_large_repository_on_a_server_without_filters_is_refused(self, repository, fetcher):
        repository.commit(LARGE_FILES)
        repository.git("config", "uploadpack.allowFilter", "false")

        reason = refusal_reason(fetcher, max_pack_bytes=500_000)

        assert "repository is larger than 488 KiB" in reason  # 500,000 bytes

    def test_large_file_that_compresses_well_is_refused(self, repository, fetcher):
        repository.commit({"module.yaml": b"# " + b"x" * 50_000_000})

        assert "module.yaml is larger than 256 KiB" in refusal_reason(fetcher)

    def test_module_of_the_largest_size_is_accepted(self, repository, fetcher):
        repository.commit({"module.yaml": b"x" * MAX_TEXT_BYTES})

        assert len(fetcher.text("me/greet")) == MAX_TEXT_BYTES

    def test_module_that_is_not_utf_8_is_refused(self, repository, fetcher):
        repository.commit({"module.yaml": b"\xff\xfe"})

        assert "module.yaml is not text" in refusal_reason(fetcher)

    def test_silent_host_is_unavailable_after_the_timeout(self, repository, fetcher, server):
        server.silent = True
        start_s = time.monotonic()

        with pytest.raises(ModuleUnavailable, match="it took too long"):
            fetcher.text("me/greet", fetcher.new_adapter(timeout_s=0.5))

        assert time.monotonic() - start_s < 5

    @pytest.mark.parametrize(
        "source",
        [
            "h.x/a/b@--upload-pack=x", "h.x/-a/b", "h.x/a/../b", "h.x/a/b/../c", "h.x/a/b@a..b",
            "h.x/a/b@x y",
            "h.x/a/b@x.lock", "h.x/a/b@x.lock/y", "file:///a/b", "/a/b/c", "https://h.x/a/b",
            "u@h.x/a/b", "h.x/a",
            "h.x/a/b@", "h.x/a/b@a\nb", "h.x/a/b?c", "h.x/a/b#c", "h.x/a/b@$(x)", "-h/a/b",
            "h.x:x/a/b",
        ],
    )  # fmt: skip
    def test_invalid_source_is_refused(self, source):
        with pytest.raises(ValueError, match="is not a module"):
            ModuleSource.parse(source)


class TestCache:
    def test_tag_is_fetched_again_after_its_lifetime(self, repository, fetcher, server, clock):
        repository.commit({"module.yaml": "one"}, tag="v1")
        assert fetcher.text("me/greet@v1") == "one"
        repository.commit({"module.yaml": "two"})
        repository.git("tag", "--force", "v1")
        request_count = len(server.requested)

        assert fetcher.text("me/greet@v1") == "one"
        assert len(server.requested) == request_count
        clock.advance(Bounds().cache_ttl_s + 1)
        assert fetcher.text("me/greet@v1") == "two"

    def test_full_commit_id_is_fetched_once(self, repository, fetcher, server, clock):
        commit = repository.git("rev-parse", "HEAD")
        fetcher.text(f"me/greet@{commit}")
        request_count = len(server.requested)
        clock.advance(10**7)  # longer than any lifetime in the cache

        assert fetcher.text(f"me/greet@{commit}") == MODULE
        assert len(server.requested) == request_count

    def test_refusal_is_cached_for_a_short_time(self, repository, fetcher, server, clock):
        for _ in range(3):
            with pytest.raises(InvalidInput):
                fetcher.text("me/greet@v1")
        request_count = len(server.requested)
        repository.git("tag", "v1")
        clock.advance(31)  # longer than the lifetime of a refusal

        assert fetcher.text("me/greet@v1") == MODULE
        # The first call sends at most two requests. The others use the cached refusal.
        assert request_count <= 2

    def test_unavailable_module_is_not_cached(self, repository, fetcher, server):
        server.unavailable = True
        with pytest.raises(ModuleUnavailable):
            fetcher.text("me/greet")
        server.unavailable = False

        assert fetcher.text("me/greet") == MODULE
