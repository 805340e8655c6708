# SPDX-License-Identifier: Apache-2.0
"""Writes Traefik's configuration after a test, and checks whether Traefik has loaded it.

Traefik has no command that checks a configuration. It ignores an unknown static key, and keeps the
old routes if a dynamic file is invalid. Therefore two checks precede every change of the files:

1. Each static key is a flag in the output of ``traefik --help``.
2. A second Traefik starts with the new files on free loopback ports. Its API and its log must
   report no error.

State ``live`` checks the running Traefik instead.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole
from ansible_collections.gridstead.site.plugins.module_utils.traefik_checks import (
    API,
    key_faults,
    known_flags,
    log_errors,
    make_trial,
    missing_entry_points,
    missing_routes,
    route_errors,
)

DOCUMENTATION = """
module: traefik_configuration
short_description: Write Traefik's configuration, or check whether Traefik has loaded it
description:
  - C(present) writes each file whose text differs. Before that, it checks the static keys, and runs
    a second Traefik with both new files on loopback.
  - C(live) changes nothing. It fails if the running Traefik has not loaded the files, or reports an
    error.
options:
  state: {choices: [present, live], default: present, description: Whether to write or to check.}
  binary: {type: path, required: true, description: Path of the program.}
  account:
    type: str
    description: User and group of the test run; by default the user of the module.
  directory:
    type: path
    required: true
    description: Folder of C(traefik.yml) and C(dynamic/gridstead.yml).
  static: {type: str, required: true, description: Text of C(traefik.yml).}
  static_document: {type: dict, required: true, description: Content of C(traefik.yml).}
  dynamic: {type: str, required: true, description: Text of C(dynamic/gridstead.yml).}
  dynamic_document: {type: dict, required: true, description: Content of C(dynamic/gridstead.yml).}
  timeout_s: {type: int, default: 20, description: Seconds in which Traefik must load the files.}
"""
EXAMPLES = """
- name: Write the configuration of Traefik
  gridstead.site.traefik_configuration:
    binary: /usr/local/bin/traefik
    account: traefik
    directory: /etc/traefik
    static: "{{ text }}"
    static_document: "{{ text | from_yaml }}"
    dynamic: "http: {}"
    dynamic_document: {http: {}}
