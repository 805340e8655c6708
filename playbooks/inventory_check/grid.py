# SPDX-License-Identifier: Apache-2.0
"""The grid that the site works for: where its chain, its contracts and its services are."""

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

from gridstead.config import Chain, Endpoint, problems, without_secret
from inventory_check.problem import GRID, Problem
from inventory_check.site import Host, Site, address

# Stands for the contract of a local chain, which is there when the chain is.
UNBORN = "0x" + 20 * "b0"
ABOUT = frozenset({"gridstead_grid"})

_CHAIN = Chain.model_fields
_PLACES = {"job_definitions": "the Job Definition service", "logger": "the logger"}
_TRUST = ("ca_certificates", "ca_file")
_KEYS = frozenset({*_CHAIN, *_PLACES, *_TRUST})


def with_unborn_contract(host: Host, site: Site) -> Host:
    """Return the host with an address for contracts that this run of site.yml will only deploy."""
    grid = host.variables.get("gridstead_grid")
    if not site.groups.get("devnet") or not isinstance(grid, Mapping):
        return host
    return host.with_variables({"gridstead_grid": {**grid, "contract": UNBORN}})


def grid(site: Site) -> Iterator[Problem]:
    """Find what is wrong with ``gridstead_grid``."""
    host = site.first()
    try:
        said = host.templar.template(host.variables.get("gridstead_grid"))
    except AnsibleError as error:
        yield Problem(
            where="gridstead_grid", found=f"cannot be computed: {error.message}", about=ABOUT
        )
        return
    if not isinstance(said, Mapping):
        found = "missing" if said is None else "no table"
        yield Problem(
            where="gridstead_grid",
            found=found,
            allowed=f"a table of {', '.join(sorted(_KEYS))}",
            about=ABOUT,
        )
        return
    for key in sorted(map(str, said.keys() - _KEYS)):
        near = difflib.get_close_matches(key, _KEYS, n=1)
        meant = f"did you mean {near[0]}?" if near else ", ".join(sorted(_KEYS))
        yield Problem(
            where=f"gridstead_grid.{key}", found="nothing reads it", allowed=meant, about=ABOUT
        )
    for key, why in problems(Chain, {key: said[key] for key in _CHAIN if key in said}):
        yield _wrong(key, why, str(_CHAIN[key].description))
    for key, what in _PLACES.items():
        if why := _endpoint(said.get(key)):
            yield _wrong(key, why, f"host:port of {what}, without a scheme")
    yield from _mistyped(str(said.get("contract", "")))


def _wrong(key: str, found: str, allowed: str) -> Problem:
    where = f"gridstead_grid.{key}"
    return Problem(
        where=where, found=found, allowed=allowed.removesuffix("."), acts=GRID, about=ABOUT
    )


def _endpoint(said: Any) -> str:
    if said is None:
        return "missing"
    try:
        TypeAdapter(Endpoint).validate_python(said)
    except ValidationError as error:
        return f"{error.errors()[0]['msg'].removeprefix('Value error, ')}, found {said!r}"
    return ""


def trust(site: Site, now: datetime) -> Iterator[Problem]:
    """Find that nothing, or two things, say who vouches for the grid's services, and certificates
    that are none.
    """
    said = site.first().value("gridstead_grid")
    if not isinstance(said, Mapping):
        return
    given = [key for key in _TRUST if key in said]
    if len(given) == len(_TRUST):
        yield _wrong("ca_certificates", "ca_file is there as well", "one of them")
    elif not given and not site.groups.get("grid"):
        yield _wrong(
            "ca_certificates",
            "missing, and so is ca_file: nobody vouches for the grid's services, which are not this site's",
            "the certificate of the grid's authority, in PEM; or, for services that it has not signed, "
            "ca_file: /etc/ssl/certs/ca-certificates.crt",
        )
    if "ca_certificates" in given:
        yield from _uncertified(str(said["ca_certificates"]), now)


def _uncertified(text: str, now: datetime) -> Iterator[Problem]:
    if "PRIVATE KEY" in text:
        yield _wrong(
            "ca_certificates",
            "a private key is in it",
            "certificates alone; the key is its owner's secret",
        )
        return
    try:
        ends = min(
            one.not_valid_after_utc for one in x509.load_pem_x509_certificates(text.encode())
        )
    except ValueError as error:
        allowed = (
            "the text of certificates in PEM, as lookup('ansible.builtin.file', FILE) gives it"
        )
        yield _wrong("ca_certificates", f"no certificate: {error}", allowed)
        return
    if ends < now:
        yield _wrong(
            "ca_certificates", f"a certificate ended on {ends:%Y-%m-%d}", "those that are good now"
        )


def _mistyped(contract: str) -> Iterator[Problem]:
    cased = contract.removeprefix("0x") not in {contract[2:].lower(), contract[2:].upper()}
    if is_hex_address(contract) and cased and not is_checksum_address(contract):
        allowed = "the address as it was told; its capitals are a checksum, and they do not fit its digits"
        yield _wrong("contract", f"{contract} is mistyped", allowed)


def local_chain(site: Site) -> Iterator[Problem]:
    """Find a local chain that the services would not ask."""
    devnet = site.members("devnet")
    said = site.first().value("gridstead_grid")
    if not devnet or not isinstance(said, Mapping):
        return
    rpc_url, port = said.get("rpc_url"), devnet[0].number("devnet_port")
    is_told = any(key == "rpc_url" for key, _ in problems(Chain, {"rpc_url": rpc_url}))
    url = urlsplit("" if is_told else str(rpc_url))
    host = address(url.hostname)
    is_here = url.hostname == "localhost" or (host and host.is_loopback)
    if not is_told and not (is_here and url.port == port):
        yield Problem(
            where="gridstead_grid.rpc_url",
            found=f"{without_secret(rpc_url)}, and host {devnet[0].name} in group devnet runs a chain of its own",
            allowed=f"http://127.0.0.1:{port}, or no host in devnet",
            about=frozenset({"devnet_port"}),
        )
    for other in site.members("control_plane", "grid"):
        if other.name != devnet[0].name:
            yield Problem(
                where=f"host {other.name}",
                found=f"its services ask the local chain, which answers on host {devnet[0].name} alone",
                allowed="the groups control_plane, grid and devnet are one and the same host",
                about=frozenset({"devnet_port"}),
            )
