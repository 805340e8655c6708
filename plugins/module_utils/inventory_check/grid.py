# SPDX-License-Identifier: Apache-2.0
"""Checks ``gridstead_grid``: the chain, contracts and services that the site uses."""

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

from gridstead.config import Chain, Endpoint, redact_url, setting_diagnostics, setting_key

from .diagnostic import GRID, Diagnostic
from .inventory import Host, Inventory, address

# The check reads this address in place of that of a contract that this run deploys.
EXAMPLE_CONTRACT = "0x" + 20 * "b0"
AFFECTED_NAMES = frozenset({"gridstead_grid"})

_CHAIN = Chain.model_fields
_SERVICES = {"job_definitions": "the Job Definition service", "logger": "the logger"}
_AUTHORITY_KEYS = ("ca_certificates", "ca_file")
_KEYS = frozenset({*_CHAIN, *_SERVICES, *_AUTHORITY_KEYS})


def with_example_contract(host: Host, groups: Mapping[str, list[str]]) -> Host:
    """Return the host with an example contract if this run of site.yml deploys it."""
    grid = host.variables.get("gridstead_grid")
    if not groups.get("devnet") or not isinstance(grid, Mapping):
        return host
    return host.with_variables({"gridstead_grid": {**grid, "contract": EXAMPLE_CONTRACT}})


def check_grid(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find mistakes in ``gridstead_grid``."""
    host = inventory.first()
    try:
        table = host.templar.template(host.variables.get("gridstead_grid"))
    except AnsibleError as error:
        fault = f"cannot be computed: {error.message}"
        yield Diagnostic(where="gridstead_grid", fault=fault, affected_names=AFFECTED_NAMES)
        return
    if not isinstance(table, Mapping):
        yield Diagnostic(
            where="gridstead_grid",
            fault="missing" if table is None else "not a table",
            allowed=f"a table of {', '.join(sorted(_KEYS))}",
            affected_names=AFFECTED_NAMES,
        )
        return
    yield from _unknown_keys(table)
    chain = {key: table[key] for key in _CHAIN if key in table}
    for problem in setting_diagnostics(Chain, chain):
        key = setting_key(problem)
        yield _diagnostic(key, problem.text, str(_CHAIN[key].description))
    for key, service in _SERVICES.items():
        fault = _endpoint_fault(table.get(key))
        if fault:
            yield _diagnostic(key, fault, f"host:port of {service}, without a scheme")
    yield from _check_checksum(str(table.get("contract", "")))


def _unknown_keys(table: Mapping[str, Any]) -> Iterator[Diagnostic]:
    for key in sorted(map(str, table.keys() - _KEYS)):
        suggestions = difflib.get_close_matches(key, _KEYS, n=1)
        question = f"; did you mean {suggestions[0]}?" if suggestions else ""
        yield Diagnostic(
            where=f"gridstead_grid.{key}",
            fault=f"nothing reads this key{question}",
            allowed=", ".join(sorted(_KEYS)),
            affected_names=AFFECTED_NAMES,
        )


def _diagnostic(key: str, fault: str, allowed: str) -> Diagnostic:
    where = f"gridstead_grid.{key}"
    return Diagnostic(
        where=where,
        fault=fault,
        allowed=allowed.removesuffix("."),
        responsible=GRID,
        affected_names=AFFECTED_NAMES,
    )


def _endpoint_fault(endpoint: Any) -> str:
    if endpoint is None:
        return "missing"
    try:
        TypeAdapter(Endpoint).validate_python(endpoint)
    except ValidationError as error:
        return f"{error.errors()[0]['msg'].removeprefix('Value error, ')}, found {endpoint!r}"
    return ""


def check_trust(inventory: Inventory, now: datetime) -> Iterator[Diagnostic]:
    """Find a missing or ambiguous authority for the grid's services, and invalid certificates."""
    table = inventory.first().value("gridstead_grid")
    if not isinstance(table, Mapping):
        return
    present_keys = [key for key in _AUTHORITY_KEYS if key in table]
    if len(present_keys) == len(_AUTHORITY_KEYS):
        fault = "this key and ca_file are both set"
        yield _diagnostic("ca_certificates", fault, "only one of the two keys")
    elif not present_keys and not inventory.groups.get("grid"):
        yield _diagnostic(
            "ca_certificates",
            "this key and ca_file are both missing, and the grid's services do not run on"
            " this site, so their authority is not known",
            "the certificate of the grid's authority in PEM; if a public authority signed the"
            " certificates of the services, use ca_file: /etc/ssl/certs/ca-certificates.crt",
        )
    if "ca_certificates" in present_keys:
        yield from _certificate_faults(str(table["ca_certificates"]), now)


def _certificate_faults(text: str, now: datetime) -> Iterator[Diagnostic]:
    if "PRIVATE KEY" in text:
        allowed = "only certificates; the key is a secret of its owner"
        yield _diagnostic("ca_certificates", "the text contains a private key", allowed)
        return
    try:
        certificates = x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        allowed = "certificates in PEM, for example lookup('ansible.builtin.file', FILE)"
        yield _diagnostic("ca_certificates", f"not a certificate: {error}", allowed)
        return
    first_end = min(certificate.not_valid_after_utc for certificate in certificates)
    if first_end < now:
        fault = f"a certificate expired on {first_end:%Y-%m-%d}"
        yield _diagnostic("ca_certificates", fault, "certificates that are valid now")


def _check_checksum(contract: str) -> Iterator[Diagnostic]:
    digits = contract.removeprefix("0x")
    has_both_cases = digits not in {contract[2:].lower(), contract[2:].upper()}
    if is_hex_address(contract) and has_both_cases and not is_checksum_address(contract):
        allowed = (
            "the address as the grid publishes it; its capitals are a checksum of its digits"
            " (EIP-55)"
        )
        yield _diagnostic(
            "contract",
            f"the checksum of {contract} is wrong; the address is probably mistyped",
            allowed,
        )


def check_local_chain(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find a local chain that the services do not use or cannot reach."""
    devnet = inventory.members("devnet")
    table = inventory.first().value("gridstead_grid")
    if not devnet or not isinstance(table, Mapping):
        return
    rpc_url, port = table.get("rpc_url"), devnet[0].number("devnet_port")
    # Function check_grid() already reports an invalid URL.
    invalid_keys = [
        setting_key(problem) for problem in setting_diagnostics(Chain, {"rpc_url": rpc_url})
    ]
    is_valid = "rpc_url" not in invalid_keys
    if is_valid and not _is_local(str(rpc_url), port):
        url = redact_url(rpc_url)
        yield Diagnostic(
            where="gridstead_grid.rpc_url",
            fault=f"{url}, but host {devnet[0].name} in group devnet runs a local chain",
            allowed=f"http://127.0.0.1:{port}, or no host in devnet",
            affected_names=frozenset({"devnet_port"}),
        )
    for other_host in inventory.members("control_plane", "grid"):
        if other_host.name != devnet[0].name:
            yield Diagnostic(
                where=f"host {other_host.name}",
                fault="the services of this host use the local chain, which answers only on host"
                f" {devnet[0].name}",
                allowed="the groups control_plane, grid and devnet contain the same single host",
                affected_names=frozenset({"devnet_port"}),
            )


def _is_local(rpc_url: str, port: int | None) -> bool:
    url = urlsplit(rpc_url)
    host_address = address(url.hostname)
    is_loopback = url.hostname == "localhost" or bool(host_address and host_address.is_loopback)
    return is_loopback and url.port == port