"""
RETURN = """
static_changed: {type: bool, returned: always, description: Whether Traefik must be restarted.}
"""

POLL_INTERVAL_S = 0.1


class InvalidConfiguration(Exception):
    """Traefik rejects a configuration, or has not loaded it."""


def free_addresses() -> Generator[str]:
    """Yield loopback addresses with free ports, which stay reserved until the generator closes."""
    servers = []
    try:
        while True:
            servers.append(socket.create_server(("127.0.0.1", 0)))
            yield f"127.0.0.1:{servers[-1].getsockname()[1]}"
    finally:
        for server in servers:
            server.close()


def query_api(address: str, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON answer of Traefik's API; None if Traefik does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/api/{path}", timeout=5) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def check_keys(binary: str, static_document: Mapping[str, Any]) -> None:
    """Check that every key of the static configuration is a flag of ``traefik --help``.

    Raises:
        InvalidConfiguration: If a key is unknown, has no value, or has a value instead of keys.
    """
    help_text = subprocess.run(
        [binary, "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    faults = key_faults(static_document, known_flags(help_text))
    if faults:
        raise InvalidConfiguration("; ".join(faults))


@contextmanager
def trial(options: Mapping[str, Any]) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """Run a second Traefik with the new files and the dynamic files that the operator added.

    Yields:
        The address of the second Traefik's API, its log file and its process. If the caller is
        killed, the kernel kills this process too.
    """
    with tempfile.TemporaryDirectory(prefix="traefik-trial-") as trial_folder:
        folder = Path(trial_folder)
        (folder / "dynamic").mkdir()
        for file in Path(options["directory"], "dynamic").glob("*.*"):
            if file.name != "gridstead.yml":
                shutil.copy(file, folder / "dynamic")
        (folder / "dynamic/gridstead.yml").write_text(json.dumps(options["dynamic_document"]))
        with closing(free_addresses()) as addresses:
            trial_document = make_trial(options["static_document"], trial_folder, addresses)
        (folder / "traefik.yml").write_text(json.dumps(trial_document))
        account = options.get("account")
        if account:
            for path in (folder, folder / "dynamic"):
                shutil.chown(path, account, account)
        log = folder / "log"
        process = start(options["binary"], folder, account, log)
        try:
            yield trial_document["entryPoints"][API]["address"], log, process
        finally:
            process.kill()
            process.wait()


def start(binary: str, folder: Path, account: str | None, log: Path) -> subprocess.Popen[bytes]:
    """Start Traefik with the files of a folder and return its process."""
    identity = {"user": account, "group": account, "extra_groups": []} if account else {}
    argv = ["setpriv", "--pdeathsig=KILL", binary, f"--configFile={folder}/traefik.yml"]
    with log.open("wb") as stream:
        return subprocess.Popen(argv, stdout=stream, stderr=stream, **identity)


def missing_authorities(dynamic_document: Mapping[str, Any]) -> list[str]:
    """Return a line for each missing file with certificate authorities.

    Traefik reports no error for such a file, but then trusts no server.
    """
    transports = dynamic_document.get("http", {}).get("serversTransports", {}).values()
    paths: list[str] = []
    for transport in transports:
        paths += transport.get("rootCAs", [])
    return [f"{path} is not a file" for path in paths if not Path(path).is_file()]


def check_trial(options: Mapping[str, Any]) -> None:
    """Check with a second Traefik that both documents are accepted and every route works.

    Raises:
        InvalidConfiguration: If Traefik exits, reports an error, or does not load the routes in
            time, or if a file with certificate authorities is missing.
    """
    dynamic_document, timeout_s = options["dynamic_document"], options["timeout_s"]
    deadline = time.monotonic() + timeout_s
    with trial(options) as (address, log, process):
        rawdata = {}
        load_faults = [f"Traefik did not answer within {timeout_s} s"]
        while load_faults:
            if process.poll() is not None or time.monotonic() >= deadline:
                break
            if log_errors(log.read_text(), of_files=True):
                break
            time.sleep(POLL_INTERVAL_S)
            answer = query_api(address, "rawdata")
            if answer is not None:
                rawdata = answer
                load_faults = missing_routes(rawdata, dynamic_document)
        # Only the first list with faults is reported.
        faults = (
            missing_authorities(dynamic_document)
            or route_errors(rawdata)
            or log_errors(log.read_text())
            or load_faults
        )
    if faults:
        raise InvalidConfiguration("; ".join(faults))


def check_live(options: Mapping[str, Any]) -> None:
    """Check that the running Traefik has loaded both documents without an error.

    Raises:
        InvalidConfiguration: If Traefik has not loaded both documents within ``timeout_s`` seconds,
            or reports an error.
    """
    static_document, dynamic_document = options["static_document"], options["dynamic_document"]
    address = static_document["entryPoints"][API]["address"]
    deadline = time.monotonic() + options["timeout_s"]
    while True:
        rawdata, entries = query_api(address, "rawdata"), query_api(address, "entrypoints")
        if rawdata is None or entries is None:
            faults = [f"Traefik does not answer on {address}"]
        else:
            faults = (
                missing_entry_points(entries, static_document)
                + missing_routes(rawdata, dynamic_document)
                + route_errors(rawdata)
            )
        if not faults:
            return
        if time.monotonic() >= deadline:
            raise InvalidConfiguration("; ".join(faults))
        time.sleep(POLL_INTERVAL_S)


def write_files(options: Mapping[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Check both files, write them, and return the result of the module.

    Raises:
        InvalidConfiguration: If a check fails. Then no file changes.
    """
    directory = Path(options["directory"])
    texts = {
        directory / "traefik.yml": options["static"],
        directory / "dynamic/gridstead.yml": options["dynamic"],
    }
    changed_paths, diff = [], []
    for path, text in texts.items():
        before = path.read_text() if path.exists() else ""
        if before != text:
            changed_paths.append(path)
            diff.append({"before": before, "after": text, "path": str(path)})
    # In check mode the program may not be installed yet. Then the files are not checked.
    can_check = not check_mode or Path(options["binary"]).exists()
    if changed_paths and can_check:
        check_keys(options["binary"], options["static_document"])
        check_trial(options)
    if not check_mode:
        for path in changed_paths:
            write_whole(path, texts[path].encode(), mode=0o644)
    return {
        "changed": bool(changed_paths),
        "static_changed": directory / "traefik.yml" in changed_paths,
        "diff": diff,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "state": {"choices": ["present", "live"], "default": "present"},
            "binary": {"type": "path", "required": True},
            "account": {"type": "str"},
            "directory": {"type": "path", "required": True},
            "static": {"type": "str", "required": True},
            "static_document": {"type": "dict", "required": True},
            "dynamic": {"type": "str", "required": True},
            "dynamic_document": {"type": "dict", "required": True},
            "timeout_s": {"type": "int", "default": 20},
        },
    )
    try:
        if module.params["state"] == "live":
            check_live(module.params)
            module.exit_json(changed=False, static_changed=False)
        module.exit_json(**write_files(module.params, check_mode=module.check_mode))
    except InvalidConfiguration as err:
        module.fail_json(msg=f"Traefik's configuration: {err}")


if __name__ == "__main__":
    main()
