# SPDX-License-Identifier: Apache-2.0
"""Finds mistakes in a configuration of Traefik, from texts and from answers of its API.

The functions are pure: they read and write nothing.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

API = "traefik"  # the entry point of Traefik's API
NOWHERE = "https://127.0.0.1:9/"
KINDS = {"http": "routers", "tcp": "tcpRouters"}


def known_flags(help_text: str) -> dict[str, Any]:
    """Return the flags of ``traefik --help`` as a tree, in lower case.

    ``<name>`` in the tree matches any name.
    """
    tree: dict[str, Any] = {}
    for flag in re.findall(r"^ +--(\S+)", help_text, re.MULTILINE):
        node = tree
        for part in flag.replace("[n]", "").split("."):
            node = node.setdefault(part, {})
    return tree


def wrong_keys(document: object, known: Mapping[str, Any], path: str = "") -> list[str]:
    """Return a line for each unknown key or missing value of a static configuration, in its order.

    Args:
        document: The configuration, or a part of it.
        known: The flags below the part.
        path: The path of the part.
    """
    if document is None:
        return [f"{path} has no value"]
    if isinstance(document, dict):
        return _wrong_keys_of_table(document, known, path)
    faults: list[str] = []
    if isinstance(document, list) and any(isinstance(item, dict) for item in document):
        for item in document:
            faults += wrong_keys(item, known, path)
    elif path and _is_group(known):
        faults.append(f"{path} must have keys, not a value")
    return faults


def _wrong_keys_of_table(
    document: Mapping[Any, object], known: Mapping[str, Any], path: str
) -> list[str]:
    faults = []
    for key, value in document.items():
        key_path = f"{path}.{key}" if path else str(key)
        below = known.get(str(key).lower(), known.get("<name>"))
        if below is not None:
            faults += wrong_keys(value, below, key_path)
            continue
        near = difflib.get_close_matches(str(key).lower(), known, 1)
        suggestion = f"; did you mean {near[0]}?" if near else ""
        faults.append(f"{key_path} is unknown{suggestion}")
    return faults


def _is_group(known: Mapping[str, Any]) -> bool:
    return bool(known) and set(known) != {"<name>"}


def route_errors(rawdata: Mapping[str, Any]) -> list[str]:
    """Return a line for each router, middleware and service with an error in Traefik's API."""
    faults = []
    for kind, items in sorted(rawdata.items()):
        for name, item in sorted(items.items()):
            if item.get("error") or item.get("status", "enabled") != "enabled":
                errors = "; ".join(item.get("error", ["it does not work"]))
                faults.append(f"{kind.removesuffix('s')} {name}: {errors}")
    return faults


def missing_routes(rawdata: Mapping[str, Any], dynamic: Mapping[str, Any]) -> list[str]:
    """Return a line for each router of a dynamic configuration that Traefik does not serve."""
    faults = []
    for protocol, kind in KINDS.items():
        for name, router in (dynamic.get(protocol, {}).get("routers") or {}).items():
            served = rawdata.get(kind, {}).get(f"{name}@file", {})
            if not _is_served(router, served):
                faults.append(f"{kind.removesuffix('s')} {name} is not served as configured")
    return faults


def _is_served(router: Mapping[str, Any], served: Mapping[str, Any]) -> bool:
    middlewares = [f"{middleware}@file" for middleware in router.get("middlewares", [])]
    keys = ("rule", "service", "entryPoints")
    is_same = all(served.get(key) == router[key] for key in keys)
    return is_same and served.get("middlewares", []) == middlewares


def missing_entry_points(served: list[Mapping[str, Any]], static: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry point of a static configuration that Traefik does not have."""
    served_addresses = {}
    for served_entry in served:
        served_addresses[served_entry["name"]] = served_entry["address"]
    faults = []
    for name, entry in static["entryPoints"].items():
        if served_addresses.get(name) != entry["address"]:
            faults.append(f"entry point {name} is not {entry['address']}; restart it")
    return faults


def log_errors(text: str, *, of_files: bool = False) -> list[str]:
    """Return the errors in Traefik's own log, one line each.

    Errors of ACME are left out, because a test run does not reach the authority.

    Args:
        text: The log.
        of_files: Whether to return only errors after which Traefik ignores the dynamic files.
    """
    errors = []
    for line in text.rpartition("\n")[0].splitlines():  # the last line may be incomplete
        entry = json.loads(line) if line.startswith("{") else {"level": "error", "message": line}
        provider = str(entry.get("providerName"))
        counts = provider == "file" if of_files else not provider.endswith(".acme")
        if counts and entry.get("level") in {"error", "fatal", "panic"}:
            errors.append(": ".join(_texts_of(entry)))
    return list(dict.fromkeys(errors))


def _texts_of(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the message of an entry of the log, its router and its error, if it has them."""
    for key in ("message", "routerName", "error"):
        if key in entry:
            yield str(entry[key])


def trial_of(static: Mapping[str, Any], folder: str, addresses: Iterator[str]) -> dict[str, Any]:
    """Return a copy of a static configuration that changes nothing outside of a folder.

    Args:
        static: The configuration.
        folder: The folder of the test run.
        addresses: Addresses for its entry points, including that of its API.
    """
    trial: dict[str, Any] = json.loads(json.dumps(static))
    entries = trial.setdefault("entryPoints", {})
    entries.setdefault(API, {})
    for entry in entries.values():
        entry["address"] = next(addresses)
    trial["api"] = {"insecure": True, "dashboard": False}
    trial.setdefault("providers", {}).setdefault("file", {})["directory"] = f"{folder}/dynamic"
    trial.setdefault("log", {}).update(level="INFO", format="json", filePath="")
    trial.pop("accessLog", None)
    for resolver in trial.get("certificatesResolvers", {}).values():
        resolver.get("acme", {}).update(caServer=NOWHERE, storage=f"{folder}/acme.json")
    return trial
