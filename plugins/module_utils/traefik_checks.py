# SPDX-License-Identifier: Apache-2.0
"""Finds mistakes in Traefik's configuration, in its log, and in the answers of its API.

The functions read and write no files and send no requests.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

API = "traefik"  # the entry point of Traefik's API
UNREACHABLE_URL = "https://127.0.0.1:9/"
API_KEYS = {"http": "routers", "tcp": "tcpRouters"}  # key of the routers in rawdata by protocol


def known_flags(help_text: str) -> dict[str, Any]:
    """Return the flags of ``traefik --help`` as a tree, in lower case.

    ``<name>`` in the tree matches any name.
    """
    tree: dict[str, Any] = {}
    # A line of the help is, for example, ``    --entrypoints.<name>.address  (Default: "")``. In a
    # flag, ``[n]`` is the index of a list.
    for flag in re.findall(r"^ +--(\S+)", help_text, re.MULTILINE):
        node = tree
        for part in flag.replace("[n]", "").split("."):
            node = node.setdefault(part, {})
    return tree


def key_faults(document: object, flags: Mapping[str, Any], path: str = "") -> list[str]:
    """Return a line for each unknown key or missing value of a static configuration, in order.

    Args:
        document: The configuration, or a part of it.
        flags: The part of the tree of `known_flags` that describes this part.
        path: The path of this part in the configuration.
    """
    if document is None:
        return [f"{path} has no value"]
    if isinstance(document, dict):
        return _key_faults_of_table(document, flags, path)
    faults: list[str] = []
    if isinstance(document, list) and any(isinstance(item, dict) for item in document):
        for item in document:
            faults += key_faults(item, flags, path)
    elif path and _is_group(flags):
        faults.append(f"{path} must have keys, not a value")
    return faults


def _key_faults_of_table(
    document: Mapping[Any, object], flags: Mapping[str, Any], path: str
) -> list[str]:
    faults = []
    for key, value in document.items():
        key_path = f"{path}.{key}" if path else str(key)
        flags_below = flags.get(str(key).lower(), flags.get("<name>"))
        if flags_below is not None:
            faults += key_faults(value, flags_below, key_path)
            continue
        similar_keys = difflib.get_close_matches(str(key).lower(), flags, 1)
        suggestion = f"; did you mean {similar_keys[0]}?" if similar_keys else ""
        faults.append(f"{key_path} is unknown{suggestion}")
    return faults


def _is_group(flags: Mapping[str, Any]) -> bool:
    """Return whether a key must be a table that contains certain keys.

    Args:
        flags: The part of the tree of `known_flags` below the key.
    """
    return bool(flags) and set(flags) != {"<name>"}


def route_errors(rawdata: Mapping[str, Any]) -> list[str]:
    """Return a line for each router, middleware and service with an error in Traefik's API."""
    faults = []
    for kind, parts in sorted(rawdata.items()):
        for name, part in sorted(parts.items()):
            if part.get("error") or part.get("status", "enabled") != "enabled":
                errors = "; ".join(part.get("error", ["it does not work"]))
                faults.append(f"{kind.removesuffix('s')} {name}: {errors}")
    return faults


def missing_routes(rawdata: Mapping[str, Any], dynamic: Mapping[str, Any]) -> list[str]:
    """Return a line for each router of a dynamic configuration that Traefik does not serve."""
    faults = []
    for protocol, api_key in API_KEYS.items():
        routers = dynamic.get(protocol, {}).get("routers") or {}
        for name, router in routers.items():
            served_router = rawdata.get(api_key, {}).get(f"{name}@file", {})
            if not _is_served(router, served_router):
                faults.append(f"{api_key.removesuffix('s')} {name} is not served as configured")
    return faults


def _is_served(router: Mapping[str, Any], served_router: Mapping[str, Any]) -> bool:
    for key in ("rule", "service", "entryPoints"):
        if served_router.get(key) != router[key]:
            return False
    # Traefik appends the name of the provider, here "file", to each middleware.
    expected_middlewares = [f"{name}@file" for name in router.get("middlewares", [])]
    return served_router.get("middlewares", []) == expected_middlewares


def missing_entry_points(served: list[Mapping[str, Any]], static: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry point of a static configuration that Traefik does not have."""
    served_addresses = {}
    for served_entry in served:
        served_addresses[served_entry["name"]] = served_entry["address"]
    faults = []
    for name, entry in static["entryPoints"].items():
        if served_addresses.get(name) != entry["address"]:
            faults.append(f"entry point {name} is not {entry['address']}; restart Traefik")
    return faults


def log_errors(text: str, *, only_file_provider: bool = False) -> list[str]:
    """Return the errors in a log of Traefik, one line each.

    Errors of ACME are left out, because a test run cannot reach the ACME server.

    Args:
        text: The log.
        only_file_provider: Whether to return only errors of the file provider. After such an error
            Traefik ignores the dynamic files.
    """
    errors = []
    for line in text.rpartition("\n")[0].splitlines():  # the last line may be incomplete
        entry = json.loads(line) if line.startswith("{") else {"level": "error", "message": line}
        provider = str(entry.get("providerName"))
        if only_file_provider and provider != "file":
            continue
        if not provider.endswith(".acme") and entry.get("level") in {"error", "fatal", "panic"}:
            errors.append(": ".join(_texts_of(entry)))
    return list(dict.fromkeys(errors))


def _texts_of(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the message, the router and the error of a log entry, if present."""
    for key in ("message", "routerName", "error"):
        if key in entry:
            yield str(entry[key])


def make_trial(static: Mapping[str, Any], folder: str, addresses: Iterator[str]) -> dict[str, Any]:
    """Return a copy of a static configuration, changed for a test run.

    Args:
        static: The configuration.
        folder: The folder of the test run. Traefik writes only to this folder.
        addresses: Addresses for the entry points and the API.
    """
    trial: dict[str, Any] = json.loads(json.dumps(static))
    entry_points = trial.setdefault("entryPoints", {})
    entry_points.setdefault(API, {})
    for entry_point in entry_points.values():
        entry_point["address"] = next(addresses)
    trial["api"] = {"insecure": True, "dashboard": False}
    trial.setdefault("providers", {}).setdefault("file", {})["directory"] = f"{folder}/dynamic"
    trial.setdefault("log", {}).update(level="INFO", format="json", filePath="")
    trial.pop("accessLog", None)
    for resolver in trial.get("certificatesResolvers", {}).values():
        resolver.get("acme", {}).update(caServer=UNREACHABLE_URL, storage=f"{folder}/acme.json")
    return trial
