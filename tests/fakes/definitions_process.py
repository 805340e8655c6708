# SPDX-License-Identifier: Apache-2.0
"""`gridstead job-definitions run` as a process on the loopback interface, with a real chain."""

from __future__ import annotations

from pathlib import Path

from tests.devnet import CHAIN_ID, Devnet
from tests.fakes.certificates import Authority
from tests.fakes.service_process import ServiceProcess, free_port

from gridstead.adapters.channel import GrpcPeer

KEY = "a-key-of-the-tests-that-seals-stored-scripts"


class DefinitionsProcess(ServiceProcess):
    """The service process, with its files in an existing folder.

    Args:
        folder: Folder of the certificate, keys, settings and output, and of an SQLite store.
        devnet: The chain.
        state_url: URL of the store; empty for an SQLite file in the folder.
        keys: Content of the storage key file.
        tables: Tables that are added to the settings or replace default tables, by name.
    """

    def __init__(
        self,
        folder: Path,
        devnet: Devnet,
        *,
        state_url: str = "",
        keys: str = KEY,
        **tables: dict[str, object],
    ) -> None:
        self.authority = Authority(folder)
        files = self.authority.issue("job-definitions")
        self.http_port, self.grpc_port = free_port(), free_port()
        self.state_url = state_url or f"sqlite:///{folder}/state.db"
        self.key_file = folder / "storage-keys"
        self.key_file.write_text(keys)
        (folder / "token-key").write_bytes(b"k" * 32)
        settings = {
            "": {  # the settings that are in no table
                "graphql_listen": f"127.0.0.1:{self.http_port}",
                "grpc_listen": f"127.0.0.1:{self.grpc_port}",
                "state_url": self.state_url,
                "storage_key_file": str(self.key_file),
                "log_token_key_file": str(folder / "token-key"),
                "logger_endpoint": "localhost:8445",
            },
            "chain": {
                "rpc_url": devnet.anvil.url,
                "chain_id": CHAIN_ID,
                "contract": devnet.addresses["MetaScheduler"],
                "confirmations": 1,
            },
            "tls": {"certificate_file": str(files.certificate), "key_file": str(files.key)},
        }
        super().__init__(
            "job-definitions",
            folder,
            settings | tables,
            ports=(self.http_port, self.grpc_port),
        )

    @property
    def url(self) -> str:
        return f"https://localhost:{self.http_port}/graphql"

    @property
    def peer(self) -> GrpcPeer:
        return GrpcPeer(address=f"localhost:{self.grpc_port}", ca=self.authority.certificate)
