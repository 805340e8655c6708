# SPDX-License-Identifier: Apache-2.0
"""Role traefik's configuration in a real Traefik on free ports of the loopback interface."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
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


# Where Ansible puts it for the modules.


def documents(
    site: LoadedInventory, directory: Path, **variables: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the static and the dynamic configuration that the role writes with these variables."""
    templar = site.templar(ROLE, site.hosts_of(ROLE)[0])
    none = {"traefik_routes": [], "traefik_ldaps_names": []}
    templar.available_variables |= none | {"__traefik_directory": str(directory)} | variables

    def render(name: str) -> dict[str, Any]:
        text = (ROLE.path / "templates/etc/traefik" / name).read_text()
        return yaml.safe_load(str(templar.template(trust_as_template(text), convert_data=False)))

    return render("traefik.yml.j2"), render("dynamic/gridstead.yml.j2")


@dataclass(frozen=True)
class Gateway:
    """A running Traefik."""

    folder: Path
    ports: dict[str, int]
    process: subprocess.Popen[bytes]

    def ask(self, path: str) -> Any:
        """Return an answer of Traefik's API."""
        return configuration.query_api(f"127.0.0.1:{self.ports['traefik']}", path)

    def accessed(self) -> list[dict[str, Any]]:
        """Return the access log."""
        return [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]

    def log(self) -> str:
        """Return Traefik's log."""
        return (self.folder / "log").read_text()


@contextmanager
def running(folder: Path, static: dict[str, Any], dynamic: dict[str, Any]) -> Iterator[Gateway]:
    """Run Traefik with both documents until the end of the block."""
    with closing(configuration.free_addresses()) as addresses:
        served = checks.make_trial(static, str(folder), addresses)
    served["accessLog"] = {**static["accessLog"], "filePath": str(folder / "access.log")}
    (folder / "dynamic").mkdir(exist_ok=True)
    (folder / "dynamic/gridstead.yml").write_text(json.dumps(dynamic))
    (folder / "traefik.yml").write_text(json.dumps(served))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [BINARY, f"--configFile={folder}/traefik.yml"], stdout=log, stderr=log
        )
    ports = {
        name: int(entry["address"].rpartition(":")[2])
        for name, entry in served["entryPoints"].items()
    }
    gateway = Gateway(folder, ports, process)
    try:
        until(
            lambda: checks.missing_routes(gateway.ask("rawdata") or {}, dynamic) == [], gateway.log
        )
        yield gateway
    finally:
        process.kill()
        process.wait()


def until(probe: Any, report: Any, timeout_s: float = 15.0) -> None:
    """Wait until a probe is true."""
    end = time.monotonic() + timeout_s
    while not probe():
        assert time.monotonic() < end, report()
        time.sleep(0.05)
