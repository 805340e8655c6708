# SPDX-License-Identifier: Apache-2.0
"""Checks the description of the site's grid: its chain, contracts and services."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from ansible.errors import AnsibleError
from cryptography import x509
from eth_utils import is_checksum_address, is_hex_address
from pydantic import TypeAdapter, ValidationError

from gridstead.config import Chain, Endpoint, key_of, problems, without_secret

from .diagnostic import GRID, Diagnostic
from .inventory import Host, Inventory, address

# Placeholder for the contract of a local chain, which exists only once the chain runs.
UNBORN = "0x" + 20 * "b0"
ABOUT = frozenset({"gridstead_grid"})

_CHAIN = Chain.model_fields
_PLACES = {"job_definitions": "the Job Definition service", "logger": "the logger"}
_TRUST = ("ca_certificates", "ca_file")
_KEYS = frozenset({*_CHAIN, *_PLACES, *_TRUST})


def with_unborn_contract(host: Host, inventory: Inventory) -> Host:
    """Return the host with a placeholder address if this run of site.yml deploys the contracts."""
    grid = host.variables.get("gridstead_grid")
    if not inventory.groups.get("devnet") or not isinstance(grid, Mapping):
        return host
    return host.with_variables({"gridstead_grid": {**grid, "contract": UNBORN}})


def grid(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes in ``gridstead_grid``."""
    host = inventory.first()
    try:
        table = host.templar.template(host.variables.get("gridstead_grid"))
    except AnsibleError as error:
        fault = f"cannot be computed: {error.message}"
        yield Diagnostic(where="gridstead_grid", seen=fault, about=ABOUT)
        return
    if not isinstance(table, Mapping):
        yield Diagnostic(
            where="gridstead_grid",
            seen="missing" if table is None else "not a table",
            allowed=f"a table of {', '.join(sorted(_KEYS))}",
            about=ABOUT,
        )
        return
    yield from _unknown_keys(table)
    chain = {key: table[key] for key in _CHAIN if key in table}
    for wrong in problems(Chain, chain):
        key, fault = key_of(wrong), wrong.text
        yield _wrong(key, fault, str(_CHAIN[key].description))
    for key, service in _PLACES.items():
        fault = _endpoint_fault(table.get(key))
        if fault:
            yield _wrong(key, fault, f"host:port of {service}, without a scheme")
    yield from _mistyped(str(table.get("contract", "")))


def _unknown_keys(table: Mapping[str, Any]) -> Iterator[Diagnostic]:
    for key in sorted(map(str, table.keys() - _KEYS)):
        near = difflib.get_close_matches(key, _KEYS, n=1)
        yield Diagnostic(
            where=f"gridstead_grid.{key}",
            seen="nothing reads it",
            allowed=f"did you mean {near[0]}?" if near else ", ".join(sorted(_KEYS)),
            about=ABOUT,
        )


def _wrong(key: str, fault: str, allowed: str) -> Diagnostic:
    where = f"gridstead_grid.{key}"
    return Diagnostic(
        where=where, seen=fault, allowed=allowed.removesuffix("."), acts=GRID, about=ABOUT
    )


def _endpoint_fault(endpoint: Any) -> str:
    if endpoint is None:
        return "missing"
    try:
        TypeAdapter(Endpoint).validate_python(endpoint)
    except ValidationError as error:
        return f"{error.errors()[0]['msg'].removeprefix('Value error, ')}, found {endpoint!r}"
    return ""


def trust(inventory: Inventory, now: datetime) -> Iterator[Diagnostic]:
    """Find a missing or ambiguous authority for the grid's services, and invalid certificates."""
    table = inventory.first().value("gridstead_grid")
    if not isinstance(table, Mapping):
        return
    given = [key for key in _TRUST if key in table]
    if len(given) == len(_TRUST):
        yield _wrong("ca_certificates", "ca_file is set as well", "only one of them")
    elif not given and not inventory.groups.get("grid"):
        yield _wrong(
            "ca_certificates",
            "missing, and ca_file too: the grid's services do not run on this site, so their"
            " authority is not known",
            "the certificate of the grid's authority, in PEM; or, for services that another"
            " authority has signed, ca_file: /etc/ssl/certs/ca-certificates.crt",
        )
    if "ca_certificates" in given:
        yield from _certificate_faults(str(table["ca_certificates"]), now)


def _certificate_faults(text: str, now: datetime) -> Iterator[Diagnostic]:
    if "PRIVATE KEY" in text:
        allowed = "only certificates; the key is a secret of its owner"
        yield _wrong("ca_certificates", "it contains a private key", allowed)
        return
    try:
        certificates = x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        allowed = "the text of certificates in PEM, as lookup('ansible.builtin.file', FILE) gives"
        yield _wrong("ca_certificates", f"no certificate: {error}", allowed)
        return
    ends = [certificate.not_valid_after_utc for certificate in certificates]
    if min(ends) < now:
        fault = f"a certificate expired on {min(ends):%Y-%m-%d}"
        yield _wrong("ca_certificates", fault, "certificates that are valid now")


def _mistyped(contract: str) -> Iterator[Diagnostic]:
    digits = contract.removeprefix("0x")
    has_both_cases = digits not in {contract[2:].lower(), contract[2:].upper()}
    if is_hex_address(contract) and has_both_cases and not is_checksum_address(contract):
        allowed = (
            "the address as the grid publishes it; its capitals are a checksum and do not match"
            " its digits"
        )
        yield _wrong("contract", f"{contract} is mistyped", allowed)


def local_chain(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find a local chain that the services would not use."""
    devnet = inventory.members("devnet")
    table = inventory.first().value("gridstead_grid")
    if not devnet or not isinstance(table, Mapping):
        return
    rpc_url, port = table.get("rpc_url"), devnet[0].number("devnet_port")
    # Function grid() reports an invalid URL.
    is_valid = "rpc_url" not in map(key_of, problems(Chain, {"rpc_url": rpc_url}))
    if is_valid and not _is_local(str(rpc_url), port):
        url = without_secret(rpc_url)
        yield Diagnostic(
            where="gridstead_grid.rpc_url",
            seen=f"{url}, but host {devnet[0].name} in group devnet runs a local chain",
            allowed=f"http://127.0.0.1:{port}, or no host in devnet",
            about=frozenset({"devnet_port"}),
        )
    for other in inventory.members("control_plane", "grid"):
        if other.name != devnet[0].name:
            yield Diagnostic(
                where=f"host {other.name}",
                seen="its services use the local chain, which answers only on host"
                f" {devnet[0].name}",
                allowed="the groups control_plane, grid and devnet contain the same single host",
                about=frozenset({"devnet_port"}),
            )


def _is_local(rpc_url: str, port: int | None) -> bool:
    url = urlsplit(rpc_url)
    host_address = address(url.hostname)
    is_loopback = url.hostname == "localhost" or bool(host_address and host_address.is_loopback)
    return is_loopback and url.port == port
