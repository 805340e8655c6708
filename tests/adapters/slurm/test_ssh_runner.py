# SPDX-License-Identifier: Apache-2.0
"""SshRunner with a server that accepts the connection but opens no channel."""

from __future__ import annotations

import socket
import threading

import paramiko
import pytest

from gridstead.adapters.slurm import ssh
from gridstead.adapters.slurm.runner import Command
from gridstead.errors import SchedulerUnavailable

TIMEOUT_S = 10


class ServerWithoutChannels(paramiko.ServerInterface):
    """Accepts every key, but does not answer the request for a channel until ``stop`` is set."""

    def __init__(self, stop):
        self._stop = stop

    def check_auth_publickey(self, _username, _key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, _kind, _number):
        self._stop.wait(TIMEOUT_S)
        return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED


@pytest.fixture
def access(tmp_path):
    """Start a server that does not answer the request for a channel, and yield its access data."""
    host_key = paramiko.ECDSAKey.generate()
    user_key = paramiko.ECDSAKey.generate()
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    transports = []

    def serve():
        connection, _ = listener.accept()
        transport = paramiko.Transport(connection)
        transports.append(transport)
        transport.add_server_key(host_key)
        transport.start_server(event=threading.Event(), server=ServerWithoutChannels(stop))

    server = threading.Thread(target=serve)
    server.start()
    key_file = tmp_path / "key"
    known_hosts_file = tmp_path / "known_hosts"
    user_key.write_private_key_file(str(key_file))
    known_hosts_file.write_text(
        f"[127.0.0.1]:{port} {host_key.get_name()} {host_key.get_base64()}\n"
    )
    yield ssh.SshAccess(
        endpoint=f"127.0.0.1:{port}",
        user="operator",
        key_file=key_file,
        known_hosts_file=known_hosts_file,
    )
    stop.set()
    server.join(TIMEOUT_S)
    for transport in transports:
        transport.close()
    listener.close()


def test_a_server_that_opens_no_channel_causes_a_timeout(access, monkeypatch):
    monkeypatch.setattr(ssh, "_CONNECT_TIMEOUT_S", 1)
    runner = ssh.SshRunner(access)

    with pytest.raises(SchedulerUnavailable, match="Timeout opening channel"):
        runner.run(Command(argv=("squeue",), environment={}))

    runner.close()
