# SPDX-License-Identifier: Apache-2.0
"""Tests of the supervisor's public SSH keys: the server that sends them, and the login host."""

import stat

import pytest

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.users.authorized_keys import fetch_keys, parse_keys, write_keys
from gridstead.errors import ConfigError, SupervisorUnavailable, UnexpectedOutput
from gridstead.rpc.users import SshKeyServer

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPmRbhR5q3 supervisor@control"
OTHER_KEY = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY="


@pytest.fixture
def serve(server_tls, authority):
    """Return a function that starts a server with a fixed answer.

    The function returns the server's address and CA.
    """
    servers = []

    def start(text):
        server = SshKeyServer("127.0.0.1:0", server_tls, authorized_keys=lambda: text)
        servers.append(server)
        return GrpcPeer(address=f"localhost:{server.start()}", ca=authority.certificate)

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "no key",
        f'command="id" {KEY}',
        f"{KEY}\ncert-authority {OTHER_KEY}",
        "ssh-dss AAAAB3NzaC1kc3M=",
        f"{KEY} # options=x",
    ],
)
def test_text_that_is_not_a_list_of_plain_keys_is_refused(text):
    with pytest.raises(UnexpectedOutput):
        parse_keys(text)


def test_keys_are_parsed_line_by_line():
    assert parse_keys(f"{KEY}\n\n{OTHER_KEY}\n") == (KEY, OTHER_KEY)


def test_an_unreachable_supervisor_raises_supervisor_unavailable(authority):
    with pytest.raises(SupervisorUnavailable):
        fetch_keys(GrpcPeer(address="localhost:1", ca=authority.certificate))


def test_the_key_that_the_server_sends_is_returned(serve):
    assert fetch_keys(serve(KEY)) == (KEY,)


def test_an_invalid_answer_is_refused(serve):
    with pytest.raises(UnexpectedOutput):
        fetch_keys(serve("* * * * * root id"))


def test_an_unwritable_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError):
        write_keys((KEY,), tmp_path / "absent" / "keys")


def test_written_file_is_world_readable_and_no_temporary_file_remains(tmp_path):
    file = tmp_path / "keys"

    assert write_keys((KEY, OTHER_KEY), file)

    assert file.read_text() == f"{KEY}\n{OTHER_KEY}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_unchanged_keys_are_not_written_again(tmp_path):
    file = tmp_path / "keys"
    write_keys((KEY,), file)
    old_status = file.stat()

    assert not write_keys((KEY,), file)
    # A write would replace the file, so the inode number would change.
    new_status = file.stat()
    assert (new_status.st_ino, new_status.st_mtime_ns) == (
        old_status.st_ino,
        old_status.st_mtime_ns,
    )
