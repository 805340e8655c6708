# SPDX-License-Identifier: Apache-2.0
"""gridstead job-definitions run."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.journal.database import Database
from gridstead.adapters.modules import GitModules
from gridstead.adapters.scripts import Scripts
from gridstead.config import JobDefinitionsSettings, Tls
from gridstead.errors import ConfigError
from gridstead.rpc.graphql import GraphqlServer
from gridstead.rpc.job_definitions import SBatchServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.job_definitions import JobDefinitions, LoggerAccess
from gridstead.wiring import loop
from gridstead.wiring.chain import open_chain


def run(settings: JobDefinitionsSettings) -> None:
    """Run the Job Definition service until it is stopped."""
    database = Database(settings.state_url)
    clock = SystemClock()
    service = JobDefinitions(
        store=Scripts(database),
        ledger=open_chain(settings.chain).ledger,
        clock=clock,
        recover=recover,
        logger=LoggerAccess(url=settings.logger_endpoint, key=read_key(settings.log_token_key_file)),
        modules=GitModules(settings.module_hosts, clock=clock, ca_file=settings.module_ca_file),
    )
    files = to_files(settings.tls)
    host, _, port = settings.graphql_listen.rpartition(":")
    graphql = GraphqlServer(
        host=host, port=int(port), tls=files, submit=service.submit, introspection=settings.introspection
    )
    sbatch = SBatchServer(settings.grpc_listen, files, challenge=service.challenge, get_sbatch=service.get_sbatch)
    graphql.start()
    sbatch.start()
    loop.run((), close=(database.close, sbatch.stop, graphql.stop))


def to_files(settings: Tls) -> TlsFiles:
    """Return where a server's certificate lies."""
    return TlsFiles(certificate=settings.certificate_file, key=settings.key_file)


def read_key(path: Path) -> bytes:
    """Return the key of a file, without the line end that an editor leaves.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error
