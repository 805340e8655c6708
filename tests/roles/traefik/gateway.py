# SPDX-License-Identifier: Apache-2.0
"""Configurations of role traefik, and a real Traefik that uses them on free ports."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from ansible.template import trust_as_template
from ansible_collections.gridstead.site.plugins.module_utils import traefik_checks as checks
from ansible_collections.gridstead.site.plugins.modules import (
    traefik_configuration as configuration,
)
from tests.roles.catalogue import ROOT, Role
from tests.roles.conftest import LoadedInventory

ROLE = Role("traefik")
BINARY = ROOT / ".venv/traefik/bin/traefik"
MAX_STARTS = 3
ROUTE = {"name": "a", "hosts": ["a.test"], "servers": ["https://localhost:1"]}
LDAPS = {
    "traefik_ldaps_names": ["ldap.test"],
    "traefik_ldaps_servers": ["localhost:1"],
    "traefik_ldaps_allowed": ["127.0.0.1"],
}
ACME = {"traefik_acme_email": "a@b.test", "traefik_acme_server": "https://acme.test/directory"}


def render_configuration(
    site: LoadedInventory, directory: Path, **variables: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return Traefik's static and dynamic configuration as the role writes them.

    ``directory`` replaces /etc/traefik. The configuration has no routes except those that
    ``variables`` define.
    """
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    no_routes = {"traefik_routes": [], "traefik_ldaps_names": []}
    templar.available_variables |= no_routes
    templar.available_variables |= {"__traefik_directory": str(directory)}
    templar.available_variables |= variables

    def render(name: str) -> dict[str, Any]:
        text = (ROLE.path / "templates/etc/traefik" / name).read_text()
        return yaml.safe_load(str(templar.template(trust_as_template(text), convert_data=False)))

    return render("traefik.yml.j2"), render("dynamic/gridstead.yml.j2")


def module_options(folder: Path, static: dict[str, Any], dynamic: dict[str, Any]) -> dict[str, Any]:
    """Return the options of module traefik_configuration."""
    return {
        "binary": str(BINARY), "directory": str(folder), "timeout_s": 15,
        "static": json.dumps(static), "static_document": static,
        "dynamic": json.dumps(dynamic), "dynamic_document": dynamic,
    }  # fmt: skip


@dataclass(frozen=True)
class Gateway:
    """A running Traefik."""

    folder: Path
    ports: dict[str, int]
    process: subprocess.Popen[bytes]

    def query_api(self, path: str) -> Any:
        """Return the answer of Traefik's API for a path."""
        return configuration.query_api(f"127.0.0.1:{self.ports['traefik']}", path)

    def read_access_log(self) -> list[dict[str, Any]]:
        """Return the entries of the access log."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def read_log(self) -> str:
        """Return Traefik's log."""
        return (self.folder / "log").read_text()


@contextmanager
def run_traefik(folder: Path, static: dict[str, Any], dynamic: dict[str, Any]) -> Iterator[Gateway]:
    """Run Traefik on free ports instead of the usual ports, until the end of the ``with`` block.

    Another process can take a port before Traefik listens on it. Then Traefik starts again.
    """
    (folder / "dynamic").mkdir(exist_ok=True)
    (folder / "dynamic/gridstead.yml").write_text(json.dumps(dynamic))
    for _ in range(MAX_STARTS):
        gateway = start_traefik(folder, static)
        try:
            wait_until(partial(has_ended_or_serves, gateway, dynamic), gateway.read_log)
            if gateway.process.poll() is None:
                yield gateway
                return
        finally:
            gateway.process.kill()
            gateway.process.wait()
        assert "address already in use" in gateway.read_log(), gateway.read_log()
    raise AssertionError(gateway.read_log())


def start_traefik(folder: Path, static: dict[str, Any]) -> Gateway:
    """Start Traefik on free ports, and do not wait."""
    with closing(configuration.free_addresses()) as addresses:
        trial_static = checks.make_trial(static, str(folder), addresses)
    trial_static["accessLog"] = {**static["accessLog"], "filePath": str(folder / "access.log")}
    (folder / "traefik.yml").write_text(json.dumps(trial_static))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [BINARY, f"--configFile={folder}/traefik.yml"], stdout=log, stderr=log
        )
    ports = {}
    for name, entry_point in trial_static["entryPoints"].items():
        ports[name] = int(entry_point["address"].rpartition(":")[2])
    return Gateway(folder, ports, process)


def has_ended_or_serves(gateway: Gateway, dynamic: dict[str, Any]) -> bool:
    """Return whether Traefik has ended or serves all routes."""
    if gateway.process.poll() is not None:
        return True
    return checks.missing_routes(gateway.query_api("rawdata") or {}, dynamic) == []


def wait_until(
    probe: Callable[[], bool], report: Callable[[], str], timeout_s: float = 15.0
) -> None:
    """Wait until a probe returns True.

    Raises:
        AssertionError: If the probe still returns False at the timeout. The message is the text
            that ``report`` returns.
    """
    deadline = time.monotonic() + timeout_s
    while not probe():
        assert time.monotonic() < deadline, report()
        time.sleep(0.05)
