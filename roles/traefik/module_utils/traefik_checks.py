# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a configuration of Traefik, from its texts and answers. Pure; reads and writes
nothing.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

API = "traefik"  # the entry point that Traefik itself gives its API
NOWHERE = "https://127.0.0.1:9/"
KINDS = {"http": "routers", "tcp": "tcpRouters"}


def known_flags(help_text: str) -> dict[str, Any]:
    """Return the flags of ``traefik --help`` as a tree, in small letters; ``<name>`` stands for any
    name.
    """
    tree: dict[str, Any] = {}
    for flag in re.findall(r"^ +--(\S+)", help_text, re.MULTILINE):
        node = tree
        for part in flag.replace("[n]", "").split("."):
            node = node.setdefault(part, {})
    return tree


def wrong_keys(document: object, known: Mapping[str, Any], path: str = "") -> list[str]:
    """Return what is wrong with the keys of a static configuration, one line each, in its order.

    Args:
        document: The configuration, or a part of it.
        known: The flags beneath it.
        path: The part's own key, with those above it.
    """
    if isinstance(document, list) and any(isinstance(item, dict) for item in document):
        return [line for item in document for line in wrong_keys(item, known, path)]
    if document is None:
        return [f"{path} has no value"]
    if not isinstance(document, dict):
        return [f"{path} has keys of its own, and no value"] if path and _is_group(known) else []
    found = []
    for key, value in document.items():
        here = f"{path}.{key}" if path else str(key)
        beneath = known.get(str(key).lower(), known.get("<name>"))
        if beneath is None:
            near = difflib.get_close_matches(str(key).lower(), known, 1)
            found.append(f"{here} is unknown" + (f"; there is {near[0]}" if near else ""))
        else:
            found += wrong_keys(value, beneath, here)
    return found


def _is_group(known: Mapping[str, Any]) -> bool:
    return bool(known) and set(known) != {"<name>"}


def route_errors(rawdata: Mapping[str, Any]) -> list[str]:
    """Return what Traefik's API says is wrong with its routers, middlewares and services, one line
    each.
    """
    return [
        f"{kind.removesuffix('s')} {name}: {'; '.join(item.get('error', ['it does not work']))}"
        for kind, items in sorted(rawdata.items())
        for name, item in sorted(items.items())
        if item.get("error") or item.get("status", "enabled") != "enabled"
    ]


def missing_routes(rawdata: Mapping[str, Any], dynamic: Mapping[str, Any]) -> list[str]:
    """Return the routers of a dynamic configuration that Traefik does not have as they are written,
    one line each.
    """
    found = []
    for protocol, kind in KINDS.items():
        for name, wanted in (dynamic.get(protocol, {}).get("routers") or {}).items():
            middlewares = [f"{one}@file" for one in wanted.get("middlewares", [])]
            expected = (wanted["rule"], wanted["service"], wanted["entryPoints"], middlewares)
            served = rawdata.get(kind, {}).get(f"{name}@file", {})
            if expected != (
                *map(served.get, ("rule", "service", "entryPoints")),
                served.get("middlewares", []),
            ):
                found.append(f"{kind.removesuffix('s')} {name} is not served as it is written")
    return found


def missing_entry_points(served: list[Mapping[str, Any]], static: Mapping[str, Any]) -> list[str]:
    """Return the entry points of a static configuration that Traefik does not listen on, one line
    each.
    """
    open_ = {one["name"]: one["address"] for one in served}
    wanted = {name: entry["address"] for name, entry in static["entryPoints"].items()}
    return [
        f"entry point {name} is not {at}; restart it"
        for name, at in wanted.items()
        if open_.get(name) != at
    ]


def log_errors(text: str, *, of_files: bool = False) -> list[str]:
    """Return the errors in Traefik's own log, one line each. A certificate's authority is not
    reached in a trial.

    Args:
        text: The log.
        of_files: Whether only those count after which Traefik takes nothing of the dynamic files.
    """
    found = []
    for line in text.rpartition("\n")[0].splitlines():  # the last one may not be complete
        entry = json.loads(line) if line.startswith("{") else {"level": "error", "message": line}
        provider = str(entry.get("providerName"))
        counts = provider == "file" if of_files else not provider.endswith(".acme")
        if counts and entry.get("level") in {"error", "fatal", "panic"}:
            found.append(
                ": ".join(
                    str(entry[key]) for key in ("message", "routerName", "error") if key in entry
                )
            )
    return list(dict.fromkeys(found))


def trial_of(static: Mapping[str, Any], folder: str, addresses: Iterator[str]) -> dict[str, Any]:
    """Return a static configuration changed so that it touches nothing.

    Args:
        static: The configuration.
        folder: Where the trial has its files.
        addresses: For its entry points, one of which is that of its API.
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
